//! The ways from a changed entry to a function of the probe.
//!
//! A function that takes the place of another is given that one's arguments, in their registers,
//! and behind them, in the next register for an integer, the [`Hook`]: which function it is in
//! the place of. Where six arguments leave no register, the hook goes by `r11` and the stack.
//!
//! The program calls by the rules, by which a function need not keep some registers. But a
//! compiler that sees the function as well may know better, and rely on what this one does
//! (`callers_may_rely`). Then everything is kept.

use std::arch::naked_asm;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::refusal::Refusal;

/// What a function that stands in the place of another is told.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Hook {
    /// The piece of code that calls the probe's function with this hook.
    pub(crate) island: u64,
    /// How the result comes back: see [`ResultPlace`].
    pub(crate) result: u64,
    /// The displaced beginning of the function, which goes on in the rest of it.
    pub(crate) original: u64,
    /// What the probe's function belongs to.
    pub(crate) probe: *const (),
}

// SAFETY: a hook is not changed once it is used; the probe is shared between threads.
unsafe impl Sync for Hook {}

// SAFETY: as above.
unsafe impl Send for Hook {}

/// All hooks. Code alone refers to them, and whoever looks for lost memory does not look there.
static HOOKS: Mutex<Vec<&'static Hook>> = Mutex::new(Vec::new());

impl Hook {
    /// One that stays.
    pub(crate) fn new(hook: Hook) -> &'static Hook {
        let hook = &*Box::leak(Box::new(hook));
        HOOKS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(hook);
        hook
    }
}

/// Where a function leaves its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum ResultPlace {
    /// Nowhere.
    None = 0,
    /// In a register for integers.
    Integer = 1,
    /// In a register for floating-point numbers.
    Floating = 2,
}

/// A function of the probe that can take the place of one of the program's.
#[derive(Debug, Clone, Copy)]
pub struct EntryPoint {
    /// It takes the arguments of the program's function, and behind them the hook.
    pub(crate) function: *const (),
    /// How many arguments are in registers for integers.
    pub(crate) integers: usize,
    pub(crate) result: ResultPlace,
}

/// The most that a passage takes.
pub(crate) const MOST_BYTES: u64 = 96;

/// Registers for integer arguments, as `mov register, imm64`; behind the sixth, `r11`.
const LOAD: [[u8; 2]; 7] = [
    [0x48, 0xbf],
    [0x48, 0xbe],
    [0x48, 0xba],
    [0x48, 0xb9],
    [0x49, 0xb8],
    [0x49, 0xb9],
    [0x49, 0xbb],
];

/// The code that leads to a function of the probe with a hook.
pub(crate) fn island(entry: &EntryPoint, hook: &'static Hook) -> Vec<u8> {
    let mut code = LOAD[entry.integers.min(6)].to_vec();
    code.extend(std::ptr::from_ref(hook).expose_provenance().to_le_bytes());
    jump_to(&mut code, entry.function as u64);
    code
}

/// The code that leads to the island of a hook and keeps everything on the way.
pub(crate) fn keeping(hook: &'static Hook) -> Result<Vec<u8>, Refusal> {
    if save_area_bytes() == 0 {
        return Err(Refusal::NoSave);
    }
    let hook = std::ptr::from_ref(hook).expose_provenance() as u64;
    // push low half, sign-extended; mov dword ptr [rsp + 4], upper half.
    let mut code = vec![0x68];
    code.extend((hook as u32).to_le_bytes());
    code.extend([0xc7, 0x44, 0x24, 0x04]);
    code.extend(((hook >> 32) as u32).to_le_bytes());
    jump_to(&mut code, keep as *const () as u64);
    Ok(code)
}

/// The code that counts and goes on: it changes no register, and of the flags what calls need
/// not keep.
pub(crate) fn counting(at: u64, counter: u64, original: u64) -> Vec<u8> {
    let mut code = Vec::new();
    match i32::try_from(counter.wrapping_sub(at + 8) as i64) {
        // lock inc qword ptr [rip + distance]
        Ok(distance) => {
            code.extend([0xf0, 0x48, 0xff, 0x05]);
            code.extend(distance.to_le_bytes());
        }
        // push rax; movabs rax, counter; lock inc qword ptr [rax]; pop rax
        Err(_) => {
            code.extend([0x50, 0x48, 0xb8]);
            code.extend(counter.to_le_bytes());
            code.extend([0xf0, 0x48, 0xff, 0x00, 0x58]);
        }
    }
    jump_to(&mut code, original);
    code
}

