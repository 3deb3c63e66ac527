//! A thread that is let go while it is in a system call of the program's makes the call again,
//! natively. A signal that has come since the engine interrupted it would have ended the call, and
//! its handler is entered before that: so what such a signal ends is over.

use std::sync::Arc;

use crate::call::interrupted::Interrupted;
use crate::call::relative_waits::RelativeWait;
use crate::restarting;
use crate::signal_handling::deliver;
use crate::signals::actions::{Actions, DEFAULT, IGNORE};
use crate::signals::{STOP, bit};
use crate::thread::Thread;

/// A call of a thread that blocks all signals.
pub(super) struct UnfinishedCall {
    call: Interrupted,
    actions: Arc<Actions>,
    /// The program's mask.
    mask: u64,
    can_tell_rest: bool,
}

impl UnfinishedCall {
    /// Of a thread at a safe point.
    pub(super) fn of(thread: &Thread) -> Option<UnfinishedCall> {
        let call = restarting::next(thread)?;
        Some(UnfinishedCall {
            call,
            actions: Arc::clone(&thread.actions),
            mask: thread.delivery.mask(),
            can_tell_rest: call.wait().is_none_or(|wait| wait.can_tell_rest()),
        })
    }

    /// When it is to end, if it waits for some time.
    pub(super) fn wait(&self) -> Option<RelativeWait> {
        self.call.wait()
    }

    /// Where the thread stands if a signal has ended the call, and what that returns.
    pub(super) fn ended_by_pending(&self) -> Option<(u64, i64)> {
        let signal = self.take_first()?;
        let restarts = self.actions.get(signal).flags & libc::SA_RESTART as u64 != 0;
        if !self.call.is_ended_by(signal, restarts) {
            return None;
        }
        let interrupted = -i64::from(libc::EINTR);
        let result = self.call.wait().map_or(interrupted, |wait| {
            wait.ended_by_signal(|place, bytes| {
                // SAFETY: it was written to since the program's threads came to a stand.
                let write = || unsafe { (place as *mut [u8; 16]).write_unaligned(*bytes) };
                self.can_tell_rest.then(write).is_some()
            })
        });
        Some((self.call.behind(), result))
    }

    /// The number of the signal whose handler the kernel will enter first. It is this thread's
    /// from now on, whether it was sent to the thread or to the process.
    fn take_first(&self) -> Option<i32> {
        let handled = (1..=64).filter(|&number| {
            let kind = bit(number) & !self.mask & !bit(STOP);
            kind != 0 && !matches!(self.actions.get(number).handler, DEFAULT | IGNORE)
        });
        let set = handled.fold(0, |set, number| set | bit(number));
        let first = deliver::take_pending(set)?;
        // Those of one kind stay in their order.
        let kind = bit(first.0);
        let mut all = vec![first];
        all.extend(std::iter::from_fn(|| deliver::take_pending(kind)));
        for (number, info) in &all {
            crate::signals::send_to_itself(*number, info);
        }
        Some(first.0)
    }
}
