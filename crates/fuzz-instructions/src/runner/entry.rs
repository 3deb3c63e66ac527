//! The way into a case and out of it, and the words through which both pass.

use crate::record::VECTORS_SIZE;

/// An XSAVE area.
#[repr(C, align(64))]
pub(super) struct Vectors(pub(super) [u8; VECTORS_SIZE]);

/// What the assembly below reads and writes. Its fields come in the order of their offsets
/// there.
#[repr(C, align(64))]
pub(super) struct Exchange {
    /// The general registers, before and after.
    pub(super) registers: [u64; 16],
    /// 128: the flags, before and after.
    pub(super) flags: u64,
    /// 136: the FS base, before and after.
    pub(super) thread_pointer: u64,
    /// 144: the code.
    pub(super) target: u64,
    /// 152: the components of the vector state.
    pub(super) components: u64,
    /// 160: the runner's stack pointer.
    pub(super) stack: u64,
    /// 168: the runner's FS base.
    pub(super) own_thread_pointer: u64,
    /// 176: fills up to the alignment of what follows.
    pub(super) reserved: [u64; 2],
    /// 192: the vector state, before and after.
    pub(super) vectors: Vectors,
}

/// The one exchange: the runner has one thread.
#[unsafe(no_mangle)]
pub(super) static mut UNSPOOL_FUZZ_EXCHANGE: Exchange = Exchange {
    registers: [0; 16],
    flags: 0,
    thread_pointer: 0,
    target: 0,
    components: 0,
    stack: 0,
    own_thread_pointer: 0,
    reserved: [0; 2],
    vectors: Vectors([0; VECTORS_SIZE]),
};

std::arch::global_asm!(
    ".macro unspool_fuzz_for_registers what",
    "\\what rax, 0",
    "\\what rcx, 8",
    "\\what rdx, 16",
    "\\what rbx, 24",
    "\\what rbp, 40",
    "\\what rsi, 48",
    "\\what rdi, 56",
    "\\what r8, 64",
    "\\what r9, 72",
    "\\what r10, 80",
    "\\what r11, 88",
    "\\what r12, 96",
    "\\what r13, 104",
    "\\what r14, 112",
    "\\what r15, 120",
    "\\what rsp, 32",
    ".endm",
    ".macro unspool_fuzz_load register, offset",
    "mov \\register, [rip + UNSPOOL_FUZZ_EXCHANGE + \\offset]",
    ".endm",
    ".macro unspool_fuzz_store register, offset",
    "mov [rip + UNSPOOL_FUZZ_EXCHANGE + \\offset], \\register",
    ".endm",
    ".globl unspool_fuzz_enter",
    ".type unspool_fuzz_enter, @function",
    "unspool_fuzz_enter:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov [rip + UNSPOOL_FUZZ_EXCHANGE + 160], rsp",
    "rdfsbase rax",
    "mov [rip + UNSPOOL_FUZZ_EXCHANGE + 168], rax",
    "mov eax, [rip + UNSPOOL_FUZZ_EXCHANGE + 152]",
    "xor edx, edx",
    "xrstor64 [rip + UNSPOOL_FUZZ_EXCHANGE + 192]",
    "mov rax, [rip + UNSPOOL_FUZZ_EXCHANGE + 136]",
    "wrfsbase rax",
    "push qword ptr [rip + UNSPOOL_FUZZ_EXCHANGE + 128]",
    "popfq",
    "unspool_fuzz_for_registers unspool_fuzz_load",
    "jmp [rip + UNSPOOL_FUZZ_EXCHANGE + 144]",
    // All registers belong to the case.
    ".globl unspool_fuzz_leave",
    "unspool_fuzz_leave:",
    "unspool_fuzz_for_registers unspool_fuzz_store",
    "mov rsp, [rip + UNSPOOL_FUZZ_EXCHANGE + 160]",
    "pushfq",
    "pop qword ptr [rip + UNSPOOL_FUZZ_EXCHANGE + 128]",
    "push 0x202",
    "popfq",
    "rdfsbase rax",
    "mov [rip + UNSPOOL_FUZZ_EXCHANGE + 136], rax",
    "mov rax, [rip + UNSPOOL_FUZZ_EXCHANGE + 168]",
    "wrfsbase rax",
    "mov eax, [rip + UNSPOOL_FUZZ_EXCHANGE + 152]",
    "xor edx, edx",
    "xsave64 [rip + UNSPOOL_FUZZ_EXCHANGE + 192]",
    // After a signal, whose handler has filled the exchange; the stack pointer is the runner's.
    ".globl unspool_fuzz_resume",
    "unspool_fuzz_resume:",
    "fninit",
    "push 0x1f80",
    "ldmxcsr [rsp]",
    "pop rax",
    "test dword ptr [rip + UNSPOOL_FUZZ_EXCHANGE + 152], 4",
    "jz 1f",
    "vzeroupper",
    "1:",
    "xor eax, eax",
    "mov ds, eax",
    "mov es, eax",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
);

unsafe extern "C" {
    /// Runs the case in the exchange.
    pub(super) fn unspool_fuzz_enter();
    fn unspool_fuzz_leave();
    fn unspool_fuzz_resume();
}

/// Where a case leaves to.
pub(super) fn way_out() -> u64 {
    unspool_fuzz_leave as *const () as u64
}

/// Where a case that a signal ended goes on.
pub(super) fn way_back() -> u64 {
    unspool_fuzz_resume as *const () as u64
}