/// `jmp qword ptr [rip]`, and the address.
fn jump_to(code: &mut Vec<u8>, target: u64) {
    code.extend([0xff, 0x25, 0, 0, 0, 0]);
    code.extend(target.to_le_bytes());
}

/// The vector registers and what belongs to them, as `xsave` numbers the parts of a processor's
/// state: SSE, AVX, and the masks and the two new parts of AVX-512.
const VECTORS: u64 = 0b1110_0110;
static SAVED_PARTS: AtomicU64 = AtomicU64::new(0);
static SAVE_BYTES: AtomicU64 = AtomicU64::new(0);

/// Finds out how much room the vector registers take. Returns 0 if they cannot be saved.
fn save_area_bytes() -> u64 {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const OSXSAVE: u32 = 1 << 27;
    if SAVE_BYTES.load(Ordering::Relaxed) == 0 && __cpuid(1).ecx & OSXSAVE != 0 {
        let enabled = __cpuid_count(0xd, 0);
        let parts = (u64::from(enabled.edx) << 32 | u64::from(enabled.eax)) & VECTORS;
        // The 512 bytes of old and the header of 64, and where each other part ends.
        let ends = (2..8).filter(|part| parts & (1 << part) != 0).map(|part| {
            let part = __cpuid_count(0xd, part);
            u64::from(part.eax) + u64::from(part.ebx)
        });
        let bytes = ends.fold(576, u64::max).next_multiple_of(64);
        SAVED_PARTS.store(parts, Ordering::Relaxed);
        SAVE_BYTES.store(bytes, Ordering::Relaxed);
    }
    SAVE_BYTES.load(Ordering::Relaxed)
}

/// Calls the island of the hook that is on the stack, above the return address, and keeps all
/// registers but those of the result; whatever the alignment of the stack.
#[unsafe(naked)]
unsafe extern "C" fn keep() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa rsp, 16",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push rax",
        // Room for a floating-point result, and for the parts to save.
        "push 0",
        "push qword ptr [rip + {parts}]",
        "sub rsp, qword ptr [rip + {bytes}]",
        "and rsp, -64",
        // The header must be zero where `xsave` does not write it.
        "xor eax, eax",
        "mov qword ptr [rsp + 512], rax",
        "mov qword ptr [rsp + 520], rax",
        "mov qword ptr [rsp + 528], rax",
        "mov qword ptr [rsp + 536], rax",
        "mov qword ptr [rsp + 544], rax",
        "mov qword ptr [rsp + 552], rax",
        "mov qword ptr [rsp + 560], rax",
        "mov qword ptr [rsp + 568], rax",
        "mov eax, dword ptr [rbp - 88]",
        "mov edx, dword ptr [rbp - 84]",
        "xsave64 [rsp]",
        "mov rdx, qword ptr [rbp - 24]",
        "mov r11, qword ptr [rbp + 8]",
        "mov rax, qword ptr [rbp - 72]",
        "call qword ptr [r11]",
        "mov r11, qword ptr [rbp + 8]",
        "mov r10, qword ptr [r11 + 8]",
        "movsd qword ptr [rbp - 80], xmm0",
        "cmp r10, 1",
        "jne 2f",
        "mov qword ptr [rbp - 72], rax",
        "2:",
        "mov eax, dword ptr [rbp - 88]",
        "mov edx, dword ptr [rbp - 84]",
        "xrstor64 [rsp]",
        "cmp r10, 2",
        "jne 3f",
        "movsd xmm0, qword ptr [rbp - 80]",
        "3:",
        "lea rsp, [rbp - 72]",
        "pop rax",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        ".cfi_def_cfa rsp, 16",
        "lea rsp, [rsp + 8]",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
        parts = sym SAVED_PARTS,
        bytes = sym SAVE_BYTES,
    )
}

/// Calls a function of six integer arguments with the hook in `r11` as the seventh.
macro_rules! seventh_from_r11 {
    ($function:path) => {
        std::arch::naked_asm!(
            ".cfi_startproc",
            "push r11",
            ".cfi_adjust_cfa_offset 8",
            "call {function}",
            "lea rsp, [rsp + 8]",
            ".cfi_adjust_cfa_offset -8",
            "ret",
            ".cfi_endproc",
            function = sym $function,
        )
    };
}
pub(crate) use seventh_from_r11;
