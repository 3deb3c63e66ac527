//! The counter of tickets.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_kernel::layout;

/// The counter from which tickets are drawn, and the locks under which atomic instructions
/// draw them. Below 2 GiB, so that emitted code names them directly.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tickets {
    /// Address of the counter: tickets drawn so far.
    pub(crate) counter: u64,
    /// Address of the locks, 8 bytes each.
    pub locks: u64,
    /// Their number, a power of two.
    pub(crate) lock_count: u64,
}

/// The spill slot of the address of a held ticket lock.
pub(crate) const LOCK_SPILL: u8 = 7;

impl Tickets {
    const LOCKS: u64 = 1 << 12;

    pub(crate) fn reserve() -> std::io::Result<Tickets> {
        let counter = layout::tickets();
        layout::open(counter, 4096 + Tickets::LOCKS * 8)?;
        Ok(Tickets {
            counter,
            locks: counter + 4096,
            lock_count: Tickets::LOCKS,
        })
    }

    pub(crate) fn counter(&self) -> &'static AtomicU64 {
        // SAFETY: the counter is mapped for the life of the process and only used atomically.
        unsafe { AtomicU64::from_ptr(self.counter as *mut u64) }
    }

    /// Draws a ticket: 1, 2, 3, …
    pub(crate) fn draw(&self) -> u64 {
        self.counter().fetch_add(1, Ordering::SeqCst) + 1
    }
}
