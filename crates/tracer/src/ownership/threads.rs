//! The threads that share lines: how they come and go, and when they are safe.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{ASKED_TO_SHOW, EPOCH, Public, SAFE, words};
use crate::ceilings::Reached;
use crate::slots as trace_slots;
use crate::thread_trace::OF_THREAD;
use crate::thread_trace::ThreadTrace;
use crate::tracer::Tracer;
use unspool_engine::thread::Thread;

impl Tracer {
    /// A thread is about to be started.
    pub(crate) fn expect_thread(&self) -> Result<(), Reached> {
        match !self.ownership.is_on() || self.ownership.indexes.keep_one() {
            true => Ok(()),
            false => Err(Reached::Threads),
        }
    }

    /// A thread starts, whose time begins behind that of the one that expected it, if one did.
    pub(crate) fn adopt(&self, thread: &mut Thread, after: Option<u64>) {
        let ownership = &self.ownership;
        if !ownership.is_on() {
            return;
        }
        if after.is_none() {
            ownership.indexes.keep_one();
        }
        let index = ownership.indexes.take();
        let public = ownership.public(index);
        let word = u64::from(index) + 1;
        thread.slots().owner_word.set(word | word << 32);
        let own = trace_slots::of(thread.slots());
        own.shared_seen.set(u64::from(u32::MAX));
        own.poll.store(0, Ordering::Relaxed);
        own.public.set(std::ptr::from_ref(public) as u64);
        let poll = own.poll.as_ptr() as u64;
        public.poll.store(poll, Ordering::SeqCst);
        // SAFETY: the trace belongs to this thread.
        let trace = unsafe { &mut *OF_THREAD.get(thread) };
        trace.index = index;
        // Also behind whoever had the index: the thread owns its lines.
        let after = after.unwrap_or(0).max(public.clock.load(Ordering::SeqCst));
        if after != 0 {
            trace.stamp_next(after + 1);
        }
        // Who has asked for the lines before gets them: the thread has looked at none yet.
        public.state.fetch_add(EPOCH, Ordering::SeqCst);
        public.state.fetch_and(!SAFE, Ordering::SeqCst);
    }

    /// A thread has ended: whatever it owned can be taken without asking.
    pub(crate) fn release(&self, thread: &mut Thread) {
        if self.ownership.is_on() {
            let time = publish(self, thread);
            // SAFETY: the trace belongs to this thread.
            let index = unsafe { (*OF_THREAD.get(thread)).index };
            let public = self.ownership.public(index);
            public.poll.store(0, Ordering::SeqCst);
            while public.asking.load(Ordering::SeqCst) != 0 {
                std::thread::yield_now();
            }
            self.ownership.indexes.give_back(index, time);
        }
    }

    /// A thread could not be started.
    pub(crate) fn abandon(&self) {
        if self.ownership.is_on() {
            self.ownership.indexes.keep_none();
        }
    }

    /// The thread leaves translated code for a while that may be long. Returns a time that it has
    /// recorded nothing behind.
    pub(crate) fn enter_safe(&self, thread: &mut Thread) -> u64 {
        match self.ownership.is_on() {
            true => publish(self, thread),
            false => 0,
        }
    }

    /// The thread comes back.
    pub(crate) fn leave_safe(&self, thread: &mut Thread) {
        // SAFETY: the trace belongs to this thread, or to its parent that waits.
        let trace = unsafe { &mut *OF_THREAD.get(thread) };
        if self.ownership.is_on() {
            let public = self.ownership.public(trace.index);
            public.state.fetch_and(!SAFE, Ordering::SeqCst);
        }
        let floor = trace.progress.as_ref().and_then(|own| own.take_floor());
        if let Some(floor) = floor {
            trace.catch_up(self, floor);
        }
    }

    /// The thread has come out of the cache: it shows how far it is, for moments that all threads
    /// have in common.
    pub(crate) fn show_outside(&self, trace: &ThreadTrace) {
        if self.ownership.is_on() {
            show(self.ownership.public(trace.index), trace);
        }
    }

    /// Before a file of its own: nobody has accessed anything as far as that is concerned. All
    /// threads have ended, as far as there are any; `alone`: there are none.
    pub(crate) fn forget_owners(&self, alone: bool) {
        let ownership = &self.ownership;
        if !ownership.is_on() {
            return;
        }
        for index in ownership.indexes.taken() {
            let public = ownership.public(index);
            public.state.fetch_or(SAFE, Ordering::SeqCst);
            public.poll.store(0, Ordering::SeqCst);
        }
        // Where the words stay, the lines of threads that are gone can be taken from them.
        if words::forget() {
            ownership.aliases.mark_again(ownership);
            for index in ownership.indexes.used() {
                let public = ownership.public(index);
                public.clock.store(0, Ordering::SeqCst);
                public.asking.store(0, Ordering::SeqCst);
            }
            ownership.indexes.forget(alone);
        }
        ownership.barrier.forget();
        if alone {
            ownership.checking.store(false, Ordering::Relaxed);
            ownership.forget_sites();
        }
    }
}

/// Publishes the thread's time and marks it safe. Its state must be out of the cache.
fn publish(tracer: &Tracer, thread: &mut Thread) -> u64 {
    // SAFETY: the trace belongs to this thread.
    let trace = unsafe { &mut *OF_THREAD.get(thread) };
    let public = tracer.ownership.public(trace.index);
    let time = show(public, trace);
    public.state.fetch_or(SAFE, Ordering::SeqCst);
    time
}

fn show(public: &Public, trace: &ThreadTrace) -> u64 {
    let time = trace.bound(trace.position());
    public.clock.store(time, Ordering::SeqCst);
    time
}

/// Asks a thread to pass a safe point, if it is still there.
pub(super) fn ask(public: &Public) {
    public.asking.fetch_add(1, Ordering::SeqCst);
    let poll = public.poll.load(Ordering::SeqCst);
    if poll != 0 {
        request(poll, 1);
    }
    public.asking.fetch_sub(1, Ordering::SeqCst);
}

/// Asks a thread whose slots stay for as long to show how far it is in the file as well. This may
/// be lost where the thread is answering somebody just now.
pub(crate) fn ask_to_show(poll: u64) {
    request(poll, ASKED_TO_SHOW);
}

fn request(poll: u64, what: u64) {
    // SAFETY: the slot belongs to a thread that does not end before this is done.
    unsafe { AtomicU64::from_ptr(poll as *mut u64) }.fetch_or(what, Ordering::SeqCst);
}
