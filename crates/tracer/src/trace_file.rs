//! How the trace's file is written from within the observed process.
//!
//! The kernel counts what is written there as the program's own: a program that limits the size of its
//! files (`RLIMIT_FSIZE`) limits the trace's as well, and a signal tells it of the excess. Limits
//! belong to a process, so what the program's soft limit refuses is written by a process that lives
//! for one write, under the hard limit alone: that one binds whoever set it.

use std::ffi::c_void;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;

use unspool_engine::call::{KernelCall, start_child};
use unspool_engine::signal_handling::write_signals;
use unspool_engine::signals::with_all_blocked;
use unspool_kernel::raw_call::raw_system_call;

/// Bytes of the stack of the process that writes.
const STACK_BYTES: usize = 16 << 10;

/// As `File::write` does it, but for the program's limit and signals.
///
/// # Errors
/// The kernel's: `EFBIG` at the hard limit.
pub(crate) fn write(mut file: &File, bytes: &[u8]) -> io::Result<usize> {
    let written = write_signals::kept_from_program(|| file.write(bytes));
    match written {
        Err(error) if error.raw_os_error() == Some(libc::EFBIG) => {
            write_beyond_limit(file, bytes).map_err(|_| error)
        }
        written => written,
    }
}

/// One write, and what came of it.
struct PendingWrite {
    file: i32,
    address: u64,
    size: u64,
    result: i64,
}

fn write_beyond_limit(file: &File, bytes: &[u8]) -> io::Result<usize> {
    let mut pending = PendingWrite {
        file: file.as_raw_fd(),
        address: bytes.as_ptr() as u64,
        size: bytes.len() as u64,
        result: -i64::from(libc::EAGAIN),
    };
    // One that comes to a group of processes must not run a handler in this memory twice.
    with_all_blocked(|| {
        let mut stack = [0_u128; STACK_BYTES / size_of::<u128>()];
        let call = KernelCall::awaited((stack.as_mut_ptr() as u64, STACK_BYTES as u64));
        // SAFETY: this thread waits until the child, which uses its thread-local memory, has ended; so
        // the stack and what is to be written live long enough.
        unsafe {
            let id = start_child(&call, carry_out, (&raw mut pending).cast());
            if id < 0 {
                pending.result = id;
                return;
            }
            // Takes the report of a child that is the engine's own.
            let id = id as u64;
            raw_system_call(libc::SYS_wait4, [id, 0, libc::__WALL as u64, 0, 0]);
        }
    });
    match usize::try_from(pending.result) {
        Ok(written) => Ok(written),
        Err(_) => Err(io::Error::from_raw_os_error(-pending.result as i32)),
    }
}

/// The life of the process that writes.
unsafe extern "C" fn carry_out(argument: *mut c_void) -> i32 {
    let resource = u64::from(libc::RLIMIT_FSIZE);
    // SAFETY: `write_beyond_limit` passes a write that nobody else uses meanwhile; the kernel writes
    // and reads limits that live as long as the calls. The limits are this process's own.
    unsafe {
        let pending = &mut *argument.cast::<PendingWrite>();
        let mut limits = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        let into = &raw mut limits as u64;
        raw_system_call(libc::SYS_prlimit64, [0, resource, 0, into, 0]);
        let raised = libc::rlimit {
            rlim_cur: limits.rlim_max,
            ..limits
        };
        let from = &raw const raised as u64;
        raw_system_call(libc::SYS_prlimit64, [0, resource, from, 0, 0]);
        let write = [pending.file as u64, pending.address, pending.size, 0, 0];
        pending.result = raw_system_call(libc::SYS_write, write);
    }
    0
}
