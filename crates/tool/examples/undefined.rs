//! Finds where a program branches on, or makes an address of, bytes that nobody has written: a sketch
//! of what memcheck does (N. Nethercote, J. Seward, "Valgrind", PLDI 2007).
//!
//! Undefined are blocks of `malloc`, and the stack below its pointer. Moves carry undefined bytes one
//! by one; what is calculated from one is undefined as a whole. What libraries calculate counts as
//! defined, since their string functions look at whole vectors, beyond the ends of strings.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use unspool_tool::iced_x86::{
    self, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register as Named,
};
use unspool_tool::lock::Mutex;
use unspool_tool::{
    AccessKind, Accesses, Address, Branch, Constant, FunctionArgument, Image, ImageKind,
    Instruction, Register, ReturnValue, Shadow, Shape, Superblock, SystemCall, Tool, accesses,
    effective_address, image_at, say,
};

/// Bytes below its stack pointer that a function may use, and that are undefined when it begins.
const RED_ZONE: u64 = 128;
/// A stack pointer that moves farther has changed to another stack.
const LARGEST_FRAME: u64 = 1 << 20;

/// The stack pointer among the bits of the registers that an instruction writes.
const STACK_POINTER: u16 = 1 << 4;

/// Where vector and mask registers and the flags are among a thread's registers.
const VECTORS: usize = 16;
const MASKS: usize = VECTORS + 32;
const FLAGS: usize = MASKS + 8;

struct Undefined {
    /// A bit for each byte of the program's memory.
    bytes: Shadow<u8, 8>,
    found: Mutex<BTreeMap<(Address, &'static str), u64>>,
}

struct Thread {
    /// A bit for each undefined byte of each register, and for each register that has one.
    bytes: [u64; FLAGS + 1],
    any: u64,
    /// The stack pointer before an instruction that changes it.
    stack: u64,
}

/// Some bytes of a register.
#[derive(Clone, Copy)]
struct Part {
    register: usize,
    first: u32,
    size: u32,
}

/// What an instruction makes of definedness.
struct Step {
    at: Address,
    reads: Vec<Part>,
    writes: Vec<Part>,
    /// How many bytes it reads and writes in memory.
    loads: u32,
    stores: u32,
    /// What its addresses are made of.
    addresses: Vec<Part>,
    /// How many bytes it moves, if that is what it does.
    moves: Option<u32>,
    /// What it does with what it reads, if that must be defined.
    decides: Option<&'static str>,
    is_trusted: bool,
}

/// A bit for each of so many bytes.
fn all(size: u32) -> u64 {
    u64::MAX
        .checked_shr(64_u32.saturating_sub(size))
        .unwrap_or(0)
}

impl Default for Thread {
    fn default() -> Thread {
        Thread {
            bytes: [0; FLAGS + 1],
            any: 0,
            stack: 0,
        }
    }
}

impl Thread {
    fn undefined(&self, part: &Part) -> u64 {
        self.bytes[part.register] >> part.first & all(part.size)
    }

    fn set(&mut self, part: &Part, undefined: u64) {
        let bytes = &mut self.bytes[part.register];
        *bytes &= !(all(part.size) << part.first);
        *bytes |= (undefined & all(part.size)) << part.first;
        self.any &= !(1 << part.register);
        self.any |= u64::from(*bytes != 0) << part.register;
    }
}

impl Part {
    const FLAGS: Part = Part {
        register: FLAGS,
        first: 0,
        size: 1,
    };
    const RAX: Part = Part {
        register: 0,
        first: 0,
        size: 8,
    };

