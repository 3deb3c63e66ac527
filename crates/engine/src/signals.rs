//! Signals: the program's handlers run translated, with the context that the program would
//! have seen without the engine.
//!
//! The kernel keeps the program's mask and dispositions, so that blocking, pending, waiting
//! and `signalfd` work by themselves; only the handler is always the engine's. It takes at
//! most one signal from the kernel, notes it in the [`Thread`](crate::thread::Thread), blocks the rest,
//! and brings the thread out of the cache at a boundary between two program instructions:
//! at once if it stands at one, else after single-stepping the few instructions to the
//! next. [`deliver`] then builds the program's signal frame.
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

pub mod actions;
pub mod deliver;
pub mod frame;
pub mod handler;

/// Signals that the hardware raises at an instruction. The engine never blocks them: a
/// blocked one would kill the process inside the engine.
pub const SYNCHRONOUS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP);

/// The flag that makes the processor trap behind each instruction.
pub const TRAP_FLAG: u64 = 0x100;

/// The signal by which the engine stops its own threads.
pub const STOP: i32 = 64;

/// The mask bit of a signal.
#[must_use]
pub const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Sets the kernel's mask for this thread to what fits the program's mask.
pub fn set_kernel_mask(program_mask: u64) {
    set_exact_mask(program_mask & !SYNCHRONOUS & !bit(STOP));
}

/// Blocks all signals but the synchronous ones.
pub fn block_all() {
    set_exact_mask(!SYNCHRONOUS);
}

/// The kernel's mask for this thread.
#[must_use]
pub fn exact_mask() -> u64 {
    let mut mask = 0_u64;
    // SAFETY: the mask is 8 bytes, as the call says.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_BLOCK,
            0usize,
            &raw mut mask,
            8usize,
        );
    }
    mask
}

/// Sets the kernel's mask for this thread.
pub fn set_exact_mask(mask: u64) {
    // SAFETY: the mask is 8 bytes, as the call says.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_SETMASK,
            &raw const mask,
            0usize,
            8usize,
        );
    }
}
