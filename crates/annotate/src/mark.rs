//! The calls.

use core::ffi::{CStr, c_char};

use crate::operation::Operation;

/// Calls a function that is there only while something observes the program. Its address is read from the
/// table that the loader fills, so that no linker settles before that it is not there.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
macro_rules! call {
    ($symbol:literal ($($argument:expr => $type:ty),*)) => {{
        let address: usize;
        // SAFETY: reads a word of the program's own table.
        unsafe {
            core::arch::asm!(
                concat!(".weak ", $symbol),
                concat!("mov {}, qword ptr [rip + ", $symbol, "@GOTPCREL]"),
                out(reg) address,
                options(nostack, preserves_flags, readonly)
            );
        }
        if address != 0 {
            // SAFETY: who defines the function under this name means it so.
            let function: extern "C" fn($($type),*) = unsafe { core::mem::transmute(address) };
            function($($argument),*);
        }
    }};
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
macro_rules! call {
    ($symbol:literal ($($argument:expr => $type:ty),*)) => {
        let _ = ($($argument,)*);
    };
}

/// Gives the calling thread a number, by which the trace names it from now on, and a name
/// for people, which may be empty.
#[inline(always)]
pub fn register_thread(number: i64, name: &CStr) {
    mark(Operation::RegisterThread, number, name.as_ptr());
}

/// Begins a region of interest, for all threads.
#[inline(always)]
pub fn start_region() {
    mark(Operation::StartRegion, 0, core::ptr::null());
    call!("unspool_profile_start_region"());
}

/// Ends the region of interest, for all threads.
#[inline(always)]
pub fn end_region() {
    mark(Operation::EndRegion, 0, core::ptr::null());
    call!("unspool_profile_end_region"());
}

/// Begins an interval of this name in the calling thread: `unspool openmp` has figures of each. Intervals
/// nest, and one may be entered often.
#[inline(always)]
pub fn begin_interval(name: &'static CStr) {
    let start = name.as_ptr();
    call!("unspool_openmp_enter_interval"(
        start as u64 => u64,
        start.cast() => *const u8,
        name.count_bytes() => usize
    ));
}

/// Ends the innermost interval of the calling thread.
#[inline(always)]
pub fn end_interval() {
    call!("unspool_openmp_leave_interval"());
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn mark(operation: Operation, first: i64, second: *const c_char) {
    // SAFETY: the instruction does nothing. That it may read memory, as the compiler must
    // assume, keeps accesses on their side of the mark.
    unsafe {
        core::arch::asm!(
            ".byte 0x0f, 0x1f, 0x84, 0x00, 0x50, 0x53, 0x4e, 0x55",
            in("rdi") operation as u64,
            in("rsi") first,
            in("rdx") second,
            options(nostack, preserves_flags)
        );
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn mark(_operation: Operation, _first: i64, _second: *const c_char) {}