    /// None if it is not followed. The stack pointer is always defined.
    fn of(named: Named) -> Option<Part> {
        let register = match named.full_register() {
            Named::RSP => return None,
            full if named.is_gpr() => full.number(),
            _ if named.is_vector_register() => VECTORS + named.number(),
            _ if named.is_k() => MASKS + named.number(),
            _ => return None,
        };
        let is_high = matches!(named, Named::AH | Named::BH | Named::CH | Named::DH);
        let size = named.size() as u32;
        Some(Part {
            register,
            first: u32::from(is_high),
            size,
        })
    }
}

/// How many bytes an instruction moves, if that is all it does.
fn moved(instruction: &Instruction<Undefined>) -> Option<u32> {
    use Mnemonic::*;
    let decoded = instruction.decoded();
    let in_memory = !instruction.memory_operands().is_empty();
    match decoded.mnemonic() {
        _ if decoded.has_op_mask() => None,
        Mov | Movzx | Movbe | Push | Pop | Lddqu | Movaps | Movapd | Movups | Movupd | Movdqa
        | Movdqu | Movntdq | Movntps | Movntpd | Movnti | Movntdqa | Vmovaps | Vmovapd
        | Vmovups | Vmovupd | Vmovdqa | Vmovdqu | Vmovdqa32 | Vmovdqa64 | Vmovdqu8 | Vmovdqu16
        | Vmovdqu32 | Vmovdqu64 | Vlddqu | Vmovntdq | Vmovntps | Vmovntpd => Some(64),
        Movss | Movsd | Vmovss | Vmovsd | Movsb | Movsw | Movsq if in_memory => Some(64),
        Movd | Vmovd => Some(4),
        Movq | Vmovq => Some(8),
        _ => None,
    }
}

/// Whether its result does not depend on the register that it is calculated from.
fn is_constant(decoded: &iced_x86::Instruction) -> bool {
    use Mnemonic::*;
    let last = decoded.op_count().wrapping_sub(1);
    matches!(
        decoded.mnemonic(),
        Xor | Sub
            | Sbb
            | Pxor
            | Xorps
            | Xorpd
            | Vpxor
            | Vpxord
            | Vpxorq
            | Vxorps
            | Vxorpd
            | Pcmpeqb
            | Pcmpeqw
            | Pcmpeqd
            | Vpcmpeqb
            | Vpcmpeqw
            | Vpcmpeqd
    ) && decoded.op_kind(last) == OpKind::Register
        && decoded.op_register(last) == decoded.op_register(last - 1)
}

impl Step {
    fn of(instruction: &Instruction<Undefined>, is_trusted: bool) -> Step {
        let decoded = instruction.decoded();
        let operands = instruction.memory_operands();
        let bytes = |kind| {
            let mut plain = operands
                .iter()
                .filter(|it| it.kind == kind && is_plain(it.shape));
            plain.next().map_or(0, |operand| operand.size)
        };
        let named = operands
            .iter()
            .flat_map(|operand| [operand.base, operand.index]);
        let addresses: Vec<Part> = named.filter_map(Part::of).collect();
        let is_read = |part: &Part, register: Named| {
            let is_address = addresses.iter().any(|it| it.register == part.register);
            // It may be both, as in `mov [rax], rax`.
            !is_address
                || (0..decoded.op_count()).any(|number| decoded.op_register(number) == register)
        };
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for used in InstructionInfoFactory::new().info(decoded).used_registers() {
            use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite, Write};
            let Some(part) = Part::of(used.register()) else {
                continue;
            };
            if matches!(
                used.access(),
                Read | CondRead | ReadWrite | ReadCondWrite | CondWrite
            ) && is_read(&part, used.register())
            {
                reads.push(part);
            }
            if matches!(used.access(), Write | CondWrite | ReadWrite | ReadCondWrite) {
                writes.push(part);
            }
        }
        if is_constant(decoded) {
            reads.clear();
        }
        reads.extend((decoded.rflags_read() != 0).then_some(Part::FLAGS));
        writes.extend((decoded.rflags_modified() != 0).then_some(Part::FLAGS));
        Step {
            at: Address(instruction.address()),
            reads,
            writes,
            loads: bytes(AccessKind::Read),
            stores: bytes(AccessKind::Write),
            addresses,
            moves: moved(instruction),
            decides: match instruction.branch() {
                Some(Branch::Conditional) => Some("branch on"),
                Some(Branch::IndirectJump | Branch::IndirectCall) => Some("jump to"),
                _ => None,
            },
            is_trusted,
        }
    }
}

