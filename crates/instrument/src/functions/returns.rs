//! Which return addresses are known to be hooked: a table that translated code looks at.
//!
//! Each address has one place in it. What another one has taken the place of is looked up where
//! all hooks are.

use std::sync::atomic::{AtomicU64, Ordering};

/// How many places the table has.
const PLACES: usize = 1 << 14;
/// The bits of an address that say which is its place.
pub(crate) const PLACE_BITS: i32 = PLACES as i32 - 1;

static KNOWN: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

/// Where the table is: a word for each place.
pub(crate) fn table() -> u64 {
    KNOWN.as_ptr() as u64
}

fn place(address: u64) -> &'static AtomicU64 {
    &KNOWN[address as usize % PLACES]
}

/// Whether an address is known to be hooked.
pub(super) fn is_known(address: u64) -> bool {
    place(address).load(Ordering::Relaxed) == address
}

/// An address is hooked. To be called by who may change the hooks.
pub(super) fn note(address: u64) {
    place(address).store(address, Ordering::Relaxed);
}

/// Some addresses are not hooked any more. To be called by who may change the hooks.
pub(super) fn forget() {
    for place in &KNOWN {
        place.store(0, Ordering::Relaxed);
    }
}
