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
    count(1);
    place
}

/// So many more threads have places.
fn count(more: u64) {
    let count = COUNT.fetch_add(more, Ordering::Relaxed) + more;
    if let Some(header) = arena::header()
        && header.get(header::PEAK_THREADS) < count
    {
        header.raise_shared(header::PEAK_THREADS, count);
    }
}

/// Takes the places from 1 to below `end`, if all of them are free: of a team whose threads
/// get the places of their numbers, in one step instead of one for each thread.
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

/// Of the places that [`take_first`] took, those below `size` are used, the others free again.
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
