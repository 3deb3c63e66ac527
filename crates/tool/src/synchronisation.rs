//! Atomic instructions, and joins by name, as [`Tool::synchronisation`] is told of them.

use std::cell::Cell;

use iced_x86::Mnemonic;
use unspool_instructions::operands::MemoryOperand;
use unspool_instrument::{
    self as instrument, AtomicKind, Side, SyncObject, SyncOperation, Synchronisation,
};

use crate::access::{Accesses, accesses};
use crate::argument::{Address, Argument, Constant, Word, word_argument};
use crate::code::{Instruction, Superblock};
use crate::image::Image;
use crate::routine_values::{FunctionArgument, ReturnValue};
use crate::source::{InstructionPointer, effective_address};
use crate::tool::Tool;

/// The condition of the status flags that means equality, by its number in opcodes.
const EQUAL: u8 = 4;

/// Functions that return 0 when the thread that is their first argument has ended. If it had done so
/// before, they find it out by a plain load, which nothing else tells of.
const JOINS: [&str; 5] = [
    "pthread_join",
    "pthread_tryjoin_np",
    "pthread_timedjoin_np",
    "pthread_clockjoin_np",
    "thrd_join",
];

thread_local! {
    /// The memory of the atomic instruction that the thread executes, which may change the registers
    /// that say where that is.
    static OBJECT: Cell<u64> = const { Cell::new(0) };
}

/// An atomic instruction: where it is, the bytes that it accesses, and what it does to them.
type Described = (InstructionPointer, Constant<u32>, Constant<u8>);

fn describe(instruction: &instrument::Instruction<'_>, operand: &MemoryOperand) -> Described {
    let kind = kind(instruction) as u8;
    (InstructionPointer, Constant(operand.size), Constant(kind))
}

fn kind(instruction: &instrument::Instruction<'_>) -> AtomicKind {
    match instruction.decoded().mnemonic() {
        Mnemonic::Xchg => AtomicKind::Exchange,
        Mnemonic::Cmpxchg | Mnemonic::Cmpxchg8b | Mnemonic::Cmpxchg16b => {
            AtomicKind::CompareExchange
        }
        _ => AtomicKind::Update,
    }
}

/// Whether an atomic instruction has written, for calls behind it.
#[derive(Clone, Copy)]
struct HasWritten;

word_argument!(HasWritten => bool, |_, instruction| match kind(&instruction) {
    AtomicKind::CompareExchange => instrument::Argument::Condition(EQUAL),
    AtomicKind::Exchange | AtomicKind::Update => instrument::Argument::Constant(1),
});

fn tell<T: Tool>(
    tool: &T,
    thread: &mut T::Thread,
    side: Side,
    object: SyncObject,
    operation: SyncOperation,
) {
    let event = Synchronisation::now(side, object, operation);
    tool.synchronisation(thread, &event);
}

fn atomic<T: Tool>(
    tool: &T,
    thread: &mut T::Thread,
    (pc, size, kind): (Address, u32, u8),
    has_written: Option<bool>,
) {
    let operation = SyncOperation::Atomic {
        pc: pc.0,
        size,
        kind: AtomicKind::from_number(kind),
        has_written,
    };
    let side = match has_written {
        None => Side::Gives,
        Some(_) => Side::Takes,
    };
    tell(
        tool,
        thread,
        side,
        SyncObject::Memory(OBJECT.get()),
        operation,
    );
}

fn begins<T: Tool>(
    tool: &T,
    thread: &mut T::Thread,
    object: Address,
    pc: Address,
    size: u32,
    kind: u8,
) {
    OBJECT.set(object.0);
    atomic(tool, thread, (pc, size, kind), None);
}

/// Where the bits of a string decide which word it is.
fn begins_at_a_bit<T: Tool>(
    tool: &T,
    thread: &mut T::Thread,
    objects: Accesses,
    pc: Address,
    size: u32,
    kind: u8,
) {
    let object = objects.to_vec().first().map_or(Address(0), |it| it.0);
    begins(tool, thread, object, pc, size, kind);
}

fn ends<T: Tool>(
    tool: &T,
    thread: &mut T::Thread,
    pc: Address,
    size: u32,
    kind: u8,
    has_written: bool,
) {
    atomic(tool, thread, (pc, size, kind), Some(has_written));
}

/// The memory that an atomic instruction accesses, if it is one.
fn accessed<'a, T>(instruction: &'a Instruction<'_, T>) -> Option<&'a MemoryOperand> {
    let operands = instruction.memory_operands();
    operands.first().filter(|_| instruction.is_atomic())
}

/// Has the tool told what it takes by atomic instructions: to be called before it inserts anything
/// behind them itself.
pub(crate) fn insert_takes<T: Tool>(superblock: &Superblock<'_, T>) {
    for instruction in superblock.instructions() {
        if let Some((operand, after)) = accessed(&instruction).zip(instruction.after()) {
            let (pc, size, kind) = describe(&instruction, operand);
            after.call(ends::<T>, (pc, size, kind, HasWritten));
        }
    }
}

/// Has the tool told what it gives by atomic instructions: to be called when it has inserted what it
/// wants before them.
pub(crate) fn insert_gives<T: Tool>(superblock: &Superblock<'_, T>) {
    for instruction in superblock.instructions() {
        let Some(operand) = accessed(&instruction) else {
            continue;
        };
        let (before, (pc, size, kind)) = (instruction.before(), describe(&instruction, operand));
        match effective_address(operand) {
            Some(object) => before.call(begins::<T>, (object, pc, size, kind)),
            None => before.call(begins_at_a_bit::<T>, (accesses(operand), pc, size, kind)),
        }
    }
}

fn joined<T: Tool>(tool: &T, thread: &mut T::Thread, pthread: u64, error: i32) {
    if let Some(ended) = instrument::ended_thread(pthread).filter(|_| error == 0) {
        let object = SyncObject::Thread(ended);
        tell(tool, thread, Side::Takes, object, SyncOperation::Join);
    }
}

/// Has the tool told of joins.
pub(crate) fn hook_joins<T: Tool>(image: &Image<'_, T>) {
    for join in JOINS.iter().flat_map(|name| image.routines_named(name)) {
        let pthread = FunctionArgument::<u64, 0>::new();
        join.exit()
            .call(joined::<T>, (pthread, ReturnValue::<i32>::new()));
    }
}
