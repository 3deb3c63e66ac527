//! What functions of a tool do with its buffers.

use unspool_code_cache::slots::slots;
use unspool_kernel::lock::held;

use super::buffers::{self, Appender, BufferId};
use super::each_access;
use super::in_tool::is_delivered;
use super::instrumentation::is_asking;
use crate::slots as tool_slots;

impl BufferId {
    /// Appends an entry to the calling thread's part, in a function of the tool: behind what
    /// inserted code has appended until then, but for what counts only if the instruction completes
    /// before which the function is called.
    ///
    /// # Safety
    /// `entry` must be the address of an entry, and `state` what the tool gets entries with.
    ///
    /// # Panics
    /// As [`BufferId::flush`].
    #[track_caller]
    pub unsafe fn append(self, state: *mut (), entry: *const u8) {
        // SAFETY: an entry has as many bytes as the buffer's have.
        unsafe { self.appender(state).push_from(entry) }
    }

    /// Hands over what the calling thread has appended so far, in a function of the tool.
    ///
    /// # Safety
    /// `state` must be what the tool gets entries with.
    ///
    /// # Panics
    /// In a function that gets entries, in one that is asked what to insert, and where the calling
    /// thread has no buffers: it is none of the program's, has not started, or has ended.
    #[track_caller]
    pub unsafe fn flush(self, state: *mut ()) {
        self.appender(state).flush();
    }

    #[track_caller]
    fn appender(self, state: *mut ()) -> Appender {
        assert!(
            !is_delivered(),
            "a function that gets the entries of a buffer can neither append to one nor flush one"
        );
        assert!(
            !is_asking(),
            "a tool that is asked what to insert can neither append to a buffer nor flush one"
        );
        assert!(
            tool_slots::of(slots()).buffers[self.index()].base.get() != 0,
            "only the program's threads have buffers, and only while they run"
        );
        assert!(
            self.kind().consumer().is_none() || held() == 0,
            "a function with a lock in hand can neither append to a buffer with a consumer nor flush one, as it may have to wait for that"
        );
        each_access::settle_in_function(state);
        Appender::new(self, buffers::pending_here(self), state)
    }
}
