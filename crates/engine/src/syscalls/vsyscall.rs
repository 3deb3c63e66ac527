//! The vsyscall page: three system calls at fixed addresses of the kernel's half, which old static
//! programs call.
//!
//! The page is nothing that can be read or translated: the kernel notices that code is fetched
//! from there, makes the call itself, and returns (`emulate_vsyscall` in
//! `arch/x86/entry/vsyscall/vsyscall_64.c`). So does this.

use unspool_code_cache::emit::gpr;
use unspool_kernel::lock::OnceLock;
use unspool_kernel::{guarded, maps};

use super::Run;
use crate::call::SYSCALL_LENGTH;
use crate::process::Process;
use crate::signal_handling::deliver;
use crate::thread::Thread;

const PAGE: u64 = 0xffff_ffff_ff60_0000;

/// The call that is made by calling an address.
fn number(pc: u64) -> Option<i64> {
    match pc.checked_sub(PAGE)? {
        0 => Some(libc::SYS_gettimeofday),
        0x400 => Some(libc::SYS_time),
        0x800 => Some(libc::SYS_getcpu),
        _ => None,
    }
}

/// Whether the kernel has the page: it can be started without.
fn is_there() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    *THERE.get_or_init(|| maps::lines(&maps::read()).any(|line| line.name == b"[vsyscall]"))
}

/// If the thread, out of the cache, is at one of the entries: makes the call, and returns to where
/// the entry was called. False: it is not there.
pub(crate) fn enter(process: &'static Process, thread: &mut Thread, run: Run) -> bool {
    let pc = thread.pc();
    let Some(number) = number(pc).filter(|_| is_there()) else {
        return false;
    };
    let stack = thread.register(gpr::RSP);
    let Some(back) = guarded::read_word(stack) else {
        fail(thread);
        return true;
    };
    let kept = [gpr::RCX, gpr::R11].map(|register| (register, thread.register(register)));
    thread.set_register(gpr::RAX, number as u64);
    super::system_call(process, thread, run);
    for (register, value) in kept {
        thread.set_register(register, value);
    }
    if thread.pc() == pc - SYSCALL_LENGTH {
        // A signal comes first. Then the call is made again.
        thread.set_pc(pc);
    } else if thread.pc() == pc {
        if thread.register(gpr::RAX) as i64 == -i64::from(libc::EFAULT) {
            fail(thread);
            return true;
        }
        thread.set_pc(back);
        thread.set_register(gpr::RSP, stack + 8);
    }
    true
}

/// The kernel says so where a pointer is bad.
fn fail(thread: &mut Thread) {
    thread.delivery.put_first(deliver::protection_fault());
    deliver::deliver(thread);
}
