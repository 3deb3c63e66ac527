//! System calls of the handler: by no function that the program may have replaced, and without a
//! word in `errno`.

use std::ffi::c_long;

/// Makes a system call; gives what the kernel gives, a negative error number where it fails.
///
/// # Safety
/// What the kernel says of this call and its arguments.
#[inline(always)]
pub(crate) unsafe fn system_call(number: c_long, arguments: [usize; 6]) -> isize {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result;
    // SAFETY: the kernel changes the result and two registers, and memory only as the caller
    // vouches for.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") sixth,
            out("rcx") _,
            out("r11") _,
            options(nostack)
        );
    }
    result
}
