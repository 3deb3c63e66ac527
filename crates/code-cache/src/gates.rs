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
mod call_slots;
mod wide;

pub use self::acquire::{CheckNumber, CheckSlots, Continuation, USABLE as ACQUIRES_BRIEFLY};
pub use self::call_slots::{CallSlots, MOST_ARGUMENTS};

use unspool_instructions::operands::state_component::{AVX, HI16_ZMM, OPMASK, SSE, ZMM_HI256};
use unspool_kernel::layout;

use crate::address::CacheAddress;
use crate::binding::LookupConvention;
use crate::emit::{Emitter, Gpr, TARGET, gpr};
use crate::exit::{Reason, Way};
use crate::slots::{AREA_SIZE, HASH_SPILL, Slots, offset};

/// Addresses of the gates, all in the code cache.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gates {
    /// `extern "C" fn()`: enters the cache at `slots.target`; returns when it is left.
    pub enter: CacheAddress,
    /// The first instruction at which `enter` may be diverted to `bail`.
    pub(crate) enter_start: CacheAddress,
    /// The end of `enter`, before which it may be diverted to `bail`.
    pub(crate) enter_end: CacheAddress,
    /// Ends `enter` with [`Reason::PENDING`]; needs nothing but FS.
    pub(crate) bail: CacheAddress,
    /// Leaves the cache; all program registers are live.
    pub exit: CacheAddress,
    /// End of the exit gate: code from `exit` to here always leaves.
    pub(crate) exit_end: CacheAddress,
    /// Leaves the cache; a signal handler has put registers and flags into the slots.
    pub exit_saved: CacheAddress,
    /// The first of the gates through which indirect branches leave.
    first_miss: CacheAddress,
    /// The ends of hashed chains, for each [`Way`] and [`LookupConvention`]: they give rcx back, and go
    /// on to the miss gates.
    chain_ends: [[CacheAddress; LookupConvention::ALL.len()]; Way::ALL.len()],
    /// Leave the cache because nothing is known of the target in r11: for each [`Way`] and
    /// [`LookupConvention`] one gate.
    misses: [[CacheAddress; LookupConvention::ALL.len()]; Way::ALL.len()],
    /// A failed ownership check: calls the engine briefly and goes on in the cache.
    pub acquire: CacheAddress,
    /// Where `acquire` begins its way back. From here to `acquire_end` a signal makes it begin again
    /// here, where it sees that something is pending.
    pub(crate) acquire_return: CacheAddress,
    /// The end of `acquire`.
    pub(crate) acquire_end: CacheAddress,
    /// Calls a tool's function with the arguments in the slots, and goes on in the cache.
    pub call: CacheAddress,
    /// Where `call` begins its way back, as `acquire_return`.
    pub(crate) call_return: CacheAddress,
    /// The end of `call`.
    pub(crate) call_end: CacheAddress,
    /// `extern "C" fn(number, *const [u64; 6]) -> i64`: a system call that a signal can prevent.
    pub(crate) system_call: CacheAddress,
    /// The first instruction at which a signal diverts `system_call` to `system_call_interrupted`.
    system_call_start: CacheAddress,
    /// The `syscall` instruction: the last one at which a signal diverts to `system_call_interrupted`.
    system_call_instruction: CacheAddress,
    /// Behind that instruction.
    system_call_end: CacheAddress,
    /// Returns [`RESTART`].
    system_call_interrupted: CacheAddress,
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
    pub(crate) tells_use: bool,
}

