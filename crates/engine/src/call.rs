//! System calls as data: what the program asks for, and what can be known of that beforehand.

pub(crate) mod clone_request;
pub(crate) mod interrupted;
pub(crate) mod relative_waits;
mod start_child;
pub(crate) mod waits;

use unspool_code_cache::emit::gpr;

pub use self::clone_request::KernelCall;
pub use self::start_child::start_child;

/// Bytes of the `syscall` instruction.
pub const SYSCALL_LENGTH: u64 = 2;

/// What becomes of a system call.
pub(crate) enum Outcome {
    /// It returned this.
    Return(i64),
    /// It set the program's registers itself.
    RegistersSet,
}

/// One system call of the program.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Its number.
    pub number: u64,
    /// rdi, rsi, rdx, r10, r8, r9.
    pub arguments: [u64; 6],
}

/// The registers of its arguments.
pub(crate) const ARGUMENTS: [u8; 6] = [gpr::RDI, gpr::RSI, gpr::RDX, 10, 8, 9];

/// Whether what a system call returns is no error.
pub fn succeeded(result: i64) -> bool {
    !(-4095..0).contains(&result)
}

/// Bytes of a signal mask.
pub(crate) const MASK_SIZE: u64 = 8;

/// Makes a call that the program has not asked for, and no filter of the program's judges.
///
/// # Safety
/// The call must be one that leaves engine memory alone, and returns in this thread.
pub(crate) unsafe fn own_call(number: i64, arguments: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: as the caller promises.
    let result = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    match result {
        -1 => {
            let error = std::io::Error::last_os_error().raw_os_error();
            -i64::from(error.unwrap_or(libc::EINVAL))
        }
        _ => result,
    }
}
