//! Acquiring lines: what happens when a check fails.

use std::ops::Range;
use std::sync::atomic::Ordering;

use unspool_kernel::race_windows;

use super::owner::Step;
use super::threads::ask;
use super::{EPOCH_BITS, SAFE, SHARED, TAKEN, TRANSIT};
use super::{Owner, Ownership};
use crate::schedule_noise;
use crate::slots as trace_slots;
use unspool_code_cache::slots::Slots;

/// A thread acquiring the lines of one instruction.
///
/// All of this may run behind [`unspool_code_cache::gates::Gates::acquire`], so nothing here calls
/// the C library's memory or string functions, allocates, or takes a lock.
pub(crate) struct Acquisition<'a> {
    ownership: &'a Ownership,
    slots: &'a Slots,
    owner: &'a mut Owner,
    /// No line of this thread's has a later time.
    bound: u64,
    /// The least time that the instruction may have.
    pub(crate) least: u64,
    /// Whether lines were taken from the thread meanwhile.
    pub(crate) lost: bool,
    /// Whether an address has no owner word: the access will fault.
    pub(crate) nowhere: bool,
    /// Whether the owner of a line is elsewhere, so that a check will never find the thread there.
    pub(crate) elsewhere: bool,
}

impl<'a> Acquisition<'a> {
    /// `bound`: no line of the thread's has a later time.
    pub(crate) fn new(
        ownership: &'a Ownership,
        slots: &'a Slots,
        owner: &'a mut Owner,
        bound: u64,
    ) -> Acquisition<'a> {
        Acquisition {
            ownership,
            slots,
            owner,
            bound,
            least: 0,
            lost: false,
            nowhere: false,
            elsewhere: false,
        }
    }

    pub(crate) fn acquire_range(&mut self, address: u64, size: u64, write: bool) {
        if size == 0 {
            return;
        }
        let granule = 1_u64 << self.ownership.layout.shift;
        let mut at = address & !(granule - 1);
        let end = address.saturating_add(size);
        while at < end {
            match self.ownership.line_of(at) {
                Some(line) => self.acquire(line, write),
                None => {
                    self.nowhere = true;
                    return;
                }
            }
            at = at.saturating_add(granule);
        }
    }

    fn acquire(&mut self, line: u64, write: bool) {
        let ownership = self.ownership;
        let me = self.owner.index + 1;
        let mut waits_for_luck = schedule_noise::is_made();
        loop {
            let word = ownership.word(line).load(Ordering::SeqCst);
            if word == me {
                return;
            } else if let Some(home) = ownership.aliases.home(ownership.layout, line, word) {
                self.elsewhere = true;
                return self.acquire(home, write);
            } else if word == 0 {
                if self.swap(line, word, me) {
                    return;
                }
            } else if word & SHARED != 0 && !write {
                self.see_shared();
                return;
            } else if word & (SHARED | TRANSIT) == TRANSIT {
                let taker = (word & !TRANSIT) - 1;
                let public = ownership.public(taker);
                let gone = public.poll.load(Ordering::SeqCst) == 0
                    && public.state.load(Ordering::SeqCst) & SAFE != 0;
                // Only a fork loses a thread in the middle of taking a line; and a child in its
                // parent's place, which the owner words know by the parent's index, can be killed
                // there.
                let own = taker == self.owner.index;
                if (gone || own) && self.swap(line, word, TRANSIT | me) {
                    self.ask_everybody();
                    ownership.word(line).store(me, Ordering::SeqCst);
                    return;
                }
                self.wait_safely(|| ownership.word(line).load(Ordering::SeqCst) != word);
            } else if std::mem::take(&mut waits_for_luck) {
                // Whoever makes a thread waits until it has begun, and from then on runs beside it.
                let has_just_started = std::mem::take(&mut self.owner.has_just_started);
                self.wait_safely(|| {
                    match has_just_started {
                        true => schedule_noise::make_at_start(),
                        false => schedule_noise::make(),
                    }
                    true
                });
            } else if self.swap(line, word, TRANSIT | me) {
                race_windows::widen();
                self.take(line, word, write);
                return;
            }
        }
    }

    fn swap(&self, line: u64, old: u32, new: u32) -> bool {
        self.ownership
            .word(line)
            .compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst)
            .is_ok()
    }

    /// Takes a line that was exclusive to another thread, or read-shared and is to be written,
    /// and is now in transit to this one; with it perhaps its neighbours in the same state.
    fn take(&mut self, line: u64, word: u32, write: bool) {
        let ownership = self.ownership;
        let me = self.owner.index + 1;
        let step = self.owner.runs.step(line);
        let lines = self.mark_neighbours(line, word, step);
        let shared = word & SHARED != 0;
        if shared {
            self.ask_everybody();
        } else {
            self.ask_one(word - 1);
        }
        let history = ownership.history(line);
        let state = if shared {
            history.written_while_shared(self.owner.index);
            me
        } else if write {
            history.taken_to_write();
            me
        } else if history.taken_to_read(self.owner.index) {
            self.share().unwrap_or(me)
        } else {
            me
        };
        ownership.histories.spread(line, lines.clone());
        race_windows::widen();
        for line in lines.clone() {
            ownership.word(line).store(state, Ordering::SeqCst);
        }
        self.owner.runs.take(step, lines);
    }

    /// Where the thread goes from line to line: marks those that come next, as far as they
    /// are in the same state. Returns all marked lines.
    fn mark_neighbours(&mut self, line: u64, word: u32, step: Step) -> Range<u64> {
        let ownership = self.ownership;
        let Step {
            count, downwards, ..
        } = step;
        let (mut first, mut end) = (line, line + 1);
        while end - first < count {
            let next = if downwards {
                first.wrapping_sub(1)
            } else {
                end
            };
            if !ownership.has_word(next) {
                break;
            }
            let found = ownership.word(next).load(Ordering::SeqCst);
            let alike = found == word || found & word & SHARED != 0;
            if !alike || !self.swap(next, found, TRANSIT | (self.owner.index + 1)) {
                break;
            }
            if downwards {
                first = next;
            } else {
                end += 1;
            }
        }
        first..end
    }

    /// The lines just taken may be read by everybody from now on. Returns their state, or none if
    /// epochs have to be counted anew before that: the thread leaves the cache for it.
    fn share(&mut self) -> Option<u32> {
        let ownership = self.ownership;
        let next = |epoch| Some(epoch + 1).filter(|&epoch| epoch <= ownership.most_epochs);
        // Before the epoch, so that whoever sees that sees this.
        ownership
            .shared_clock
            .fetch_max(self.least, Ordering::SeqCst);
        let before = ownership
            .epoch
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next);
        let Ok(before) = before else {
            ownership.barrier.want();
            self.lost = true;
            return None;
        };
        self.see_shared();
        Some(u32::MAX - (before + 1))
    }

    /// Orders this thread behind all transitions to read-shared so far.
    fn see_shared(&mut self) {
        let ownership = self.ownership;
        let epoch = ownership.epoch.load(Ordering::SeqCst);
        self.least = self
            .least
            .max(ownership.shared_clock.load(Ordering::SeqCst) + 1);
        trace_slots::of(self.slots)
            .shared_seen
            .set(u64::from(u32::MAX - epoch));
    }

    /// Makes sure that all other threads have passed a safe point from now on. What threads that have
    /// ended have accessed comes before.
    fn ask_everybody(&mut self) {
        let ownership = self.ownership;
        for other in ownership.indexes.taken() {
            if other != self.owner.index {
                self.ask_one(other);
            }
        }
        self.least = self.least.max(ownership.indexes.ended() + 1);
        let shared = ownership.shared_clock.load(Ordering::SeqCst);
        self.least = self.least.max(shared + 1);
    }

    /// Makes sure that another thread has passed a safe point from now on.
    fn ask_one(&mut self, other: u32) {
        let public = self.ownership.public(other);
        let before = public.state.load(Ordering::SeqCst);
        let passed = || {
            let state = public.state.load(Ordering::SeqCst);
            if state & SAFE == 0 {
                return (state ^ before) & EPOCH_BITS != 0;
            }
            // Being counted and being safe are one state, so that a thread that comes back
            // knows for certain whether anything was taken.
            public
                .state
                .compare_exchange(
                    state,
                    state.wrapping_add(TAKEN),
                    Ordering::SeqCst,
                    Ordering::SeqCst,
                )
                .is_ok()
        };
        if !passed() {
            self.wait_safely(|| {
                ask(public);
                passed()
            });
        }
        self.least = self.least.max(public.clock.load(Ordering::SeqCst) + 1);
    }

    /// Waits until something is done, being safe for others meanwhile.
    fn wait_safely(&mut self, mut done: impl FnMut() -> bool) {
        const SPINS: u32 = 64;
        let public = self.ownership.public(self.owner.index);
        // A line acquired a moment ago has its last owner's time, not this thread's.
        public
            .clock
            .store(self.bound.max(self.least), Ordering::SeqCst);
        let before = public.state.fetch_or(SAFE, Ordering::SeqCst);
        let mut patience = 0;
        while !done() {
            if patience < SPINS {
                patience += 1;
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        let after = public.state.fetch_and(!SAFE, Ordering::SeqCst);
        self.lost |= (after ^ before) / TAKEN != 0;
    }
}
