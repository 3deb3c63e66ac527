//! System calls about the calling thread.

use unspool_code_cache::gates::RESTART;
use unspool_kernel::guarded;

use super::{Call, Outcome, pass};
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
            crate::seccomp::install::prctl(process, thread, call)
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

/// Announces the end of a thread as the kernel does: robust futexes first, then the
/// clear-tid word. After that the program may free the thread's stack.
pub(crate) fn announce_end(thread: &mut Thread) {
    // Whoever hears of the end may give all threads a filter, and this is none any more.
    thread.filters.set(None);
    release_robust_list(thread);
    thread
        .clients()
        .each(|client| client.end_is_announced(thread));
    if thread.clear_tid != 0 {
        client::memory_written(thread, thread.clear_tid, 4);
    }
    clear_tid(thread);
}

/// `set_tid_address`. The word of a child in its parent's place is the kernel's to clear.
pub(super) fn set_tid_address(process: &Process, thread: &mut Thread, call: &Call) -> i64 {
    if thread.role == AddressSpaceRole::VforkChild {
        return pass(process, call);
    }
    thread.clear_tid = call.arguments[0];
    i64::from(thread.tid)
}

/// Clears the word that says that a thread is there, and wakes whoever waits for that, unless
/// it has been done.
pub(super) fn clear_tid(thread: &mut Thread) {
    let word = std::mem::take(&mut thread.clear_tid);
    if word != 0 {
        let _ = guarded::write(word, &[0; 4]);
        wake(word, 1);
    }
}

fn wake(word: u64, count: u64) {
    let arguments = [word, libc::FUTEX_WAKE as u64, count, 0, 0, 0];
    // SAFETY: waking has no effect on memory.
    unsafe { super::own_call(libc::SYS_futex, arguments) };
}

/// Walks the program's list of robust futexes (`kernel/futex/core.c`, `exit_robust_list`).
fn release_robust_list(thread: &mut Thread) {
    const LONGEST: usize = 2048;
    const PRIORITY_INHERITANCE: u64 = 1;
    let head = std::mem::take(&mut thread.robust_list);
    if head == 0 {
        return;
    }
    // From here on the kernel must not walk it again.
    // SAFETY: an empty list has no effect on memory.
    unsafe { libc::syscall(libc::SYS_set_robust_list, std::ptr::null::<u8>(), 24usize) };
    let words = (
        guarded::read_word(head),
        guarded::read_word(head + 8),
        guarded::read_word(head + 16),
    );
    let (Some(mut entry), Some(offset), Some(pending)) = words else {
        return;
    };
    for _ in 0..LONGEST {
        if entry & !PRIORITY_INHERITANCE == head {
            break;
        }
        let Some(next) = guarded::read_word(entry & !PRIORITY_INHERITANCE) else {
            break;
        };
        let word = (entry & !PRIORITY_INHERITANCE).wrapping_add(offset);
        if entry != pending && !release_robust(thread, word) {
            return;
        }
        entry = next;
    }
    if pending & !PRIORITY_INHERITANCE != 0 {
        release_robust(
            thread,
            (pending & !PRIORITY_INHERITANCE).wrapping_add(offset),
        );
    }
}

/// Returns whether the word could be looked at and, where it is the thread's, written. The
/// kernel, too, goes no further otherwise.
fn release_robust(thread: &mut Thread, word: u64) -> bool {
    const OWNER: u32 = 0x3fff_ffff;
    const WAITERS: u32 = 0x8000_0000;
    const OWNER_DIED: u32 = 0x4000_0000;
    if !word.is_multiple_of(4) {
        return false;
    }
    let mut bytes = [0; 4];
    while guarded::read(word, &mut bytes) {
        let value = u32::from_le_bytes(bytes);
        if value & OWNER != thread.tid as u32 {
            return true;
        }
        client::memory_written(thread, word, 4);
        match guarded::compare_exchange(word, value, value & WAITERS | OWNER_DIED) {
            Some(true) => {
                if value & WAITERS != 0 {
                    wake(word, 1);
                }
                return true;
            }
            Some(false) => {}
            None => return false,
        }
    }
    false
}
