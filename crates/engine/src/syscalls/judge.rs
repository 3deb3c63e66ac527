//! What becomes of a system call that the filters do not simply allow.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::call::{Call, Outcome};
use crate::finish;
use crate::process::Process;
use crate::seccomp::run::CallData;
use crate::seccomp::verdict::{Question, Verdict};
use crate::seccomp::{ARCHITECTURE, FROM_FILTER};
use crate::thread::{AddressSpaceRole, PendingSignal, Thread};

/// Judges a call that the program is about to make. `None`: it is made.
#[inline]
pub(crate) fn judge(process: &Process, thread: &mut Thread, call: &Call) -> Option<Outcome> {
    let data = || CallData {
        number: call.number as i32,
        architecture: ARCHITECTURE,
        instruction_pointer: thread.pc(),
        arguments: call.arguments,
    };
    match thread.filters.judge(data)? {
        Verdict::Allow => None,
        verdict => enforce(process, thread, &data(), verdict),
    }
}

#[inline(never)]
fn enforce(
    process: &Process,
    thread: &mut Thread,
    data: &CallData,
    verdict: Verdict,
) -> Option<Outcome> {
    match verdict {
        Verdict::Allow | Verdict::AskKernel(Question::Log) => None,
        Verdict::AskKernel(question) if is_made_by_engine(data.number) => {
            if question == Question::Supervisor {
                say_unanswered(data.number);
            }
            Some(Outcome::Return(-i64::from(libc::ENOSYS)))
        }
        Verdict::AskKernel(_) => None,
        Verdict::Return(result) => Some(Outcome::Return(result)),
        Verdict::Trap(reason) => {
            // No other signal may come between. They are let in again when this one is delivered.
            crate::signals::block_all();
            thread.delivery.put_first(trap(data, reason));
            thread.set_pending(true);
            Some(Outcome::RegistersSet)
        }
        Verdict::KillThread(signal) => {
            kill_thread(process, thread, signal);
            Some(Outcome::RegistersSet)
        }
        Verdict::KillProcess => finish::die(thread, libc::SIGSYS),
    }
}

/// The SIGSYS of a filter that wants the call to be carried out by the program's handler.
fn trap(data: &CallData, reason: u16) -> PendingSignal {
    let mut info = [0; 16];
    info[0] = libc::SIGSYS as u64 | u64::from(reason) << 32;
    info[1] = FROM_FILTER;
    info[2] = data.instruction_pointer;
    info[3] = u64::from(data.number as u32) | u64::from(data.architecture) << 32;
    PendingSignal {
        number: libc::SIGSYS,
        info,
        // The kernel forces it: where it is blocked or ignored, the process dies.
        fault: Some([0; 3]),
        is_directed: false,
    }
}

/// The thread ends as if a signal had killed it alone. The last one's end is the process's.
fn kill_thread(process: &Process, thread: &mut Thread, signal: i32) {
    let last = process.thread_count.load(Ordering::Acquire) == 1;
    let alone = last || thread.role != AddressSpaceRole::Process;
    if alone && signal == libc::SIGSYS {
        finish::die(thread, signal);
    }
    if thread.role != AddressSpaceRole::Process {
        crate::finish::end_by_signal(thread, signal);
    }
    thread.killed_by = signal;
    thread.exit_status = Some(0);
}

/// Whether the engine carries a call out by other means than by passing it on, so that the
/// kernel cannot ask anybody about it.
fn is_made_by_engine(number: i32) -> bool {
    matches!(
        i64::from(number),
        libc::SYS_clone
            | libc::SYS_clone3
            | libc::SYS_fork
            | libc::SYS_vfork
            | libc::SYS_execve
            | libc::SYS_execveat
            | libc::SYS_exit
            | libc::SYS_exit_group
            | libc::SYS_rt_sigaction
            | libc::SYS_rt_sigprocmask
            | libc::SYS_rt_sigreturn
            | libc::SYS_sigaltstack
            | libc::SYS_set_tid_address
            | libc::SYS_brk
            | libc::SYS_seccomp
    )
}

fn say_unanswered(number: i32) {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !SAID.swap(true, Ordering::Relaxed) {
        unspool_kernel::diagnostics::say(&format!(
            "unspool: a seccomp filter leaves system call {number} to a supervisor, which under \
             observation cannot be asked about calls that make threads and processes, start \
             programs or set signals; such calls fail with ENOSYS"
        ));
    }
}
