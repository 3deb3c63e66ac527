//! How many instructions a program executes, as the kernel's single steps tell.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::observer::Verdict;

/// Runs a program natively, an instruction at a time, and counts those that complete; a
/// repeated string instruction counts once.
pub(crate) fn count(program: &Path, arguments: &[&str]) -> Result<u64, Verdict> {
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::null());
    // SAFETY: asks the kernel only, between fork and exec.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let child = command.spawn()?;
    let process = child.id() as i32;
    let mut steps = 0;
    let mut before = 0;
    loop {
        let mut status = 0;
        // SAFETY: waits for a child of ours.
        if unsafe { libc::waitpid(process, &raw mut status, 0) } != process {
            return Err(std::io::Error::last_os_error().into());
        }
        if !libc::WIFSTOPPED(status) {
            // The last instruction is the system call that did not return.
            return Ok(steps + 1);
        }
        let pc = program_counter(process)?;
        let stop = stop(process, libc::WSTOPSIG(status))?;
        let repeats = pc == before && is_string_instruction(process, pc)?;
        if matches!(stop, Stop::Stepped | Stop::Breakpoint) && !repeats {
            steps += 1;
        }
        before = pc;
        let pass = match stop {
            Stop::Stepped | Stop::NothingExecuted => 0,
            Stop::Breakpoint => libc::SIGTRAP,
            Stop::Signal(signal) => signal,
        };
        // SAFETY: resumes a child of ours that has stopped.
        if unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, process, 0, pass) } != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
    }
}

/// Why the program has stopped.
enum Stop {
    /// An instruction has been executed.
    Stepped,
    /// So has `int3`, and its signal is to be passed on.
    Breakpoint,
    /// It is at its entry, or at that of a signal handler.
    NothingExecuted,
    /// It is about to get a signal.
    Signal(i32),
}

/// Tells it from the signal's code, as `arch/x86/kernel/traps.c`, `signal.c` and `ptrace.c` set it.
fn stop(process: i32, signal: i32) -> Result<Stop, Verdict> {
    const BEHIND_SYSTEM_CALL: i32 = 1;
    const BEHIND_INSTRUCTION: i32 = 2;
    const BY_KERNEL: i32 = 0x80;
    if signal != libc::SIGTRAP {
        return Ok(Stop::Signal(signal));
    }
    let mut info = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    // SAFETY: the kernel writes one siginfo.
    let code = unsafe {
        if libc::ptrace(libc::PTRACE_GETSIGINFO, process, 0, info.as_mut_ptr()) != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        info.assume_init().si_code
    };
    Ok(match code {
        BEHIND_SYSTEM_CALL | BEHIND_INSTRUCTION => Stop::Stepped,
        BY_KERNEL => Stop::Breakpoint,
        _ => Stop::NothingExecuted,
    })
}

fn program_counter(process: i32) -> Result<u64, Verdict> {
    let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::zeroed();
    // SAFETY: the kernel writes one set of registers.
    unsafe {
        if libc::ptrace(libc::PTRACE_GETREGS, process, 0, registers.as_mut_ptr()) != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        Ok(registers.assume_init().rip)
    }
}

fn is_string_instruction(process: i32, pc: u64) -> Result<bool, Verdict> {
    // SAFETY: reads a word of the child's memory.
    let word = unsafe {
        *libc::__errno_location() = 0;
        libc::ptrace(libc::PTRACE_PEEKTEXT, process, pc, 0)
    };
    Ok(matches!(word as u8, 0xf2 | 0xf3))
}
