//! The threads that share lines: how they come and go, and when they are safe.

use std::sync::atomic::{AtomicU64, Ordering};

use super::super::Tracer;
use super::{ASKED_TO_SHOW, SAFE};
use crate::thread::Thread;

impl Tracer {
    /// A thread starts: its time begins after everything its creator did.
    pub(in crate::trace) fn adopt(&self, thread: &mut Thread, parent: Option<u32>) {
        let ownership = &self.ownership;
        if !ownership.is_on() {
            return;
        }
        let public = ownership.public(thread.number);
        ownership
            .thread_count
            .fetch_max(u64::from(thread.number) + 1, Ordering::SeqCst);
        // SAFETY: the slots and the trace belong to this thread.
        unsafe {
            let word = u64::from(thread.number) + 1;
            (*thread.slots).owner_word = word | word << 32;
            (*thread.slots).shared_seen = u64::from(u32::MAX);
            (*thread.slots).poll = 0;
            (*thread.slots).public = std::ptr::from_ref(public) as u64;
            public
                .poll
                .store(&raw const (*thread.slots).poll as u64, Ordering::SeqCst);
            let trace = &mut *thread.trace;
            if let Some(parent) = parent {
                let time = ownership.public(parent).clock.load(Ordering::SeqCst) + 1;
                trace.stamp_next(time);
            }
        }
        public.state.fetch_and(!SAFE, Ordering::SeqCst);
    }

    /// A thread has ended: whatever it owned can be taken without asking.
    pub(in crate::trace) fn release(&self, thread: &mut Thread) {
        if self.ownership.is_on() {
            publish(self, thread);
            self.ownership
                .public(thread.number)
                .poll
                .store(0, Ordering::SeqCst);
        }
    }

    /// A thread could not be started. Who asks all threads must not wait for it.
    pub(in crate::trace) fn abandon(&self, thread: u32) {
        if self.ownership.is_on() {
            let state = &self.ownership.public(thread).state;
            state.fetch_or(SAFE, Ordering::SeqCst);
        }
    }

    /// The thread leaves translated code for a while that may be long.
    pub(in crate::trace) fn enter_safe(&self, thread: &mut Thread) {
        if self.ownership.is_on() {
            publish(self, thread);
        }
    }

    /// The thread comes back.
    pub(in crate::trace) fn leave_safe(&self, thread: &mut Thread) {
        if self.ownership.is_on() {
            let public = self.ownership.public(thread.number);
            public.state.fetch_and(!SAFE, Ordering::SeqCst);
        }
        // SAFETY: the trace belongs to this thread, or to its parent that waits.
        let trace = unsafe { &mut *thread.trace };
        let floor = trace.standing.as_ref().and_then(|own| own.take_floor());
        if let Some(floor) = floor {
            trace.catch_up(self, floor);
        }
    }

    /// In a forked child: the other threads are gone.
    pub(in crate::trace) fn forget_others(&self) {
        if self.ownership.is_on() {
            for thread in 0..self.ownership.thread_count.load(Ordering::SeqCst) as u32 {
                self.ownership
                    .public(thread)
                    .state
                    .fetch_or(SAFE, Ordering::SeqCst);
                self.ownership
                    .public(thread)
                    .poll
                    .store(0, Ordering::SeqCst);
            }
            self.ownership.checking.store(false, Ordering::Relaxed);
            self.ownership.forget_sites();
        }
    }
}

/// Publishes the thread's time and marks it safe. Its state must be out of the cache.
fn publish(tracer: &Tracer, thread: &mut Thread) {
    // SAFETY: the trace belongs to this thread.
    let trace = unsafe { &mut *thread.trace };
    let public = tracer.ownership.public(thread.number);
    public
        .clock
        .store(trace.bound(trace.position()), Ordering::SeqCst);
    public.state.fetch_or(SAFE, Ordering::SeqCst);
}

/// Asks the thread to pass a safe point.
pub(super) fn ask(poll: u64) {
    request(poll, 1);
}

/// Asks it to show how far it is in the file as well. This may be lost where the thread is
/// answering somebody just now.
pub(in crate::trace) fn ask_to_show(poll: u64) {
    request(poll, ASKED_TO_SHOW);
}

fn request(poll: u64, what: u64) {
    // SAFETY: the slot belongs to a thread that is listed; slots of ended threads stay
    // mapped as long as anybody may ask, because their address is withdrawn first.
    unsafe { AtomicU64::from_ptr(poll as *mut u64) }.fetch_or(what, Ordering::SeqCst);
}
