//! The system calls that start a child of the engine's own making.

use super::clone_request::KernelCall;

std::arch::global_asm!(
    ".globl unspool_start_child",
    ".hidden unspool_start_child",
    ".type unspool_start_child, @function",
    "unspool_start_child:",
    "push rbx",
    "push r12",
    "mov rbx, [rsp + 24]",
    "mov r12, [rsp + 32]",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "syscall",
    "test rax, rax",
    "jz 2f",
    "pop r12",
    "pop rbx",
    "ret",
    // The child: nothing is above it on its stack.
    "2: xor ebp, ebp",
    "and rsp, -16",
    "mov rdi, r12",
    "call rbx",
    "mov edi, eax",
    "mov eax, {exit}",
    "syscall",
    "ud2",
    exit = const libc::SYS_exit,
);

/// What a child runs. What it returns is its exit status.
pub(crate) type Start = unsafe extern "C" fn(*mut libc::c_void) -> i32;

unsafe extern "C" {
    fn unspool_start_child(
        number: i64,
        first: u64,
        second: u64,
        third: u64,
        fourth: u64,
        fifth: u64,
        start: Start,
        argument: *mut libc::c_void,
    ) -> i64;
}

/// Makes the call. The child runs `start` on a stack of its own, and ends with what that returns.
/// Returns the child's id, or minus an errno; `errno` itself is left alone.
///
/// # Safety
/// The call must give the child a stack that lives as long as the child, or its use of this
/// memory. `start` must be right to call with `argument`, in the thread-local memory of the
/// calling thread.
pub unsafe fn start_child(call: &KernelCall, start: Start, argument: *mut libc::c_void) -> i64 {
    let [first, second, third, fourth, fifth] = call.arguments();
    // SAFETY: the caller's.
    unsafe {
        unspool_start_child(
            call.number,
            first,
            second,
            third,
            fourth,
            fifth,
            start,
            argument,
        )
    }
}
