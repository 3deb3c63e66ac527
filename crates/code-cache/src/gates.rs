//! The code through which a thread enters and leaves the cache.
//!
//! The gates are emitted at start, because they name slots by their displacement from FS.
//! They save and restore the whole program state: general registers, flags, and the vector
//! state that engine code could touch (SSE, AVX, AVX-512; the engine never uses x87, masks
//! of protection keys, or tiles). Vector state goes through the XSAVE family, which keeps
//! parts that the program does not use in their initial state, so that nobody pays for
//! dirty upper vector halves.

mod acquire;
mod call;
mod wide;

pub use self::acquire::{CheckSlots, Continuation, USABLE as ACQUIRES_BRIEFLY};
pub use self::call::{CallSlots, MOST_ARGUMENTS};

use crate::address::CacheAddress;
use crate::binding::LookupConvention;
use crate::emit::{Emitter, Gpr, TARGET, gpr};
use crate::exit;
use crate::exit::Way;
use crate::slots::{AREA_SIZE, HASH_SPILL, Slots, offset};

/// Addresses of the gates, all in the code cache.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gates {
    /// `extern "C" fn()`: enters the cache at `slots.target`; returns when it is left.
    pub enter: u64,
    /// The first instruction at which `enter` may be diverted to `bail`.
    pub enter_start: u64,
    /// The end of `enter`, before which it may be diverted to `bail`.
    pub enter_end: u64,
    /// Ends `enter` with [`exit::PENDING`]; needs nothing but FS.
    pub bail: u64,
    /// Leaves the cache; all program registers are live.
    pub exit: u64,
    /// End of the exit gate: code from `exit` to here always leaves.
    pub exit_end: u64,
    /// Leaves the cache; a signal handler has put registers and flags into the slots.
    pub exit_saved: u64,
    /// The first of the gates through which indirect branches leave.
    first_miss: u64,
    /// The ends of hashed chains, for each [`Way`] and [`LookupConvention`]: they give rcx back, and go
    /// on to the miss gates.
    chain_ends: [[u64; LookupConvention::ALL.len()]; Way::ALL.len()],
    /// Leave the cache because nothing is known of the target in r11: for each [`Way`] and
    /// [`LookupConvention`] one gate.
    misses: [[u64; LookupConvention::ALL.len()]; Way::ALL.len()],
    /// A failed ownership check: calls the engine briefly and goes on in the cache.
    pub acquire: u64,
    /// Where `acquire` begins its way back. From here to `acquire_end` a signal makes it begin again
    /// here, where it sees that something is pending.
    pub acquire_return: u64,
    /// The end of `acquire`.
    pub acquire_end: u64,
    /// Calls a tool's function with the arguments in the slots, and goes on in the cache.
    pub call: u64,
    /// Where `call` begins its way back, as `acquire_return`.
    pub call_return: u64,
    /// The end of `call`.
    pub call_end: u64,
    /// `extern "C" fn(number, *const [u64; 6]) -> i64`: a system call that a signal can prevent.
    pub system_call: u64,
    /// The first instruction at which a signal diverts `system_call` to `system_call_interrupted`.
    pub system_call_start: u64,
    /// The `syscall` instruction: the last one at which a signal diverts to `system_call_interrupted`.
    pub system_call_instruction: u64,
    /// Behind that instruction.
    pub system_call_end: u64,
    /// Returns [`RESTART`].
    pub system_call_interrupted: u64,
}

/// What the system-call gate returns when a signal came before the call was made, or when the
/// kernel would restart the call after the handler.
pub const RESTART: i64 = -512;

/// How the vector state is saved on this processor.
#[derive(Debug, Clone, Copy)]
pub struct VectorState {
    /// State components to save, as in XCR0.
    pub mask: u32,
    /// Whether XSAVEC exists.
    pub compact: bool,
    /// Whether AVX is usable.
    pub avx: bool,
    /// Whether the processor tells which components are in use.
    pub tells_use: bool,
}

impl VectorState {
    /// Asks the processor. `None`: no XSAVE at all.
    #[must_use]
    pub fn detect() -> Option<VectorState> {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        const OSXSAVE: u32 = 1 << 27;
        // SSE, AVX, and the three components of AVX-512.
        const WANTED: u32 = 0b1110_0110;
        if __cpuid(1).ecx & OSXSAVE == 0 {
            return None;
        }
        // SAFETY: OSXSAVE says that xgetbv is usable.
        let enabled = unsafe { xcr0() };
        Some(VectorState {
            mask: enabled & WANTED,
            compact: __cpuid_count(0xd, 1).eax & 2 != 0,
            tells_use: __cpuid_count(0xd, 1).eax & 4 != 0,
            avx: enabled & 4 != 0,
        })
    }
}