/// Whether an operand is one piece of memory.
fn is_plain(shape: Shape) -> bool {
    matches!(shape, Shape::Plain | Shape::AlignedDown)
}

impl Undefined {
    /// A bit for each of up to 64 bytes that is undefined.
    fn load(&self, at: u64, size: u32) -> u64 {
        if size == 0 {
            return 0;
        }
        let words = at / 8..=(at + u64::from(size.min(64)) - 1) / 8;
        let bits = words.rev().fold(0, |bits: u128, word| {
            bits << 8 | u128::from(self.bytes.get(word * 8))
        });
        (bits >> (at % 8)) as u64 & all(size)
    }

    fn store(&self, at: u64, size: u32, undefined: u64) {
        let mut meant = u128::from(all(size)) << (at % 8);
        let mut bits = u128::from(undefined) << (at % 8);
        let mut word = at;
        while meant != 0 {
            // Other threads may store the other bytes meanwhile.
            let cell = self.bytes.word(word);
            cell.fetch_and(!(meant & !bits) as u8, Relaxed);
            cell.fetch_or((meant & bits) as u8, Relaxed);
            (meant, bits, word) = (meant >> 8, bits >> 8, word + 8);
        }
    }

    fn fill(&self, start: u64, length: u64, undefined: u64) {
        for at in (start..start + length).step_by(64) {
            self.store(at, 64.min(start + length - at) as u32, undefined);
        }
    }

    /// Whether anything is undefined near what an instruction uses. That is rare, and inlined.
    fn matters(&self, thread: &mut Thread, from: Address, to: Address) -> bool {
        let byte = |at: u64| u64::from(self.bytes.get(at));
        thread.any | byte(from.0) | byte(from.0 + 7) | byte(to.0) | byte(to.0 + 7) != 0
    }

    fn step(&self, thread: &mut Thread, step: u64, from: Address, to: Address) {
        // SAFETY: it is one of those that `instrument` has leaked.
        let step: &Step = unsafe { &*std::ptr::with_exposed_provenance(step as usize) };
        let is_undefined = |part: &Part| thread.undefined(part) != 0;
        if !step.is_trusted && step.addresses.iter().any(is_undefined) {
            self.report(step.at, "address made of");
        }
        let loaded = self.load(from.0, step.loads);
        let is_any = loaded != 0 || step.reads.iter().any(is_undefined);
        let result = match (step.moves, step.reads.first()) {
            (Some(size), _) if step.loads != 0 => loaded & all(size),
            (Some(size), Some(part)) => thread.undefined(part) & all(size),
            _ if is_any && !step.is_trusted => u64::MAX,
            _ => 0,
        };
        if let Some(what) = step.decides.filter(|_| is_any && !step.is_trusted) {
            self.report(step.at, what);
        }
        for part in &step.writes {
            thread.set(part, result);
        }
        if step.stores > 64 {
            self.fill(to.0, step.stores.into(), 0);
        } else {
            self.store(to.0, step.stores, result);
        }
    }

    fn report(&self, at: Address, what: &'static str) {
        *self.found.lock().entry((at, what)).or_default() += 1;
    }

    fn written(&self, _: &mut Thread, elements: Accesses) {
        for (at, size) in elements.to_vec() {
            self.fill(at.0, size, 0);
        }
    }

    fn copied(&self, _: &mut Thread, from: Accesses, to: Accesses) {
        for ((from, size), (to, _)) in from.to_vec().into_iter().zip(to.to_vec()) {
            for byte in 0..size {
                self.store(to.0 + byte, 1, self.load(from.0 + byte, 1));
            }
        }
    }

    fn calls(&self, _: &mut Thread, stack: u64) {
        // Beyond the address to return to.
        self.fill(stack - 8 - RED_ZONE, RED_ZONE, u64::MAX);
    }

    fn moves_stack(&self, thread: &mut Thread, stack: u64) {
        thread.stack = stack;
    }

