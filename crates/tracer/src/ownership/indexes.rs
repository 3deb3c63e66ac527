//! By which index the owner words know a thread.
//!
//! The index of a thread that has ended is given to another one, with all lines that are
//! exclusive to it: the new thread's time begins behind the old one's, so that as far as the
//! order goes it is the same thread going on.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

const BITS: usize = 64;

/// Which indexes threads have.
#[derive(Debug)]
pub(super) struct Indexes {
    /// A bit for each index: whether a thread has it.
    taken: Box<[AtomicU64]>,
    /// No word behind these has ever had a bit.
    used: AtomicUsize,
    /// Threads that have an index, or are to get one.
    count: AtomicU32,
    most: u32,
    /// No thread that has ended has recorded a later time.
    ended: AtomicU64,
}

impl Indexes {
    /// For as many threads at one time.
    pub(super) fn new(most: u32) -> Indexes {
        let words = (most as usize).div_ceil(BITS);
        Indexes {
            taken: (0..words).map(|_| AtomicU64::new(0)).collect(),
            used: AtomicUsize::new(0),
            count: AtomicU32::new(0),
            most,
            ended: AtomicU64::new(0),
        }
    }

    /// Keeps an index for a thread that is about to be started. False: there is none.
    pub(super) fn keep_one(&self) -> bool {
        let more = |count| Some(count + 1).filter(|&count| count <= self.most);
        self.count
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, more)
            .is_ok()
    }

    /// The thread was not started.
    pub(super) fn keep_none(&self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    /// Gives the lowest index to a thread for which one was kept.
    pub(super) fn take(&self) -> u32 {
        loop {
            for (number, word) in self.taken.iter().enumerate() {
                let bits = word.load(Ordering::SeqCst);
                let bit = bits.trailing_ones();
                let index = number as u32 * BITS as u32 + bit;
                if bit as usize == BITS || index >= self.most {
                    continue;
                }
                // Before the bit, so that who looks for bits finds it.
                self.used.fetch_max(number + 1, Ordering::SeqCst);
                let with = bits | 1 << bit;
                let swapped = word.compare_exchange(bits, with, Ordering::SeqCst, Ordering::SeqCst);
                if swapped.is_ok() {
                    return index;
                }
            }
        }
    }

    /// A thread has ended, at a time that it has recorded nothing behind.
    pub(super) fn give_back(&self, index: u32, time: u64) {
        self.ended.fetch_max(time, Ordering::SeqCst);
        let bit = 1 << (index as usize % BITS);
        self.taken[index as usize / BITS].fetch_and(!bit, Ordering::SeqCst);
        self.keep_none();
    }

    /// Those that threads have, the latest and those that end meanwhile perhaps left out: what
    /// these have recorded is not behind [`Indexes::ended`], which is to be asked afterwards.
    pub(super) fn taken(&self) -> impl Iterator<Item = u32> {
        let used = self.used.load(Ordering::SeqCst);
        let words = self.taken[..used].iter().enumerate();
        words.flat_map(|(number, word)| {
            let mut bits = word.load(Ordering::SeqCst);
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(number as u32 * BITS as u32 + bit)
            })
        })
    }

    /// A time behind which no thread that has ended has recorded anything.
    pub(super) fn ended(&self) -> u64 {
        self.ended.load(Ordering::SeqCst)
    }

    /// All that threads have had.
    pub(super) fn used(&self) -> std::ops::Range<u32> {
        0..((self.used.load(Ordering::SeqCst) * BITS) as u32).min(self.most)
    }

    /// Time begins anew. Where there are no threads (`alone`), none has an index.
    pub(super) fn forget(&self, alone: bool) {
        self.ended.store(0, Ordering::SeqCst);
        if !alone {
            return;
        }
        for word in &self.taken[..self.used.swap(0, Ordering::SeqCst)] {
            word.store(0, Ordering::SeqCst);
        }
        self.count.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_given_out_anew() {
        let indexes = Indexes::new(130);
        let start = || indexes.keep_one().then(|| indexes.take());
        for expected in 0..130 {
            assert_eq!(start(), Some(expected));
        }
        assert_eq!(start(), None);
        for (index, time) in [(70, 5), (3, 9), (129, 2)] {
            indexes.give_back(index, time);
        }
        assert_eq!(indexes.ended(), 9);
        let all: Vec<u32> = indexes.taken().collect();
        let expected: Vec<u32> = (0..129).filter(|index| ![3, 70].contains(index)).collect();
        assert_eq!(all, expected);
        assert_eq!(
            [start(), start(), start(), start()],
            [Some(3), Some(70), Some(129), None]
        );
    }

    #[test]
    fn an_index_is_one_threads_at_a_time() {
        let indexes = Indexes::new(4);
        let held = [const { AtomicU32::new(0) }; 4];
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if indexes.keep_one() {
                            let index = indexes.take();
                            assert_eq!(held[index as usize].fetch_add(1, Ordering::SeqCst), 0);
                            held[index as usize].fetch_sub(1, Ordering::SeqCst);
                            indexes.give_back(index, 0);
                        }
                    }
                });
            }
        });
        assert_eq!(indexes.taken().count(), 0);
    }
}
