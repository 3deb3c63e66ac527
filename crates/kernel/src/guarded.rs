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
    ".globl unspool_guarded_short",
    ".hidden unspool_guarded_short",
    ".type unspool_guarded_short, @function",
    // Up to 64 bytes, with general registers only: whoever is called with few registers saved may
    // use it. The last word overlaps the one before it.
    "unspool_guarded_short:",
    "cmp rdx, 8",
    "jb 4f",
    "lea r8, [rdx - 8]",
    "xor eax, eax",
    "jmp 3f",
    "2: mov rcx, qword ptr [rsi + rax]",
    "mov qword ptr [rdi + rax], rcx",
    "add rax, 8",
    "3: cmp rax, r8",
    "jb 2b",
    "mov rcx, qword ptr [rsi + r8]",
    "mov qword ptr [rdi + r8], rcx",
    "mov eax, 1",
    "ret",
    "4: cmp edx, 4",
    "jb 5f",
    "mov eax, dword ptr [rsi]",
    "mov ecx, dword ptr [rsi + rdx - 4]",
    "mov dword ptr [rdi], eax",
    "mov dword ptr [rdi + rdx - 4], ecx",
    "mov eax, 1",
    "ret",
    "5: test edx, edx",
    "jz 6f",
    "mov r8d, edx",
    "shr r8d, 1",
    "movzx eax, byte ptr [rsi]",
    "movzx ecx, byte ptr [rsi + r8]",
    "movzx r9d, byte ptr [rsi + rdx - 1]",
    "mov byte ptr [rdi], al",
    "mov byte ptr [rdi + r8], cl",
    "mov byte ptr [rdi + rdx - 1], r9b",
    "6: mov eax, 1",
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
    fn unspool_guarded_short();
    fn unspool_guarded_copy_end();
    fn unspool_guarded_copy_failed();
}

const PAGE: u64 = 4096;

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

/// How many bytes [`read_short`] copies at most.
pub const SHORT: usize = 64;

/// Copies at most [`SHORT`] bytes of program memory at `from` into `to`, as [`read`] does, with a few
/// plain moves. Returns how many could be read: less than asked for where the rest cannot.
///
/// # Panics
/// If more is asked for.
#[must_use]
#[inline]
pub fn read_short(from: u64, to: &mut [u8]) -> usize {
    assert!(to.len() <= SHORT, "more than a few bytes are asked for");
    if copy_short(from, to) {
        return to.len();
    }
    // A page is there or is not, and so many bytes lie in two at most.
    let in_first = (PAGE - from % PAGE) as usize;
    if in_first < to.len() && copy_short(from, &mut to[..in_first]) {
        return in_first;
    }
    0
}

/// All of these bytes, or none that matter.
#[inline]
fn copy_short(from: u64, to: &mut [u8]) -> bool {
    if !reserved::spares(from, to.len()) {
        return false;
    }
    let copied: u32;
    // SAFETY: `to` is ours and no longer than what the routine copies; faults on `from` are
    // recovered. It is called by name, not by an address in a table, so that whoever reads the
    // machine code can follow it.
    unsafe {
        std::arch::asm!(
            "call {routine}",
            routine = sym unspool_guarded_short,
            inout("rdi") to.as_mut_ptr() => _,
            inout("rsi") from => _,
            inout("rdx") to.len() => _,
            out("eax") copied,
            out("rcx") _,
            out("r8") _,
            out("r9") _,
        );
    }
    copied != 0
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