/// # Safety
/// The processor must support XSAVE.
unsafe fn xcr0() -> u32 {
    let low: u32;
    // SAFETY: the caller knows that XSAVE, and so xgetbv, exists.
    unsafe {
        std::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") _, options(nomem, nostack));
    }
    low
}

const CALLEE_SAVED: [Gpr; 6] = [gpr::RBX, gpr::RBP, 12, 13, 14, 15];
/// What the stack pointer is away from a multiple of 16 behind these.
const ALIGNMENT: i32 = 8;

/// Flags as compiled code expects them.
fn reset_flags(code: &mut Emitter) {
    code.bytes(&[0x68]); // push 0x202
    code.imm32(0x202);
    code.bytes(&[0x9d]); // popfq
}

fn return_to_engine(code: &mut Emitter) {
    code.on_slot(&[0x48, 0xc7], 0, offset::HOST_STACK); // mov qword fs:[host_stack], 0
    code.imm32(0);
    code.lea(gpr::RSP, gpr::RSP, ALIGNMENT);
    for &register in CALLEE_SAVED.iter().rev() {
        code.pop(register);
    }
    code.bytes(&[0xc3]);
}

/// What emitted code calls beyond the engine itself.
#[derive(Clone, Copy, Default)]
pub struct Callees {
    /// What checks call where they fail, by the gate that keeps the program's registers.
    pub slow_check: Option<extern "C" fn() -> Continuation>,
    /// Whether there are functions to be called with arguments.
    pub functions: bool,
}

impl Gates {
    /// Emits all gates; those to functions of clients only where there are some, because the one to
    /// a tool's takes longer than all others together.
    pub fn emit(code: &mut Emitter, vectors: VectorState, callees: Callees) -> Gates {
        let mut gates = Gates::default();
        let control_word = code.here();
        code.imm32(0x1f80); // the default MXCSR
        code.nops(12);
        gates.emit_enter(code, vectors);
        gates.emit_exit(code, vectors, control_word);
        gates.emit_system_call(code);
        if let Some(check) = callees.slow_check {
            gates.emit_acquire(code, check);
        }
        if callees.functions {
            gates.emit_call(code, vectors, control_word);
        }
        gates
    }

    fn emit_enter(&mut self, code: &mut Emitter, vectors: VectorState) {
        self.enter = code.here();
        for register in CALLEE_SAVED {
            code.push(register);
        }
        code.lea(gpr::RSP, gpr::RSP, -ALIGNMENT);
        code.store_slot(offset::HOST_STACK, gpr::RSP);
        self.enter_start = code.here();
        code.compare_slot_zero(offset::PENDING);
        code.bytes(&[0x0f, 0x85]); // jne bail
        let bail_field = code.here();
        code.imm32(0);
        code.load_immediate(gpr::RAX, u64::from(vectors.mask));
        code.load_immediate(gpr::RDX, 0);
        code.on_slot(&[0x48, 0x0f, 0xae], 5, offset::VECTORS); // xrstor64
        code.on_slot(&[0xff], 6, offset::FLAGS); // push
        code.bytes(&[0x9d]); // popfq
        for register in 0..16 {
            if register != gpr::RSP {
                code.load_slot(register, offset::register(register));
            }
        }
        code.load_slot(gpr::RSP, offset::register(gpr::RSP));
        code.on_slot(&[0xff], 4, offset::TARGET); // jmp
        self.enter_end = code.here();

        self.bail = code.here();
        code.patch32(bail_field, (self.bail - (bail_field + 4)) as i32);
        code.load_slot(gpr::RSP, offset::HOST_STACK);
        code.store_slot_imm32(offset::EXIT, exit::PENDING);
        reset_flags(code);
        return_to_engine(code);
    }

