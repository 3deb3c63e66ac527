//! The signal frame on the program's stack, byte for byte as the kernel lays it out
//! (`arch/x86/include/asm/sigframe.h` and `asm/sigcontext.h`, 64-bit).

use unspool_code_cache::gates::VectorState;
use unspool_code_cache::slots::Slots;
use unspool_kernel::guarded;

use crate::signals::TRAP_FLAG;
use crate::thread::Thread;
use crate::x87_pointers;

/// General registers in a `sigcontext`, by number of the register.
const REGISTER_ORDER: [usize; 16] = [
    13, // rax
    14, // rcx
    12, // rdx
    11, // rbx
    15, // rsp
    10, // rbp
    9,  // rsi
    8,  // rdi
    0, 1, 2, 3, 4, 5, 6, 7, // r8 … r15
];
const RIP: usize = 16;
const FLAGS: usize = 17;
const SELECTORS: usize = 18;
const ERROR: usize = 19;
const TRAP: usize = 20;
const FAULT_ADDRESS: usize = 22;
const FP_STATE: usize = 23;

/// `struct rt_sigframe` without the floating-point state: 440 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// Where the handler returns to.
    pub(crate) restorer: u64,
    /// `uc_flags`.
    pub(crate) context_flags: u64,
    /// `uc_link`.
    pub(crate) link: u64,
    /// `uc_stack`: base, flags, size.
    pub(crate) stack: [u64; 3],
    /// `uc_mcontext`.
    pub(crate) machine: [u64; 32],
    /// `uc_sigmask`.
    pub(crate) mask: u64,
    /// `siginfo`.
    pub info: [u64; 16],
}

/// Bytes of [`Frame`].
pub(crate) const FRAME_SIZE: u64 = size_of::<Frame>() as u64;

const UC_FP_XSTATE: u64 = 1;
const UC_SIGCONTEXT_SS: u64 = 2;
const UC_STRICT_RESTORE_SS: u64 = 4;

/// What the program's registers were, as a frame keeps them.
impl Frame {
    /// A frame with the program state that is in the slots.
    #[must_use]
    pub(crate) fn capture(slots: &Slots) -> Frame {
        let mut machine = [0; 32];
        for (register, &place) in REGISTER_ORDER.iter().enumerate() {
            machine[place] = slots.registers[register].get();
        }
        machine[RIP] = slots.pc.get();
        machine[FLAGS] = slots.flags.get();
        // User-mode CS and SS of 64-bit Linux.
        machine[SELECTORS] = 0x33 | 0x2b << 48;
        Frame {
            restorer: 0,
            context_flags: UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS,
            link: 0,
            stack: [0; 3],
            machine,
            mask: 0,
            info: [0; 16],
        }
    }

    /// Adds what the processor said of a fault: error code, trap number, CR2.
    pub(crate) fn set_fault(&mut self, fault: [u64; 3]) {
        [
            self.machine[ERROR],
            self.machine[TRAP],
            self.machine[FAULT_ADDRESS],
        ] = fault;
    }

    /// Says whether the program had set its trap flag.
    pub(crate) fn set_trap_flag(&mut self, on: bool) {
        self.machine[FLAGS] &= !TRAP_FLAG;
        if on {
            self.machine[FLAGS] |= TRAP_FLAG;
        }
    }

    /// The thread stands behind a system call that has returned this.
    pub(crate) fn return_from_call(&mut self, pc: u64, result: i64) {
        self.machine[RIP] = pc;
        self.machine[REGISTER_ORDER[0]] = result as u64;
    }

    /// Whether the program has set its trap flag.
    #[must_use]
    pub(crate) fn trap_flag(&self) -> bool {
        self.machine[FLAGS] & TRAP_FLAG != 0
    }

    /// Puts the frame's registers into the slots.
    pub(crate) fn restore(&self, slots: &Slots) {
        // What user code may change: the status flags, TF, DF, NT, RF, AC, ID.
        const CHANGEABLE: u64 = 0x25_4dd5;
        for (register, &place) in REGISTER_ORDER.iter().enumerate() {
            slots.registers[register].set(self.machine[place]);
        }
        slots.pc.set(self.machine[RIP]);
        // A trap flag of the program's would single-step the engine.
        let flags = self.machine[FLAGS] & CHANGEABLE & !TRAP_FLAG | 0x202;
        slots.flags.set(flags);
    }

