//! Where a thread's counters lie: at the same distance below the thread pointer in every thread,
//! so that one instruction reaches each of them.
//!
//! A thread that the engine starts has them in the mapping of its stack, below what the stack may
//! use. The first thread gets a mapping of their own, at a distance where there is room.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use unspool_code_cache::slots::{self, slots};
use unspool_kernel::layout;

use crate::slots as tool_slots;
use unspool_engine::client::THREAD_STACK;

/// How many counters there is room for.
pub(super) const CAPACITY: usize = 1 << 22;

const PAGE: usize = 4096;
const BYTES: usize = CAPACITY * size_of::<u64>();
/// What is mapped for them: they need not begin with a page, and behind them is one without
/// access, which the stack meets before it meets them.
const MAPPED: usize = BYTES + 2 * PAGE;
/// What the mapping of a stack has above the thread pointer, and more than its size says.
const MARGIN: usize = 64 << 10;
/// The distances that are tried: how many, and bytes between them.
const TRIES: usize = 64;
const STEP: usize = 16 << 20;

/// Bytes from the counters to the thread pointer; 0 if there are no counters.
static DISTANCE: AtomicUsize = AtomicUsize::new(0);

/// Has the threads of the program have counters, the calling one first.
///
/// # Errors
/// If there is no room within the tried distances, or the kernel's.
pub(crate) fn settle() -> io::Result<()> {
    let nearest = THREAD_STACK + MAPPED;
    let mut last = io::Error::from(io::ErrorKind::OutOfMemory);
    for distance in (0..TRIES).map(|number| nearest + number * STEP) {
        let start = (slots::thread_pointer() as usize - distance) & !(PAGE - 1);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        match layout::map_fixed(start as u64, MAPPED as u64, protection) {
            Ok(()) => {
                DISTANCE.store(distance, Ordering::Relaxed);
                return Ok(());
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// How large the stack of a thread is to be that runs translated code.
pub(crate) fn thread_stack() -> usize {
    match DISTANCE.load(Ordering::Relaxed) {
        0 => THREAD_STACK,
        distance => distance + MARGIN,
    }
}

/// The slot of the first counter.
pub(super) fn first_slot() -> i32 {
    let distance = DISTANCE.load(Ordering::Relaxed) as i32;
    -distance - slots::displacement()
}

/// Has the calling thread have counters.
pub(crate) fn prepare() -> io::Result<()> {
    let start = slots::thread_pointer() - DISTANCE.load(Ordering::Relaxed) as u64;
    let first_page = (start & !(PAGE as u64 - 1)) as *mut libc::c_void;
    // SAFETY: by `settle` and `thread_stack` the memory is there, and for nothing else. A huge
    // page for a few counters would be mostly empty; without the advice, it just may be one.
    unsafe {
        libc::madvise(first_page, MAPPED, libc::MADV_NOHUGEPAGE);
        // In a forked child the stack may have been that of a thread that only its parent has.
        if libc::madvise(first_page, MAPPED, libc::MADV_DONTNEED) != 0 {
            return Err(io::Error::last_os_error());
        }
        layout::protect(guard(start), PAGE as u64, libc::PROT_NONE)?;
        tool_slots::of(slots())
            .counters
            .store(start, Ordering::Relaxed);
    }
    Ok(())
}

/// The calling thread has counted for the last time. Its stack may become another thread's.
pub(crate) fn free() {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the slots and the page are this thread's.
    unsafe {
        let start = tool_slots::of(slots()).counters.swap(0, Ordering::Relaxed);
        let restored = layout::protect(guard(start), PAGE as u64, protection);
        debug_assert!(restored.is_ok(), "the page is there");
    }
}

/// The page behind counters that start here.
fn guard(start: u64) -> u64 {
    (start + BYTES as u64).next_multiple_of(PAGE as u64)
}
