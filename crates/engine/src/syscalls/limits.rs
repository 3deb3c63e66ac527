//! The limit of data that the program sets while it runs.
//!
//! The kernel counts the engine's memory as the program's. What the engine opens for writing, or takes
//! for its heap, behind such a call may be refused; so it takes what a program may still need first.
//! A program that translates more than that behind a limit that leaves no room ends with a message.
//! Under a limit of address space only the heap's growth counts, and that is taken when it is needed:
//! what is taken ahead would be missing where the program has reckoned with it.

use unspool_kernel::layout;

use super::{Call, pass};
use crate::process::Process;

/// `setrlimit` and `prlimit64`.
pub(super) fn set(process: &Process, call: &Call) -> i64 {
    let [first, second, third, ..] = call.arguments;
    let (resource, limit) = match call.number as i64 {
        libc::SYS_setrlimit => (first, second),
        _ => (second, third),
    };
    if resource == u64::from(libc::RLIMIT_DATA) && limit != 0 {
        process.code().cache.open_ahead();
        layout::take_heap_ahead();
    }
    pass(process, call)
}
