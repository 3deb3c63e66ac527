//! The Rust functions mark with the right values: breakpoints are put in place of the marks
//! of this very program, and the registers looked at.

use std::cell::Cell;
use std::ffi::{CStr, c_int, c_void};

use unspool_annotate::{MARKER, Operation, end_region, register_thread, start_region};

thread_local! {
    static SEEN: Cell<[u64; 3]> = const { Cell::new([0; 3]) };
}

#[inline(never)]
fn call_register_thread() {
    register_thread(-7, c"a name");
}

#[inline(never)]
fn call_start_region() {
    start_region();
}

#[inline(never)]
fn call_end_region() {
    end_region();
}

extern "C" fn remember(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives every handler such a context.
    let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let of = |register: c_int| registers[register as usize].cast_unsigned();
    SEEN.set([of(libc::REG_RDI), of(libc::REG_RSI), of(libc::REG_RDX)]);
}

/// Replaces the mark in a small function by a breakpoint and a no-operation of seven bytes.
fn break_at_mark(function: fn()) {
    let start = function as usize;
    // SAFETY: the function's code is readable, and so is what follows it in the segment:
    // the rest of the test harness.
    let code = unsafe { std::slice::from_raw_parts(start as *const u8, 128) };
    let offset = code
        .windows(8)
        .position(|part| part == MARKER)
        .expect("a mark");
    let target = start + offset;
    let page = target & !4095;
    let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    // SAFETY: makes two pages of code writable, and overwrites one instruction that no
    // thread is executing: only this test calls the function.
    unsafe {
        assert_eq!(libc::mprotect(page as *mut c_void, 8192, all), 0);
        let bytes: [u8; 8] = [0xcc, 0x0f, 0x1f, 0x80, 0, 0, 0, 0];
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), target as *mut u8, 8);
    }
}

#[test]
fn marks_carry_their_values() {
    // Before: they do nothing.
    for function in [call_register_thread, call_start_region, call_end_region] {
        function();
        break_at_mark(function);
    }
    // SAFETY: an all-zero action is a valid one; the handler only reads registers and writes
    // a thread-local without a destructor.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = remember as extern "C" fn(_, _, _) as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(
            libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()),
            0
        );
    }
    call_register_thread();
    let [operation, number, name] = SEEN.get();
    assert_eq!(
        Operation::from_number(operation),
        Some(Operation::RegisterThread)
    );
    assert_eq!(number.cast_signed(), -7);
    // SAFETY: the name is the constant above.
    let name = unsafe { CStr::from_ptr(name as *const libc::c_char) };
    assert_eq!(name, c"a name");
    call_start_region();
    assert_eq!(SEEN.get(), [Operation::StartRegion as u64, 0, 0]);
    call_end_region();
    assert_eq!(SEEN.get(), [Operation::EndRegion as u64, 0, 0]);
    assert_eq!(Operation::from_number(0), None);
    assert_eq!(Operation::from_number(4), None);
}
