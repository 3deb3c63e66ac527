//! Thread slots: numbers for the threads that exist in parallel regions at one time, so that time
//! can be added up by processor although runtimes end threads and start others.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_openmp_record::layout::process_block;

use crate::arena;

const WORDS: usize = 64;

static TAKEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
static COUNT: AtomicU64 = AtomicU64::new(0);

/// More threads than there are slots for share the last one.
const LAST: u64 = WORDS as u64 * 64 - 1;

/// Takes the wanted slot, or the next that is free.
pub(crate) fn take(wanted: u64) -> u64 {
    let mut slot = wanted.min(LAST);
    while slot < LAST && !take_exactly(slot) {
        slot += 1;
    }
    count(1);
    slot
}

/// So many more threads have slots.
fn count(more: u64) {
    let count = COUNT.fetch_add(more, Ordering::Relaxed) + more;
    if let Some(process) = arena::process_block()
        && process.get(process_block::PEAK_THREADS) < count
    {
        process.raise_shared(process_block::PEAK_THREADS, count);
    }
}

/// Takes the slots from 1 to below `end`, if all of them are free: of a team whose threads
/// get the slots of their numbers, in one step instead of one for each thread.
pub(crate) fn take_first(end: usize) -> bool {
    let Some(bits) = bits_of_first(end) else {
        return false;
    };
    let taken = TAKEN[0].load(Ordering::Relaxed);
    taken & bits == 0
        && TAKEN[0]
            .compare_exchange(taken, taken | bits, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
}

/// Of the slots that [`take_first`] took, those below `size` are used, the others free again.
pub(crate) fn use_first(size: usize, end: usize) {
    if let (Some(taken), Some(used)) = (bits_of_first(end), bits_of_first(size))
        && taken != used
    {
        TAKEN[0].fetch_and(!(taken & !used), Ordering::Relaxed);
    }
    count(size as u64 - 1);
}

/// Gives back what [`use_first`] left.
pub(crate) fn give_back_first(size: usize) {
    if let Some(bits) = bits_of_first(size) {
        TAKEN[0].fetch_and(!bits, Ordering::Relaxed);
    }
    COUNT.fetch_sub(size as u64 - 1, Ordering::Relaxed);
}

fn bits_of_first(end: usize) -> Option<u64> {
    match end {
        1..64 => Some(((1 << end) - 1) & !1),
        _ => None,
    }
}

fn take_exactly(slot: u64) -> bool {
    let bit = 1 << (slot % 64);
    TAKEN[(slot / 64) as usize].fetch_or(bit, Ordering::Relaxed) & bit == 0
}

/// Gives a slot back.
pub(crate) fn give_back(slot: u64) {
    let bit = 1u64 << (slot % 64);
    TAKEN[(slot / 64) as usize].fetch_and(!bit, Ordering::Relaxed);
    COUNT.fetch_sub(1, Ordering::Relaxed);
}

/// Starts anew, in a child.
pub(crate) fn forget() {
    for word in &TAKEN {
        word.store(0, Ordering::Relaxed);
    }
    COUNT.store(0, Ordering::Relaxed);
}
