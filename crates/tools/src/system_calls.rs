//! Lists the system calls that a program makes, in each thread's order.

use unspool_tool::{Superblock, SystemCall, ThreadInfo, Tool, say};

/// Lists system calls: the thread, the number, the arguments, and what came of it.
pub struct SystemCalls;

impl Tool for SystemCalls {
    /// The thread's number.
    type Thread = u32;

    fn instrument(&self, _: &Superblock<Self>) {}

    fn thread_start(&self, thread: &ThreadInfo, number: &mut u32) {
        *number = thread.number;
    }

    fn system_call_exit(&self, thread: &mut u32, call: &SystemCall, result: &mut i64) {
        let arguments = call.arguments.map(|argument| format!("{argument:#x}"));
        let outcome = match *result {
            error @ -4095..0 => format!("error {}", -error),
            value => format!("{value:#x}"),
        };
        let arguments = arguments.join(", ");
        say(&format!(
            "[{thread}] {}({arguments}) = {outcome}",
            call.number
        ));
    }
}
