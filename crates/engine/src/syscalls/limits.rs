//! Limits of memory that the program sets while it runs.
//!
//! The kernel counts the engine's memory as the program's. What the engine opens for writing, or takes
//! for its heap, behind such a call may be refused; so it takes what a program may still need first.
//! A program that translates more than that behind a limit that leaves no room ends with a message.

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
    let is_of_memory = [libc::RLIMIT_DATA, libc::RLIMIT_AS].contains(&(resource as u32));
    if is_of_memory && limit != 0 {
        process.code().cache.open_ahead();
        layout::take_heap_ahead();
    }
    pass(process, call)
}
