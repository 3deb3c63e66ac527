//! The engine's own reads of the time-stamp counter in a thread that must not read it.
//!
//! With `prctl(PR_SET_TSC, PR_TSC_SIGSEGV)` a program asks for a signal where it reads the counter.
//! The engine reads it too, and asks for times, which the kernel's vDSO derives from it. Such a
//! read faults as well, and is made here while it is allowed.

use unspool_kernel::guarded;

const RDTSC: [u8; 2] = [0x0f, 0x31];
const RDTSCP: [u8; 3] = [0x0f, 0x01, 0xf9];

/// If the instruction at the engine's `pc`, which faulted, reads the counter: what it puts into
/// rax, rdx and, perhaps, rcx, and how long it is.
pub(super) fn read_at(pc: u64) -> Option<(u64, Option<u64>, u64)> {
    let mut bytes = [0; 3];
    if !guarded::read_any(pc, &mut bytes) {
        return None;
    }
    let with_number = bytes == RDTSCP;
    if !with_number && bytes[..2] != RDTSC {
        return None;
    }
    let mut allowed = 0_i32;
    prctl(libc::PR_GET_TSC, (&raw mut allowed) as u64);
    if allowed != libc::PR_TSC_SIGSEGV {
        return None;
    }
    prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE as u64);
    let mut number = 0;
    // SAFETY: reads a counter, which is allowed now.
    let time = unsafe {
        if with_number {
            std::arch::x86_64::__rdtscp(&raw mut number)
        } else {
            std::arch::x86_64::_rdtsc()
        }
    };
    prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV as u64);
    let length = if with_number {
        RDTSCP.len()
    } else {
        RDTSC.len()
    };
    Some((
        time,
        with_number.then_some(u64::from(number)),
        length as u64,
    ))
}

fn prctl(operation: i32, argument: u64) {
    // SAFETY: about this thread's reads of the counter only; the answer goes to a variable.
    unsafe { libc::syscall(libc::SYS_prctl, operation, argument, 0, 0, 0) };
}
