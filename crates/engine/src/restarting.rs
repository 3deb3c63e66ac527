//! System calls that the engine has interrupted for its own ends: the program makes them again,
//! and must not notice.
//!
//! Until it does, its thread is in the call as far as the program can tell. So a signal that comes
//! meanwhile, and has a handler, interrupts the call: it returns `EINTR` behind the handler, or is
//! made again there, as the kernel would have it. Without that a `pause` would wait on behind the
//! very handler that was to end it.

use unspool_code_cache::emit::gpr;
use unspool_code_cache::gates::RESTART;

use crate::call::interrupted::Interrupted;
use crate::call::relative_waits::{RelativeWait, TimeLeft, write_guarded};
use crate::call::waits::waits_with;
use crate::call::{ARGUMENTS, Call, SYSCALL_LENGTH};
use crate::thread::{PendingSignal, Thread};

const INTERRUPTED: i64 = -(libc::EINTR as i64);

/// What the program asks for where it stands at a system call: number and arguments.
pub(crate) fn asked(thread: &Thread) -> (u64, [u64; 6]) {
    // The kernel takes no more of the number.
    let number = i64::from(thread.register(gpr::RAX) as i32) as u64;
    (number, ARGUMENTS.map(|number| thread.register(number)))
}

/// Whether the thread is about to make the call again.
fn is_next(call: &Interrupted, thread: &Thread) -> bool {
    let place = (thread.pc() + SYSCALL_LENGTH, thread.register(gpr::RSP));
    call.place == place && call.asked == asked(thread)
}

/// The call that a thread is about to make again.
pub(crate) fn next(thread: &Thread) -> Option<Interrupted> {
    thread.interrupted.filter(|call| is_next(call, thread))
}

/// A system call of the program, while it is made.
pub(crate) struct Attempt {
    asked: (u64, [u64; 6]),
    wait: Option<RelativeWait>,
    /// The call was interrupted before.
    before: Option<Interrupted>,
    /// What the kernel is told of the time.
    memory: TimeLeft,
}

impl Attempt {
    /// The thread stands behind the call for which the program asked so.
    pub(crate) fn begin(thread: &mut Thread, asked: (u64, [u64; 6]), call: &Call) -> Attempt {
        thread.held.forget_call();
        let place = (thread.pc(), thread.register(gpr::RSP));
        let before = thread.interrupted.take();
        let before = before.filter(|it| it.place == place && it.asked == asked);
        let wait = match before {
            Some(before) => before.wait,
            None => RelativeWait::begin(call),
        };
        Attempt {
            asked,
            wait,
            before,
            memory: TimeLeft::default(),
        }
    }

    /// The call as the kernel is to get it.
    pub(crate) fn for_kernel(&mut self, call: &Call) -> Call {
        match (self.wait, self.before) {
            (Some(wait), Some(_)) => wait.again(call, &mut self.memory),
            (Some(_), None) => RelativeWait::first(call),
            (None, _) => *call,
        }
    }

    /// The program is not to see that the call has returned this, and makes it again.
    pub(crate) fn keep(&self, thread: &mut Thread, call: &Call, result: i64) {
        let was_begun = result != RESTART || thread.held.was_call_begun();
        let now = was_begun.then(|| Interrupted {
            place: (thread.pc(), thread.register(gpr::RSP)),
            asked: self.asked,
            made: *call,
            wait: self.wait,
            restarts: result == RESTART,
            blocks: waits_with(call).map_or(0, |(mask, _)| mask),
        });
        // A call that was not made this time was begun before.
        thread.interrupted = now.or(self.before);
    }

    /// The call has returned. Returns what the program gets.
    pub(crate) fn end(&self, result: i64) -> i64 {
        match self.wait {
            Some(wait) if result == INTERRUPTED => wait.ended_by_signal(write_guarded),
            _ => result,
        }
    }
}

/// A handler of the program's is about to be entered: a call that was interrupted before is over,
/// if the kernel would not make it again behind such a handler.
pub(crate) fn handler_comes(thread: &mut Thread, signal: &PendingSignal, restarts: bool) {
    let Some(interrupted) = thread.interrupted.take().filter(|it| is_next(it, thread)) else {
        return;
    };
    if signal.fault.is_some() || !interrupted.is_ended_by(signal.number, restarts) {
        return;
    }
    let (pc, stack) = interrupted.place;
    let known = |cut: &crate::thread::RestartedCall| {
        cut.place == (pc, stack) && cut.asked == interrupted.asked
    };
    if let Some(known) = thread.restarted_calls.iter().rposition(known) {
        thread.restarted_calls.truncate(known);
    }
    thread.set_pc(pc);
    let call = &interrupted.made;
    let wait = interrupted.wait;
    let mut result = wait.map_or(INTERRUPTED, |wait| wait.ended_by_signal(write_guarded));
    thread
        .clients()
        .each(|client| client.call_result(thread, call, &mut result));
    thread.set_register(gpr::RAX, result as u64);
    thread
        .clients()
        .each(|client| client.call_returned(thread, call, result));
}
