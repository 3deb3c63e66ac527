//! System calls without the C library.

/// Makes a system call. It touches neither `errno`, which another process may be using, nor vector
/// registers, takes no lock and allocates nothing.
///
/// # Safety
/// As for the call itself.
pub unsafe fn raw_system_call(number: i64, arguments: [u64; 5]) -> i64 {
    let [first, second, third, fourth, fifth] = arguments;
    let result;
    // SAFETY: the caller's; the kernel keeps all registers but these.
    unsafe {
        std::arch::asm!(
            "syscall",
            inout("rax") number => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}
