//! The threads that share lines: how they come and go, and when they are safe.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{EPOCH, Owner, Ownership, Public, SAFE, words};
use crate::ceilings::Reached;
use crate::slots as trace_slots;
use crate::trace_buffer::TraceBuffer;

impl Ownership {
    /// A thread is about to be started.
    pub(crate) fn expect_thread(&self) -> Result<(), Reached> {
        match !self.is_on() || self.indexes.keep_one() {
            true => Ok(()),
            false => Err(Reached::Threads),
        }
    }

    /// A thread starts, whose time begins behind that of the one that expected it, if one did.
    pub(crate) fn adopt(&self, buffer: &mut TraceBuffer, owner: &mut Owner, after: Option<u64>) {
        if !self.is_on() {
            return;
        }
        if after.is_none() {
            self.indexes.keep_one();
        }
        let index = self.indexes.take();
        let public = self.public(index);
        let word = u64::from(index) + 1;
        buffer.slots.owner_word.set(word | word << 32);
        let own = trace_slots::of(buffer.slots);
        own.shared_seen.set(u64::from(u32::MAX));
        own.poll.store(0, Ordering::Relaxed);
        own.public.set(std::ptr::from_ref(public) as u64);
        let poll = own.poll.as_ptr() as u64;
        public.poll.store(poll, Ordering::SeqCst);
        owner.index = index;
        owner.has_just_started = after.is_some();
        // Also behind whoever had the index: the thread owns its lines.
        let after = after.unwrap_or(0).max(public.clock.load(Ordering::SeqCst));
        if after != 0 {
            buffer.stamp_next(after + 1);
        }
        // Who has asked for the lines before gets them: the thread has looked at none yet.
        public.state.fetch_add(EPOCH, Ordering::SeqCst);
        public.state.fetch_and(!SAFE, Ordering::SeqCst);
    }

    /// A thread has ended: whatever it owned can be taken without asking.
    pub(crate) fn release(&self, buffer: &TraceBuffer, owner: &Owner) {
        if self.is_on() {
            let time = self.publish(buffer, owner);
            let public = self.public(owner.index);
            public.poll.store(0, Ordering::SeqCst);
            while public.asking.load(Ordering::SeqCst) != 0 {
                std::thread::yield_now();
            }
            self.indexes.give_back(owner.index, time);
        }
    }

    /// A thread could not be started.
    pub(crate) fn abandon(&self) {
        if self.is_on() {
            self.indexes.keep_none();
        }
    }

    /// The thread leaves translated code for a while that may be long. Returns a time that it has
    /// recorded nothing behind.
    pub(crate) fn enter_safe(&self, buffer: &TraceBuffer, owner: &Owner) -> u64 {
        match self.is_on() {
            true => self.publish(buffer, owner),
            false => 0,
        }
    }

    /// The thread comes back.
    pub(crate) fn leave_safe(&self, buffer: &mut TraceBuffer, owner: &Owner) {
        if self.is_on() {
            let public = self.public(owner.index);
            public.state.fetch_and(!SAFE, Ordering::SeqCst);
        }
        buffer.show_floor();
    }

    /// While this is done others take the thread's lines without asking. It is at a safe point, has answered
    /// there, and records no access meanwhile.
    pub(crate) fn give_lines(&self, owner: &Owner, act: impl FnOnce()) {
        let public = self.public(owner.index);
        public.state.fetch_or(SAFE, Ordering::SeqCst);
        act();
        public.state.fetch_and(!SAFE, Ordering::SeqCst);
    }

    /// The thread has come out of the cache: it shows how far it is, for moments that all threads
    /// have in common.
    pub(crate) fn show_outside(&self, buffer: &TraceBuffer, owner: &Owner) {
        if self.is_on() {
            show(self.public(owner.index), buffer);
        }
    }

    /// Passes a safe point at a time.
    pub(crate) fn answer(&self, buffer: &TraceBuffer, owner: &Owner, time: u64) {
        let public = self.public(owner.index);
        let poll = &trace_slots::of(buffer.slots).poll;
        poll.store(0, Ordering::SeqCst);
        public.clock.store(time, Ordering::SeqCst);
        public.state.fetch_add(EPOCH, Ordering::SeqCst);
    }

    /// Before a file of its own: nobody has accessed anything as far as that is concerned. All
    /// threads have ended, as far as there are any; `alone`: there are none.
    pub(crate) fn forget(&self, alone: bool) {
        if !self.is_on() {
            return;
        }
        for index in self.indexes.taken() {
            let public = self.public(index);
            public.state.fetch_or(SAFE, Ordering::SeqCst);
            public.poll.store(0, Ordering::SeqCst);
        }
        // Where the words stay, the lines of threads that are gone can be taken from them.
        if words::forget() {
            self.aliases.mark_again(self);
            for index in self.indexes.used() {
                let public = self.public(index);
                public.clock.store(0, Ordering::SeqCst);
                public.asking.store(0, Ordering::SeqCst);
            }
            self.indexes.forget(alone);
        }
        self.barrier.forget();
        if alone {
            self.checking.store(false, Ordering::Relaxed);
        }
    }

    /// Publishes the thread's time and marks it safe. Its state must be out of the cache.
    fn publish(&self, buffer: &TraceBuffer, owner: &Owner) -> u64 {
        let public = self.public(owner.index);
        let time = show(public, buffer);
        public.state.fetch_or(SAFE, Ordering::SeqCst);
        time
    }
}

fn show(public: &Public, buffer: &TraceBuffer) -> u64 {
    let time = buffer.bound(buffer.position());
    public.clock.store(time, Ordering::SeqCst);
    time
}

/// Asks a thread to pass a safe point, if it is still there.
pub(super) fn ask(public: &Public) {
    public.asking.fetch_add(1, Ordering::SeqCst);
    let poll = public.poll.load(Ordering::SeqCst);
    if poll != 0 {
        // SAFETY: the slot belongs to a thread that does not end before this is done.
        unsafe { AtomicU64::from_ptr(poll as *mut u64) }.fetch_or(1, Ordering::SeqCst);
    }
    public.asking.fetch_sub(1, Ordering::SeqCst);
}
