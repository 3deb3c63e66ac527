//! Access to program memory that may not be there. What the engine keeps for itself is not there.
//!
//! A fault in one of these routines ends it with a failure instead of killing the process:
//! the fault handler asks [`recover`] whether the faulting instruction is one of theirs.

use crate::reserved;

std::arch::global_asm!(
    ".globl unspool_guarded_copy",
    ".hidden unspool_guarded_copy",
    ".globl unspool_guarded_copy_end",
    ".hidden unspool_guarded_copy_end",
    ".globl unspool_guarded_copy_failed",
    ".hidden unspool_guarded_copy_failed",
    ".type unspool_guarded_copy, @function",
    "unspool_guarded_copy:",
    "mov rcx, rdx",
    "rep movsb",
    "mov eax, 1",
    "ret",
    ".globl unspool_guarded_exchange",
    ".hidden unspool_guarded_exchange",
    ".type unspool_guarded_exchange, @function",
    "unspool_guarded_exchange:",
    "mov eax, esi",
    "lock cmpxchg dword ptr [rdi], edx",
    "mov eax, 1",
    "je 2f",
    "mov eax, 2",
    "2: ret",
    ".globl unspool_guarded_word",
    ".hidden unspool_guarded_word",
    ".type unspool_guarded_word, @function",
    "unspool_guarded_word:",
    "mov rax, [rdi]",
    "mov qword ptr [rsi], rax",
    "mov eax, 1",
    "ret",
    "unspool_guarded_copy_end:",
    "unspool_guarded_copy_failed:",
    "xor eax, eax",
    "ret",
);

unsafe extern "C" {
    fn unspool_guarded_copy(to: *mut u8, from: *const u8, length: usize) -> u32;
    fn unspool_guarded_exchange(at: *mut u32, expected: u32, new: u32) -> u32;
    fn unspool_guarded_word(from: u64, to: *mut u64) -> u32;
    fn unspool_guarded_copy_end();
    fn unspool_guarded_copy_failed();
}

/// Where to go on if the instruction at `pc`, which faulted, is one of this module's.
#[must_use]
pub fn recover(pc: u64) -> Option<u64> {
    let start = unspool_guarded_copy as *const () as u64;
    let end = unspool_guarded_copy_end as *const () as u64;
    (start..end)
        .contains(&pc)
        .then_some(unspool_guarded_copy_failed as *const () as u64)
}

/// Copies program memory at `from` into `to`. False: some of it cannot be read.
#[must_use]
pub fn read(from: u64, to: &mut [u8]) -> bool {
    reserved::spares(from, to.len()) && read_any(from, to)
}

/// Likewise, whoever's memory it is: the code cache's, for instance.
#[must_use]
pub fn read_any(from: u64, to: &mut [u8]) -> bool {
    // SAFETY: `to` is ours; faults on `from` are recovered.
    unsafe { unspool_guarded_copy(to.as_mut_ptr(), from as *const u8, to.len()) != 0 }
}

/// Reads one word of program memory.
#[must_use]
pub fn read_word(from: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    read(from, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

/// Likewise, without a string instruction, which takes its time to start and heeds the direction
/// flag.
#[must_use]
#[inline]
pub fn read_quickly(from: u64) -> Option<u64> {
    let mut word = 0;
    if !reserved::spares(from, 8) {
        return None;
    }
    // SAFETY: `word` is ours; faults on `from` are recovered.
    let readable = unsafe { unspool_guarded_word(from, &raw mut word) != 0 };
    readable.then_some(word)
}

/// Copies `from` to program memory at `to`. False: some of it cannot be written.
///
/// The program asked for the write (a system call's result, a signal frame), so whatever
/// it overwrites is the program's own.
#[must_use]
pub fn write(to: u64, from: &[u8]) -> bool {
    // SAFETY: `from` is ours; faults on `to` are recovered.
    reserved::spares(to, from.len())
        && unsafe { unspool_guarded_copy(to as *mut u8, from.as_ptr(), from.len()) != 0 }
}

/// Puts `new` into the word at `at` if it holds `expected`, in one step. `None`: it cannot
/// be written.
#[must_use]
pub fn compare_exchange(at: u64, expected: u32, new: u32) -> Option<bool> {
    if !reserved::spares(at, 4) {
        return None;
    }
    // SAFETY: faults on `at` are recovered.
    match unsafe { unspool_guarded_exchange(at as *mut u32, expected, new) } {
        0 => None,
        answer => Some(answer == 1),
    }
}

/// Reads a C string of at most `limit` bytes, without its terminator.
#[must_use]
pub fn read_string(from: u64, limit: usize) -> Option<Vec<u8>> {
    const PAGE: u64 = 4096;
    let mut text = Vec::new();
    let mut at = from;
    while text.len() < limit {
        let chunk = (PAGE - at % PAGE).min((limit - text.len()) as u64) as usize;
        let start = text.len();
        text.resize(start + chunk, 0);
        if !read(at, &mut text[start..]) {
            return None;
        }
        if let Some(end) = text[start..].iter().position(|&byte| byte == 0) {
            text.truncate(start + end);
            return Some(text);
        }
        at += chunk as u64;
    }
    None
}
