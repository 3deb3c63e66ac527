//! System calls about the calling thread.

use unspool_code_cache::gates::RESTART;
use unspool_kernel::guarded;

use super::pass;
use crate::call::{Call, Outcome};
use crate::client;
use crate::process::Process;
use crate::thread::{AddressSpaceRole, Thread};

const ARCH_SET_GS: u64 = 0x1001;
const ARCH_SET_FS: u64 = 0x1002;
const ARCH_GET_FS: u64 = 0x1003;
const ARCH_GET_GS: u64 = 0x1004;
/// Shadow stacks: the cache's returns would not match them.
const ARCH_SHADOW_STACK: std::ops::RangeInclusive<u64> = 0x5001..=0x5005;
const INVALID: i64 = -(libc::EINVAL as i64);

/// `arch_prctl`: the program's FS base lives in GS, its GS base in a slot.
pub(super) fn arch_prctl(process: &Process, thread: &mut Thread, call: &Call) -> i64 {
    let [code, address, ..] = call.arguments;
    match code {
        ARCH_SET_FS if address >> 47 != 0 => -i64::from(libc::EPERM),
        ARCH_SET_FS => {
            set_program_fs(process, thread, address);
            0
        }
        ARCH_GET_FS => {
            let base = thread.slots().program_fs.get();
            if guarded::write(address, &base.to_le_bytes()) {
                0
            } else {
                -i64::from(libc::EFAULT)
            }
        }
        ARCH_SET_GS if address >> 47 != 0 => -i64::from(libc::EPERM),
        ARCH_SET_GS => {
            thread.slots().program_gs.set(address);
            0
        }
        ARCH_GET_GS => {
            let base = thread.slots().program_gs.get();
            if guarded::write(address, &base.to_le_bytes()) {
                0
            } else {
                -i64::from(libc::EFAULT)
            }
        }
        _ if ARCH_SHADOW_STACK.contains(&code) => INVALID,
        _ => pass(process, call),
    }
}

/// The engine's own FS base of this thread: the ABI has it at its own start.
pub(super) fn thread_pointer() -> u64 {
    let own;
    // SAFETY: reads a word that is always there.
    unsafe {
        std::arch::asm!(
            "mov {own}, fs:[0x10]",
            own = out(reg) own,
            options(nostack, readonly)
        );
    }
    own
}

/// Sets the program's FS base of this thread, and tells the trace.
pub(crate) fn set_program_fs(process: &Process, thread: &mut Thread, address: u64) {
    set_fs_base(process, thread, address);
    client::thread_pointer_changed(thread, address);
}

/// Sets the program's FS base of this thread.
pub(super) fn set_fs_base(process: &Process, thread: &mut Thread, address: u64) {
    // SAFETY: GS belongs to the program; the slots to this thread.
    unsafe {
        thread.slots().program_fs.set(address);
        if process.fsgsbase {
            std::arch::asm!("wrgsbase {}", in(reg) address, options(nostack, nomem));
        } else {
            libc::syscall(libc::SYS_arch_prctl, ARCH_SET_GS, address);
        }
    }
}

/// `prctl`.
pub(super) fn prctl(process: &Process, thread: &mut Thread, call: &Call) -> i64 {
    const PR_SET_MM: u64 = 35;
    const PR_SET_SYSCALL_USER_DISPATCH: u64 = 59;
    match call.arguments[0] {
        // These would describe or stop the engine instead of the program.
        PR_SET_MM => -i64::from(libc::EPERM),
        PR_SET_SYSCALL_USER_DISPATCH => INVALID,
        operation if operation == libc::PR_SET_SECCOMP as u64 => {
            crate::filters::install::prctl(process, thread, call)
        }
        _ => pass(process, call),
    }
}

/// `exit`: this thread ends. A signal that it has taken before comes before that.
pub(super) fn exit(thread: &mut Thread, call: &Call) -> Outcome {
    unspool_kernel::race_windows::widen();
    crate::signals::block_all();
    if thread.is_pending() {
        return Outcome::Return(RESTART);
    }
    thread.exit_status = Some(call.arguments[0] as i32);
    Outcome::RegistersSet
}

/// `set_tid_address`. The word of a child in its parent's place is the kernel's to clear.
pub(super) fn set_tid_address(process: &Process, thread: &mut Thread, call: &Call) -> i64 {
    if thread.role == AddressSpaceRole::VforkChild {
        return pass(process, call);
    }
    thread.clear_tid = call.arguments[0];
    i64::from(thread.tid.get())
}