impl VectorState {
    /// Asks the processor. `None`: no XSAVE at all.
    #[must_use]
    pub fn detect() -> Option<VectorState> {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        const OSXSAVE: u32 = 1 << 27;
        const WANTED: u32 = 1 << SSE | 1 << AVX | 1 << OPMASK | 1 << ZMM_HI256 | 1 << HI16_ZMM;
        if __cpuid(1).ecx & OSXSAVE == 0 {
            return None;
        }
        // SAFETY: OSXSAVE says that xgetbv is usable.
        let enabled = unsafe { xcr0() };
        Some(VectorState {
            mask: enabled & WANTED,
            compact: __cpuid_count(0xd, 1).eax & 2 != 0,
            tells_use: __cpuid_count(0xd, 1).eax & 4 != 0,
            avx: enabled & 1 << AVX != 0,
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
    code.store_slot_signed(offset::HOST_STACK, 0);
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
        code.land(bail_field);
        code.load_slot(gpr::RSP, offset::HOST_STACK);
        code.give_reason(Reason::PENDING);
        reset_flags(code);
        return_to_engine(code);
    }

    fn emit_exit(&mut self, code: &mut Emitter, vectors: VectorState, control_word: CacheAddress) {
        let mut jumps = Vec::new();
        self.first_miss = code.here();
        for way in Way::ALL {
            for convention in LookupConvention::ALL {
                self.chain_ends[way as usize][convention as usize] = code.here();
                code.load_slot(gpr::RCX, offset::spill(HASH_SPILL));
                self.misses[way as usize][convention as usize] = code.here();
                code.store_slot(std::mem::offset_of!(Slots, pc) as i32, TARGET);
                convention.restore(code);
                code.give_reason(way.exit());
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
        code.imm32(control_word.get() as i32);
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
    pub fn miss(&self, way: Way, convention: LookupConvention) -> CacheAddress {
        self.misses[way as usize][convention as usize]
    }

    /// Where a hashed chain ends.
    #[must_use]
    pub(crate) fn chain_end(&self, way: Way, convention: LookupConvention) -> CacheAddress {
        self.chain_ends[way as usize][convention as usize]
    }

    /// Whether an address lies in one of the miss gates.
    fn is_missing(&self, at: CacheAddress) -> bool {
        (self.first_miss..self.exit).contains(&at)
    }

    /// Whether an address is one of translated code. So are the miss gates, which are its last
    /// instructions.
    #[must_use]
    pub fn is_translated_code(&self, at: CacheAddress) -> bool {
        at.get() >= layout::cache() + GATES_SIZE || self.is_missing(at)
    }

    /// Whether a thread there makes a system call of the program's, or is just about to.
    #[must_use]
    pub fn is_making_call(&self, at: CacheAddress) -> bool {
        (self.system_call_start..=self.system_call_instruction).contains(&at)
    }

    /// Whether such a thread, with this in rcx, has been in the kernel, which is to make the call
    /// again.
    #[must_use]
    pub fn has_begun_call(&self, rcx: u64) -> bool {
        rcx == self.system_call_end.get()
    }

    /// Whether a thread there is on its way into translated code.
    #[must_use]
    pub fn is_entering(&self, at: CacheAddress) -> bool {
        (self.enter_start..self.enter_end).contains(&at)
    }

    /// Where a thread goes on that is in a gate when something becomes pending, if it would not see
    /// that by itself.
    #[must_use]
    pub fn diversion(&self, at: CacheAddress) -> Option<CacheAddress> {
        if self.is_making_call(at) {
            Some(self.system_call_interrupted)
        } else if self.is_entering(at) {
            Some(self.bail)
        } else if (self.acquire_return..self.acquire_end).contains(&at) {
            Some(self.acquire_return)
        } else if (self.call_return..self.call_end).contains(&at) {
            Some(self.call_return)
        } else {
            None
        }
    }

    /// Enters the cache at `slots.target` with the state in the slots.
    ///
    /// # Safety
    /// The target must be an entry of the cache that fits the program counter, and all
    /// that runs from there until the exit must be translated code.
    #[inline]
    pub unsafe fn enter(&self) {
        // SAFETY: the gate follows the C calling convention.
        let gate: extern "C" fn() = unsafe { std::mem::transmute(self.enter.get() as usize) };
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
            unsafe { std::mem::transmute(self.system_call.get() as usize) };
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
pub(crate) const GATES_SIZE: u64 = 4096;
