//! Places: numbers for the threads that exist in parallel regions at one time, so that time
//! can be added up by processor although runtimes end threads and start others.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_openmp_record::layout::header;

use crate::arena;

const WORDS: usize = 64;

static TAKEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
static COUNT: AtomicU64 = AtomicU64::new(0);

/// More threads than there are places for share the last one.
const LAST: u64 = WORDS as u64 * 64 - 1;

/// Takes the wanted place, or the next that is free.
pub(crate) fn take(wanted: u64) -> u64 {
    let mut place = wanted.min(LAST);
    while place < LAST && !take_exactly(place) {
        place += 1;
    }
    let count = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    if let Some(header) = arena::header()
        && header.get(header::PEAK_THREADS) < count
    {
        header.raise_shared(header::PEAK_THREADS, count);
    }
    place
}

fn take_exactly(place: u64) -> bool {
    let bit = 1 << (place % 64);
    TAKEN[(place / 64) as usize].fetch_or(bit, Ordering::Relaxed) & bit == 0
}

/// Gives a place back.
pub(crate) fn give_back(place: u64) {
    let bit = 1u64 << (place % 64);
    TAKEN[(place / 64) as usize].fetch_and(!bit, Ordering::Relaxed);
    COUNT.fetch_sub(1, Ordering::Relaxed);
}

/// Starts anew, in a child.
pub(crate) fn forget() {
    for word in &TAKEN {
        word.store(0, Ordering::Relaxed);
    }
    COUNT.store(0, Ordering::Relaxed);
}
