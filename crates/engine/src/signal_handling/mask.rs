//! The kernel's signal mask of a thread that runs program code.

use unspool_kernel::race_windows;

use super::shared;
use crate::signals::{bit, kernel_mask};
use crate::thread::Thread;

/// Opens the kernel's mask for the signals that the program does not block. Where something is
/// pending the mask stays as it is: the thread looks before it goes into the cache, and opens
/// the mask then.
pub(crate) fn open(thread: &Thread) {
    set_unless_pending(thread, kernel_mask(thread.delivery.mask()));
}

/// Changes the program's mask, and the kernel's with it. False: something was pending before,
/// and nothing has changed.
#[must_use]
pub(crate) fn change_mask(thread: &mut Thread, mask: u64) -> bool {
    let mask = mask & !bit(libc::SIGKILL) & !bit(libc::SIGSTOP);
    if !set_unless_pending(thread, kernel_mask(mask)) {
        return false;
    }
    race_windows::widen();
    thread.delivery.set_mask(mask);
    settle(thread);
    true
}

/// The mask has changed, or signals have come or gone: other threads see the mask, signals go to
/// those that let them through, and this one sees whether there is something to be delivered.
pub(crate) fn settle(thread: &mut Thread) {
    race_windows::widen();
    thread.held.publish(thread.delivery.mask());
    shared::exchange(thread);
    if thread.delivery.is_due() {
        thread.set_pending(true);
    }
}

/// Sets the kernel's mask for this thread, if nothing is pending: a signal that comes between the
/// look and the call has the call left out.
fn set_unless_pending(thread: &Thread, mask: u64) -> bool {
    let pending = thread.pending().as_ptr();
    race_windows::widen();
    // SAFETY: both words live as long as the call.
    unsafe { unspool_set_mask(&raw const mask, pending) == 0 }
}

// The engine's own call, and not made where the program's are, which its filters judge.
std::arch::global_asm!(
    ".globl unspool_set_mask",
    ".hidden unspool_set_mask",
    ".type unspool_set_mask, @function",
    "unspool_set_mask:",
    "mov r8, rsi",
    "mov rsi, rdi",
    "mov edi, {set}",
    "xor edx, edx",
    "mov r10d, {size}",
    "mov eax, {number}",
    ".globl unspool_set_mask_look",
    ".hidden unspool_set_mask_look",
    "unspool_set_mask_look:",
    "cmp qword ptr [r8], 0",
    "jne unspool_set_mask_left_out",
    ".globl unspool_set_mask_call",
    ".hidden unspool_set_mask_call",
    "unspool_set_mask_call:",
    "syscall",
    "xor eax, eax",
    "ret",
    ".globl unspool_set_mask_left_out",
    ".hidden unspool_set_mask_left_out",
    "unspool_set_mask_left_out:",
    "mov eax, 1",
    "ret",
    set = const libc::SIG_SETMASK,
    size = const 8,
    number = const libc::SYS_rt_sigprocmask,
);

unsafe extern "C" {
    pub(super) fn unspool_set_mask(mask: *const u64, pending: *const u64) -> u32;
    fn unspool_set_mask_look();
    fn unspool_set_mask_call();
    fn unspool_set_mask_left_out();
}

/// Where a thread goes on that a signal interrupts at `pc`, if it is about to set its mask.
pub(crate) fn leaves_mask(pc: u64) -> Option<u64> {
    let look = unspool_set_mask_look as *const () as u64;
    let call = unspool_set_mask_call as *const () as u64;
    let left_out = unspool_set_mask_left_out as *const () as u64;
    (look..=call).contains(&pc).then_some(left_out)
}