    /// Where the floating-point state is; 0 for none.
    #[must_use]
    pub(crate) fn fp_state(&self) -> u64 {
        self.machine[FP_STATE]
    }

    /// Says where the floating-point state is.
    pub(crate) fn set_fp_state(&mut self, address: u64) {
        self.machine[FP_STATE] = address;
    }

    /// The bytes of the frame.
    #[must_use]
    pub(crate) fn bytes(&self) -> [u8; FRAME_SIZE as usize] {
        // SAFETY: a `repr(C)` struct of u64 has no padding.
        unsafe { std::mem::transmute_copy(self) }
    }

    /// Reads a frame from program memory.
    #[must_use]
    pub(crate) fn read(address: u64) -> Option<Frame> {
        let mut bytes = [0; FRAME_SIZE as usize];
        // SAFETY: any bytes are a valid frame.
        guarded::read(address, &mut bytes).then(|| unsafe { std::mem::transmute_copy(&bytes) })
    }
}

/// The whole extended state in the standard XSAVE format, as signal frames hold it.
pub struct FullState {
    storage: Vec<[u64; 8]>,
    size: usize,
}

const MAGIC_1: u32 = 0x4650_5853;
const MAGIC_2: u32 = 0x4650_5845;
const SOFTWARE_BYTES: usize = 464;
const HEADER: usize = 512;

impl FullState {
    fn empty() -> FullState {
        let size = std::arch::x86_64::__cpuid_count(0xd, 0).ebx as usize;
        // 64-byte alignment comes from rounding inside a slightly larger allocation.
        FullState {
            storage: vec![[0; 8]; size.div_ceil(64) + 1],
            size,
        }
    }

    fn area(&mut self) -> *mut u8 {
        let start = self.storage.as_mut_ptr().cast::<u8>();
        // SAFETY: the allocation has 64 bytes to spare.
        unsafe { start.add(start.align_offset(64)) }
    }

    /// Takes the program's state: vectors from the slots, x87 and the rest, which the engine
    /// never touches, from the processor.
    #[must_use]
    pub fn capture(thread: &Thread) -> FullState {
        const X87_OPCODE: usize = 6;
        const X87_POINTER: usize = 8;
        let vectors = thread.process.vectors;
        let mut state = FullState::empty();
        let area = state.area();
        let (low, high) = enabled();
        // SAFETY: both areas are aligned and large enough; the engine's own vector
        // registers hold nothing across the block, which says that it clobbers them.
        unsafe {
            let saved = thread.slots().vectors.area();
            std::arch::asm!(
                "xor edx, edx",
                "xrstor64 [{saved}]",
                "mov eax, {low:e}",
                "mov edx, {high:e}",
                "xsave64 [{area}]",
                saved = in(reg) saved,
                area = in(reg) area,
                low = in(reg) low,
                high = in(reg) high,
                inout("eax") vectors.mask => _,
                out("edx") _,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            );
        }
        reset_vectors(vectors);
        // SAFETY: address and opcode of the last x87 instruction lie in the legacy area.
        unsafe {
            let pointer = area.add(X87_POINTER).cast::<u64>();
            let code = thread.process.code();
            let opcode = area.add(X87_OPCODE).cast::<u16>();
            let last = x87_pointers::last_instruction(&code.cache, pointer.read(), opcode.read());
            if let Some((address, code)) = last {
                pointer.write(address);
                opcode.write(code);
            }
        }
        state
    }

    /// Makes this the program's state: vectors to the slots, the rest to the processor.
    pub fn install(&mut self, thread: &Thread) {
        let vectors = thread.process.vectors;
        let area = self.area();
        let (low, high) = enabled();
        // SAFETY: as in `capture`; `sanitise` made the area acceptable to XRSTOR.
        unsafe {
            let saved = thread.slots().vectors.area();
            std::arch::asm!(
                "mov edx, {high:e}",
                "xrstor64 [{area}]",
                "mov eax, {mask:e}",
                "xor edx, edx",
                "test {compact:e}, {compact:e}",
                "jz 2f",
                "xsavec64 [{saved}]",
                "jmp 3f",
                "2:",
                "xsave64 [{saved}]",
                "3:",
                saved = in(reg) saved,
                area = in(reg) area,
                high = in(reg) high,
                mask = in(reg) vectors.mask,
                compact = in(reg) u32::from(vectors.compact),
                inout("eax") low => _,
                out("edx") _,
                out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            );
        }
        reset_vectors(vectors);
    }

