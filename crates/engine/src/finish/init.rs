//! The first process of a PID namespace, a container's for instance: the kernel keeps from it all
//! signals whose default action would end it, but for its own faults. To die by a fault's signal
//! it has to make that fault.

/// Whether this is the first process of its namespace.
pub(crate) fn is_it() -> bool {
    std::process::id() == 1
}

/// Makes the fault of a signal whose default action is in force in the kernel. Returns where the
/// signal is none of a fault.
pub(crate) fn die(signal: i32) {
    // SAFETY: the process ends at the fault.
    unsafe {
        match signal {
            libc::SIGSEGV => std::arch::asm!("mov al, byte ptr [{}]", in(reg) 0_usize, out("al") _),
            libc::SIGILL => std::arch::asm!("ud2"),
            libc::SIGTRAP => std::arch::asm!("int3"),
            libc::SIGFPE => std::arch::asm!(
                "xor eax, eax",
                "cdq",
                "xor ecx, ecx",
                "div ecx",
                out("eax") _,
                out("ecx") _,
                out("edx") _,
            ),
            // With the flag that has the processor check alignment.
            libc::SIGBUS => std::arch::asm!(
                "pushfq",
                "or dword ptr [rsp], 0x40000",
                "popfq",
                "mov eax, dword ptr [rsp + 1]",
                out("eax") _,
            ),
            _ => {}
        }
    }
}
