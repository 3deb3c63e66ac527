//! Signals: the program's handlers run translated, with the context that the program would
//! have seen without the engine.
//!
//! The kernel keeps the program's mask and dispositions, so that blocking, pending, waiting
//! and `signalfd` work by themselves; only the handler is always the engine's. It takes a signal
//! from the kernel, puts it into `held`, blocks the rest,
//! and brings the thread out of the cache at a boundary between two program instructions:
//! at once if it stands at one, else after single-stepping the few instructions to the
//! next. `delivery` says which signal the program gets, and `deliver` builds its frame.
//!
//! **Nothing is lost, and nothing is early**, by three rules:
//! - The kernel's mask is opened in one place, `open`, through a gate that does nothing where
//!   something is pending. So once a signal is taken no other comes before the program has it.
//! - A system call that changes the program's mask changes the kernel's first, through the same
//!   gate (`change_mask`). If a signal came before, the call has not been made: the program gets
//!   the signal, and makes its call again.
//! - Signals that the engine can never block ([`SYNCHRONOUS`], [`STOP`]) are kept in
//!   `delivery::Delivery` while the program blocks them, and shown by the calls that ask for
//!   pending signals or wait for them.
//!
//! **How long that takes is bounded**, whatever the program does, loops without any branch out
//! included: the handler interrupts translated code anywhere, so nothing has to be reached. What
//! can lie between are
//! - the rest of one instruction's translation, with what records it and checks owners: some
//!   dozens of single steps, below 0.1 ms. A repeated string instruction is left between two
//!   rounds, traced or not;
//! - the engine's own work, if it is at some: one translation, one buffer of records to be packed
//!   and written, the wait for another thread to give a line away (up to 10 ms where that thread
//!   runs code without end), and, in line-atomic order, the lines that one string instruction
//!   names, which are acquired before it begins: 0.1 s for each gigabyte.
//!
//! The guest `signals/bounded_delivery` measures it.

pub(crate) mod actions;
pub mod broken_pipe;
pub(crate) mod deliver;
pub(crate) mod delivery;
pub(crate) mod directed;
pub mod frame;
pub(crate) mod handler;
pub(crate) mod held;
mod init;
mod own_threads;
pub(crate) mod passed_on;
pub(crate) mod shared;
pub(crate) mod stepping;
mod time_stamp;

use unspool_kernel::race_windows;

use crate::thread::Thread;

/// Signals that the hardware raises at an instruction. The engine never blocks them: a
/// blocked one would kill the process inside the engine.
pub const SYNCHRONOUS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP);

/// The flag that makes the processor trap behind each instruction.
pub const TRAP_FLAG: u64 = 0x100;

/// The signal by which the engine stops its own threads: the one by which glibc has all threads
/// change their identity, and musl cancels them. Programs use it in no other way, so that all
/// real-time signals that they know of are theirs.
pub const STOP: i32 = 33;

/// The mask bit of a signal.
#[must_use]
pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// What the kernel's mask is where the program's is this.
#[must_use]
pub(crate) const fn kernel_mask(program_mask: u64) -> u64 {
    program_mask & !SYNCHRONOUS & !bit(STOP)
}

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
    fn unspool_set_mask(mask: *const u64, pending: *const u64) -> u32;
    fn unspool_set_mask_look();
    fn unspool_set_mask_call();
    fn unspool_set_mask_left_out();
}

/// Where a thread goes on that a signal interrupts at `pc`, if it is about to set its mask.
fn leaves_mask(pc: u64) -> Option<u64> {
    let look = unspool_set_mask_look as *const () as u64;
    let call = unspool_set_mask_call as *const () as u64;
    let left_out = unspool_set_mask_left_out as *const () as u64;
    (look..=call).contains(&pc).then_some(left_out)
}

/// The `si_code` of a signal: where it comes from, greater than 0 where the kernel raised it.
pub fn code(info: &[u64; 16]) -> i32 {
    info[1] as u32 as i32
}

/// Blocks all signals but the synchronous ones.
pub fn block_all() {
    set_exact_mask(!SYNCHRONOUS);
}

/// The kernel's mask for this thread.
#[must_use]
pub(crate) fn exact_mask() -> u64 {
    change_exact_mask(libc::SIG_BLOCK, 0)
}

/// Sets the kernel's mask for this thread.
pub fn set_exact_mask(mask: u64) {
    change_exact_mask(libc::SIG_SETMASK, mask);
}

/// Changes the kernel's mask for this thread. Returns the one before.
fn change_exact_mask(how: i32, mask: u64) -> u64 {
    let mut before = 0_u64;
    // SAFETY: masks are 8 bytes, as the call says.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            how,
            &raw const mask,
            &raw mut before,
            8_usize,
        );
    }
    before
}
