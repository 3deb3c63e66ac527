//! `ptrace` and observation. A process that is to be traced is let go first: its tracer would see
//! the engine's registers, memory and signals in place of the program's.

use libc::c_uint;
use unspool_code_cache::emit::gpr;
use unspool_kernel::diagnostics;
use unspool_kernel::ids::Tid;

use super::departure::Departure;
use super::request::{self, AskError};
use super::{Cause, let_go};
use crate::call::SYSCALL_LENGTH;
use crate::code_pages;
use crate::process::Process;
use crate::signals;
use crate::thread::{AddressSpaceRole, Thread};

const NOT_PERMITTED: i64 = -(libc::EPERM as i64);

/// The thread asks to be traced by its parent: `PTRACE_TRACEME`. Lets the process go, which then
/// makes the call natively. Returns what the call returns if it does not get that far, `None` if
/// it is to be made at once.
pub(crate) fn wants_tracer(thread: &mut Thread) -> Option<i64> {
    match thread.role {
        // It is the engine that sanitizers trace so, with its own arrangements.
        AddressSpaceRole::SharedMemoryChild => None,
        // The parent waits, on the same memory, until the child executes another program: nobody
        // can see before that whether the child is traced.
        AddressSpaceRole::VforkChild => {
            thread.detach.wants_tracer = true;
            Some(0)
        }
        AddressSpaceRole::Process => {
            thread.set_pc(thread.pc() - SYSCALL_LENGTH);
            let refusal = let_go(thread, &Cause::AsksForTracer);
            thread.set_pc(thread.pc() + SYSCALL_LENGTH);
            diagnostics::say(&format!(
                "unspool: process {} asks to be traced; it gets no tracer, because it cannot be let go: {refusal}",
                std::process::id()
            ));
            Some(NOT_PERMITTED)
        }
    }
}

/// Whether the program that a thread executes is to run natively, because it will be traced.
pub(crate) fn is_to_be_traced(thread: &Thread) -> bool {
    thread.detach.wants_tracer
}

/// The thread is about to execute a program. A child that has asked to be traced is from here on.
pub(crate) fn become_traced(thread: &Thread) {
    if !thread.detach.wants_tracer {
        return;
    }
    diagnostics::say(&format!(
        "unspool: process {} asks to be traced and is let go: it runs natively from here on",
        std::process::id()
    ));
    // SAFETY: asks the kernel only.
    unsafe { libc::ptrace(libc::PTRACE_TRACEME as c_uint, 0, 0, 0) };
}

/// The `execve` of a child that is traced now has failed: what it still does in its parent's
/// place it does natively, for its tracer would be told of the engine's own signals.
pub(crate) fn after_failed_execute(process: &Process, thread: &mut Thread, error: i32) {
    if !thread.detach.wants_tracer {
        return;
    }
    code_pages::release(&mut process.code(), 0..u64::MAX);
    signals::set_exact_mask(!0);
    // Its dispositions are its own: it shares only memory with its parent.
    signals::actions::hand_back(&thread.actions);
    thread.set_register(gpr::RAX, -i64::from(error) as u64);
    Departure::of(thread).leave()
}

/// A thread of another process is about to be traced by this one (`PTRACE_ATTACH`,
/// `PTRACE_SEIZE`): if that is observed too, it is let go first. Returns what the call returns if
/// that cannot be.
pub(crate) fn let_go_for_tracer(tracee: Tid) -> Option<i64> {
    if !request::is_observed(tracee) {
        return None;
    }
    match request::ask(tracee) {
        // The kernel knows best what to say of a process that is gone.
        Ok(()) | Err(AskError::NoProcess | AskError::NotObserved | AskError::Forbidden(_)) => None,
        Err(error @ (AskError::Refused(_) | AskError::Silent)) => {
            diagnostics::say(&format!(
                "unspool: process {} cannot trace process {tracee}, which is observed: {error}",
                std::process::id()
            ));
            Some(NOT_PERMITTED)
        }
    }
}