    fn moved_stack(&self, thread: &mut Thread, stack: u64) {
        let grown = thread.stack.saturating_sub(stack);
        if grown < LARGEST_FRAME {
            self.fill(stack, grown, u64::MAX);
        }
    }

    fn allocated(&self, _: &mut Thread, block: u64, size: u64) {
        if block != 0 {
            self.fill(block, size, u64::MAX);
        }
    }

    fn allocated_zeros(&self, _: &mut Thread, block: u64, count: u64, size: u64) {
        if block != 0 {
            self.fill(block, count * size, 0);
        }
    }

    fn follow(&self, instruction: &Instruction<Self>, is_trusted: bool) {
        let before = instruction.before();
        let step = Step::of(instruction, is_trusted);
        let place = |kind| {
            let mut operands = instruction.memory_operands().iter();
            let operand = operands.find(|it| it.kind == kind && is_plain(it.shape));
            operand.and_then(effective_address)
        };
        let (from, to) = (place(AccessKind::Read), place(AccessKind::Write));
        let is_short = step.loads <= 8 && step.stores <= 8;
        let step = std::ptr::from_ref(Box::leak(Box::new(step))).expose_provenance() as u64;
        let arguments = (Constant(step), from, to);
        if is_short {
            before.call_if(Undefined::matters, (from, to), Undefined::step, arguments);
        } else {
            before.call(Undefined::step, arguments);
        }
        let mut strange = instruction.memory_operands().iter();
        let mut strange = strange.by_ref().filter(|operand| !is_plain(operand.shape));
        match (strange.next(), strange.next()) {
            (Some(from), Some(to)) if to.kind == AccessKind::Write => {
                before.call(Undefined::copied, (accesses(from), accesses(to)));
            }
            (Some(to), _) if to.kind == AccessKind::Write => {
                before.call(Undefined::written, (accesses(to),));
            }
            _ => {}
        }
        let is_call = matches!(
            instruction.branch(),
            Some(Branch::Call | Branch::IndirectCall)
        );
        let changes_stack = instruction.registers().written & STACK_POINTER != 0;
        if is_call {
            before.call(Undefined::calls, (Register::Rsp,));
        } else if let Some(after) = instruction
            .after()
            .filter(|_| changes_stack && to.is_none())
        {
            before.call(Undefined::moves_stack, (Register::Rsp,));
            after.call(Undefined::moved_stack, (Register::Rsp,));
        }
    }
}

impl Tool for Undefined {
    type Thread = Thread;

    fn instrument(&self, superblock: &Superblock<Self>) {
        let image = image_at(superblock.address());
        let is_trusted = image.is_none_or(|image| image.kind() != ImageKind::Program);
        for instruction in superblock.instructions() {
            self.follow(&instruction, is_trusted);
        }
    }

    fn image_load(&self, image: &Image<Self>) {
        let block = ReturnValue::<u64>::new();
        let first = FunctionArgument::<u64, 0>::new();
        for routine in image.routines_named("malloc") {
            routine.exit().call(Undefined::allocated, (block, first));
        }
        for routine in image.routines_named("calloc") {
            let arguments = (block, first, FunctionArgument::<u64, 1>::new());
            routine.exit().call(Undefined::allocated_zeros, arguments);
        }
    }

    fn system_call_exit(&self, thread: &mut Thread, call: &SystemCall, result: &mut i64) {
        thread.set(&Part::RAX, 0);
        let effects = call.memory(*result).effects;
        for effect in effects.iter().filter(|effect| effect.write) {
            self.fill(effect.address, effect.size, 0);
        }
    }

    fn end(&self) {
        let found = self.found.lock();
        for ((at, what), count) in found.iter() {
            let line = image_at(at.0).and_then(|image| image.source_line(at.0));
            let place = line.map_or_else(|| at.to_string(), |line| line.to_string());
            say(&format!(
                "{what} an undefined value at {place}, {count} times"
            ));
        }
        say(&format!("{} uses of undefined values", found.len()));
    }
}

fn main() {
    unspool_tool::run(Undefined {
        bytes: Shadow::new().expect("no room for shadow memory"),
        found: Mutex::default(),
    })
}