    /// The state that a handler starts with.
    #[must_use]
    pub(crate) fn initial() -> FullState {
        let mut state = FullState::empty();
        let area = state.area();
        // SAFETY: the area has at least 576 bytes.
        unsafe {
            area.cast::<u16>().write(0x37f);
            area.add(24).cast::<u32>().write(0x1f80);
        }
        state
    }

    /// Bytes that the state takes in a signal frame.
    #[must_use]
    pub(crate) fn frame_size(&self) -> u64 {
        self.size as u64 + 4
    }

    /// Writes the state where a signal frame keeps it (`address` is a multiple of 64).
    #[must_use]
    pub(crate) fn write(&mut self, address: u64) -> bool {
        let (low, high) = enabled();
        let size = self.size;
        let area = self.area();
        // SAFETY: the software bytes lie in the legacy area, which is always there.
        unsafe {
            let software = area.add(SOFTWARE_BYTES);
            software.cast::<u32>().write(MAGIC_1);
            software.add(4).cast::<u32>().write(size as u32 + 4);
            software
                .add(8)
                .cast::<u64>()
                .write(u64::from(low) | u64::from(high) << 32);
            software.add(16).cast::<u32>().write(size as u32);
        }
        // SAFETY: the area holds `size` bytes.
        let bytes = unsafe { std::slice::from_raw_parts(area, size) };
        guarded::write(address, bytes)
            && guarded::write(address + size as u64, &MAGIC_2.to_le_bytes())
    }

    /// The state's bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        let size = self.size;
        // SAFETY: the area holds `size` bytes.
        unsafe { std::slice::from_raw_parts_mut(self.area(), size) }
    }

    /// A state from bytes of its size, whatever they are.
    pub fn from_bytes(bytes: &[u8]) -> FullState {
        let mut state = FullState::empty();
        let size = state.size.min(bytes.len());
        state.bytes()[..size].copy_from_slice(&bytes[..size]);
        sanitise(state.bytes(), true);
        state
    }

    /// Reads back the state of a signal frame, which the handler may have changed at will.
    #[must_use]
    pub(crate) fn read(address: u64) -> Option<FullState> {
        const LEGACY: usize = 512;
        let mut state = FullState::empty();
        let size = state.size;
        let area = state.area();
        // SAFETY: the area holds `size` bytes, at least 576.
        let bytes = unsafe { std::slice::from_raw_parts_mut(area, size) };
        if !guarded::read(address, &mut bytes[..LEGACY]) {
            return None;
        }
        let magic = u32::from_le_bytes(bytes[SOFTWARE_BYTES..SOFTWARE_BYTES + 4].try_into().ok()?);
        let extended = magic == MAGIC_1 && guarded::read(address, &mut bytes[..size]);
        sanitise(bytes, extended);
        Some(state)
    }
}

/// Makes any bytes acceptable to XRSTOR.
fn sanitise(bytes: &mut [u8], extended: bool) {
    const X87_AND_SSE: u64 = 3;
    let (low, high) = enabled();
    let enabled = u64::from(low) | u64::from(high) << 32;
    let header: [u8; 8] = bytes[HEADER..HEADER + 8].try_into().expect("eight bytes");
    let present = if extended {
        u64::from_le_bytes(header) & enabled
    } else {
        X87_AND_SSE
    };
    bytes[HEADER..HEADER + 64].fill(0);
    bytes[HEADER..HEADER + 8].copy_from_slice(&present.to_le_bytes());
    let control: [u8; 4] = bytes[24..28].try_into().expect("four bytes");
    let control = u32::from_le_bytes(control) & 0xffff;
    bytes[24..28].copy_from_slice(&control.to_le_bytes());
}

fn enabled() -> (u32, u32) {
    let low: u32;
    let high: u32;
    // SAFETY: the engine refuses to start on a processor without XSAVE.
    unsafe {
        std::arch::asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack));
    }
    (low, high)
}

/// Puts the vector registers and their control word into the state that compiled code expects.
fn reset_vectors(vectors: VectorState) {
    let control = 0x1f80_u32;
    // SAFETY: clears the upper halves only; the lower ones hold nothing of the engine's here.
    unsafe {
        if vectors.avx {
            std::arch::asm!("vzeroupper", options(nomem, nostack));
        }
        std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack, readonly));
    }
}
