//! Acquiring lines: the slow path of every check.

use std::sync::atomic::Ordering;

use super::super::Tracer;
use super::threads::ask;
use super::{EPOCH_BITS, SAFE, SHARED, TAKEN, TRANSIT};
use crate::thread::Thread;

/// A thread acquiring the lines of one instruction.
pub(super) struct Acquisition<'a> {
    tracer: &'a Tracer,
    pub(super) thread: &'a mut Thread,
    /// No line of this thread's has a later time.
    bound: u64,
    /// The least time that the instruction may have.
    pub(super) least: u64,
    /// Whether lines were taken from the thread meanwhile.
    pub(super) lost: bool,
    /// Whether an address has no owner word: the access will fault.
    pub(super) nowhere: bool,
}

impl<'a> Acquisition<'a> {
    /// `bound`: no line of the thread's has a later time.
    pub(super) fn new(tracer: &'a Tracer, thread: &'a mut Thread, bound: u64) -> Acquisition<'a> {
        Acquisition {
            tracer,
            thread,
            bound,
            least: 0,
            lost: false,
            nowhere: false,
        }
    }

    pub(super) fn acquire_range(&mut self, address: u64, size: u64, write: bool) {
        if size == 0 {
            return;
        }
        let granule = 1_u64 << self.tracer.ownership.layout.shift;
        let mut at = address & !(granule - 1);
        let end = address.saturating_add(size);
        while at < end {
            match self.tracer.ownership.line_of(at) {
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
        let ownership = &self.tracer.ownership;
        let me = self.thread.number + 1;
        let mut patience = 0;
        loop {
            let word = ownership.word(line).load(Ordering::SeqCst);
            let swap = |new: u32| {
                ownership
                    .word(line)
                    .compare_exchange(word, new, Ordering::SeqCst, Ordering::SeqCst)
                    .is_ok()
            };
            if word == me {
                return;
            } else if word == 0 {
                if swap(me) {
                    return;
                }
            } else if word & SHARED != 0 {
                if !write {
                    self.see_shared();
                    return;
                }
                if swap(TRANSIT | me) {
                    self.ask_everybody();
                    ownership.read_last[line as usize & 0xffff].store(0, Ordering::Relaxed);
                    ownership.word(line).store(me, Ordering::SeqCst);
                    return;
                }
            } else if word & TRANSIT != 0 {
                let taker = (word & !TRANSIT) - 1;
                let public = ownership.public(taker);
                let gone = public.poll.load(Ordering::SeqCst) == 0
                    && public.state.load(Ordering::SeqCst) & SAFE != 0;
                // Only a fork loses a thread in the middle of taking a line.
                if gone && swap(TRANSIT | me) {
                    self.ask_everybody();
                    ownership.word(line).store(me, Ordering::SeqCst);
                    return;
                }
                self.wait_a_little(&mut patience);
            } else if swap(TRANSIT | me) {
                self.ask_one(word - 1);
                self.take(line, write);
                return;
            }
        }
    }

    /// The line was exclusive to another thread, which has let it go.
    fn take(&mut self, line: u64, write: bool) {
        let ownership = &self.tracer.ownership;
        let me = self.thread.number + 1;
        let last = &ownership.read_last[line as usize & 0xffff];
        let share = !write && last.swap(u8::from(!write), Ordering::Relaxed) != 0;
        if write {
            last.store(0, Ordering::Relaxed);
        }
        if !share {
            ownership.word(line).store(me, Ordering::SeqCst);
            return;
        }
        // A second reader in a row: from now on everybody may read.
        ownership
            .shared_clock
            .fetch_max(self.least, Ordering::SeqCst);
        let epoch = ownership.epoch.fetch_add(1, Ordering::SeqCst) + 1;
        if epoch >= SHARED - 1 {
            crate::finish::fatal(
                "too many changes of shared lines for one trace in line-atomic order",
            );
        }
        self.see_shared();
        ownership
            .word(line)
            .store(u32::MAX - epoch, Ordering::SeqCst);
    }

    /// Orders this thread behind all transitions to read-shared so far.
    fn see_shared(&mut self) {
        let ownership = &self.tracer.ownership;
        let epoch = ownership.epoch.load(Ordering::SeqCst);
        self.least = self
            .least
            .max(ownership.shared_clock.load(Ordering::SeqCst) + 1);
        // SAFETY: the slots belong to this thread.
        unsafe { (*self.thread.slots).shared_seen = u64::from(u32::MAX - epoch) };
    }

    fn ask_everybody(&mut self) {
        let count = self.tracer.ownership.thread_count.load(Ordering::SeqCst) as u32;
        for other in 0..count {
            if other != self.thread.number {
                self.ask_one(other);
            }
        }
        let shared = self.tracer.ownership.shared_clock.load(Ordering::SeqCst);
        self.least = self.least.max(shared + 1);
    }

    /// Makes sure that another thread has passed a safe point from now on.
    fn ask_one(&mut self, other: u32) {
        let tracer = self.tracer;
        let public = tracer.ownership.public(other);
        let before = public.state.load(Ordering::SeqCst);
        let mut patience = 0;
        loop {
            let state = public.state.load(Ordering::SeqCst);
            if state & SAFE != 0 {
                // Being counted and being safe are one state, so that a thread that comes
                // back knows for certain whether anything was taken.
                let counted = state.wrapping_add(TAKEN);
                if public
                    .state
                    .compare_exchange(state, counted, Ordering::SeqCst, Ordering::SeqCst)
                    .is_ok()
                {
                    break;
                }
                continue;
            }
            if (state ^ before) & EPOCH_BITS != 0 {
                break;
            }
            let poll = public.poll.load(Ordering::SeqCst);
            if poll != 0 {
                ask(poll);
            }
            self.wait_a_little(&mut patience);
        }
        self.least = self.least.max(public.clock.load(Ordering::SeqCst) + 1);
    }

    /// Waits, being safe for others meanwhile.
    fn wait_a_little(&mut self, patience: &mut u32) {
        const SPINS: u32 = 64;
        let public = self.tracer.ownership.public(self.thread.number);
        // A line acquired a moment ago has its last owner's time, not this thread's.
        public
            .clock
            .store(self.bound.max(self.least), Ordering::SeqCst);
        let before = public.state.fetch_or(SAFE, Ordering::SeqCst);
        *patience += 1;
        if *patience > SPINS {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
        let after = public.state.fetch_and(!SAFE, Ordering::SeqCst);
        self.lost |= (after ^ before) / TAKEN != 0;
    }
}
