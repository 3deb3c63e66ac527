//! Signals as data, and the machines that decide about them: which one comes next and under which
//! mask (`delivery`), what a trap means (`stepping`), what a handler may touch (`held`), what
//! the program wants to be done (`actions`). `signal_handling` moves them between kernel and
//! program.

pub(crate) mod actions;
pub(crate) mod delivery;
pub(crate) mod directed;
pub(crate) mod held;
pub mod overtime;
pub(crate) mod passed_on;
mod pending;
pub(crate) mod stepping;

pub use self::pending::PendingSignal;

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

/// The `si_code` of a signal: where it comes from, greater than 0 where the kernel raised it.
pub fn code(info: &[u64; 16]) -> i32 {
    info[1] as u32 as i32
}

/// Sends a signal to the thread that runs here, with what came with it.
pub(crate) fn send_to_itself(number: i32, info: &[u64; 16]) {
    // SAFETY: a thread may send any signal to itself.
    unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            libc::getpid(),
            libc::gettid(),
            number,
            info.as_ptr(),
        );
    }
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

/// Does something while no signal comes to this thread.
pub fn with_all_blocked<R>(act: impl FnOnce() -> R) -> R {
    let before = change_exact_mask(libc::SIG_SETMASK, !0);
    let result = act();
    set_exact_mask(before);
    result
}

/// Changes the kernel's mask for this thread. Returns the one before.
pub(crate) fn change_exact_mask(how: i32, mask: u64) -> u64 {
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
