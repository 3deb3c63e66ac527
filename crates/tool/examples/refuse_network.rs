//! Runs a program as if it had no network: its attempts to connect are refused, and named.

use unspool_tool::{SystemCall, Tool, Trace, say};

struct RefuseNetwork;

/// No system call has this number, so the kernel does nothing.
const NONE: u64 = u64::MAX;

impl Tool for RefuseNetwork {
    /// Whether the system call that the thread makes is being refused.
    type Thread = bool;

    fn instrument(&self, _: &Trace<Self>) {}

    fn system_call_entry(&self, refused: &mut bool, call: &mut SystemCall) {
        *refused = call.number == libc::SYS_connect as u64;
        if *refused {
            say("refused a connection");
            call.number = NONE;
        }
    }

    fn system_call_exit(&self, refused: &mut bool, _: &SystemCall, result: &mut i64) {
        if *refused {
            *result = -i64::from(libc::ENETUNREACH);
        }
    }
}

fn main() {
    unspool_tool::run(RefuseNetwork)
}