    fn emit_exit(&mut self, code: &mut Emitter, vectors: VectorState, control_word: u64) {
        let mut jumps = Vec::new();
        self.first_miss = code.here();
        for way in Way::ALL {
            for convention in LookupConvention::ALL {
                self.chain_ends[way as usize][convention as usize] = code.here();
                code.load_slot(gpr::RCX, offset::spill(HASH_SPILL));
                self.misses[way as usize][convention as usize] = code.here();
                code.store_slot(std::mem::offset_of!(Slots, pc) as i32, TARGET);
                convention.restore(code);
                code.store_slot_imm32(offset::EXIT, way.exit());
                jumps.push(code.jump_forward());
            }
        }
        for jump in jumps {
            code.land(jump);
        }
        self.exit = code.here();
        for register in 0..16 {
            code.store_slot(offset::register(register), register);
        }
        code.load_slot(gpr::RSP, offset::HOST_STACK);
        code.bytes(&[0x9c]); // pushfq
        code.on_slot(&[0x8f], 0, offset::FLAGS); // pop
        self.exit_saved = code.here();
        code.load_immediate(gpr::RAX, u64::from(vectors.mask));
        code.load_immediate(gpr::RDX, 0);
        if vectors.compact {
            code.on_slot(&[0x48, 0x0f, 0xc7], 4, offset::VECTORS); // xsavec64
        } else {
            code.on_slot(&[0x48, 0x0f, 0xae], 4, offset::VECTORS); // xsave64
        }
        reset_flags(code);
        if vectors.avx {
            code.bytes(&[0xc5, 0xf8, 0x77]); // vzeroupper
        }
        code.bytes(&[0x0f, 0xae, 0x14, 0x25]); // ldmxcsr [absolute]
        code.imm32(control_word as i32);
        return_to_engine(code);
        self.exit_end = code.here();
    }

    fn emit_system_call(&mut self, code: &mut Emitter) {
        const ARGUMENTS: [(Gpr, i32); 6] = [
            (gpr::RDI, 0),
            (gpr::RDX, 16),
            (10, 24),
            (8, 32),
            (9, 40),
            (gpr::RSI, 8),
        ];
        self.system_call = code.here();
        code.copy(gpr::RAX, gpr::RDI);
        for (register, displacement) in ARGUMENTS {
            code.load(register, gpr::RSI, displacement);
        }
        // The processor sets the register to the address behind `syscall`: a signal handler can
        // tell a call that the kernel is to make again from one that was not made.
        code.bytes(&[0x31, 0xc9]); // xor ecx, ecx
        self.system_call_start = code.here();
        code.compare_slot_zero(offset::PENDING);
        code.bytes(&[0x75, 0x03]); // jne over syscall and ret
        self.system_call_instruction = code.here();
        code.bytes(&[0x0f, 0x05]);
        self.system_call_end = code.here();
        code.bytes(&[0xc3]);
        self.system_call_interrupted = code.here();
        code.bytes(&[0x48, 0xc7, 0xc0]); // mov rax, imm32
        code.imm32(RESTART as i32);
        code.bytes(&[0xc3]);
    }

    /// The gate for indirect branches to the target in r11, of which nothing is known.
    #[must_use]
    pub fn miss(&self, way: Way, convention: LookupConvention) -> u64 {
        self.misses[way as usize][convention as usize]
    }

    /// Where a hashed chain ends.
    #[must_use]
    pub fn chain_end(&self, way: Way, convention: LookupConvention) -> u64 {
        self.chain_ends[way as usize][convention as usize]
    }

    /// Whether an address lies in one of the miss gates.
    #[must_use]
    pub fn is_missing(&self, pc: u64) -> bool {
        (self.first_miss..self.exit).contains(&pc)
    }

    /// Enters the cache at `slots.target` with the state in the slots.
    ///
    /// # Safety
    /// The target must be an entry of the cache that fits the program counter, and all
    /// that runs from there until the exit must be translated code.
    #[inline]
    pub unsafe fn enter(&self) {
        // SAFETY: the gate follows the C calling convention.
        let gate: extern "C" fn() = unsafe { std::mem::transmute(self.enter as usize) };
        gate();
    }

    /// Makes a system call on behalf of the program.
    ///
    /// # Safety
    /// The call must be one that leaves engine memory alone, returns here and in this thread.
    #[inline]
    pub unsafe fn call_kernel(&self, number: u64, arguments: &[u64; 6]) -> i64 {
        // SAFETY: the gate follows the C calling convention.
        let gate: extern "C" fn(u64, *const [u64; 6]) -> i64 =
            unsafe { std::mem::transmute(self.system_call as usize) };
        gate(number, arguments)
    }
}

/// Prepares the vector state of a new thread: everything initial.
pub fn initialise_vectors(slots: &Slots, vectors: VectorState) {
    const HEADER: usize = 512;
    let compaction = if vectors.compact {
        1 << 63 | u64::from(vectors.mask)
    } else {
        0
    };
    let area = slots.vectors.area();
    // SAFETY: the area is the slots', and nobody has a reference into it.
    unsafe {
        area.write_bytes(0, AREA_SIZE);
        area.add(24).cast::<u32>().write(0x1f80);
        area.add(HEADER + 8).cast::<u64>().write(compaction);
    }
}

/// The end of the gates must stay below this many bytes from the start of the cache.
pub const GATES_SIZE: u64 = 4096;

/// Whether an address lies in the code cache or the gates.
#[must_use]
pub fn in_cache(address: u64) -> bool {
    CacheAddress::of(address).is_some()
}
