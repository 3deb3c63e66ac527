//! Where values come from that functions are called with.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use iced_x86::{Mnemonic, Register as Named};
use unspool_instructions::operands::{MemoryOperand, Shape};
use unspool_instrument::{self as instrument, Branch};

use crate::argument::{Address, Argument, Word, word_argument};
use crate::function::Value;
use crate::moment::{Moment, word_in_memory};

/// The address of the instruction.
#[derive(Debug, Clone, Copy)]
pub struct InstructionPointer;

word_argument!(InstructionPointer => Address, |_, instruction| {
    instrument::Argument::Constant(instruction.address())
});

/// The value of a general register, all 64 bits of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names of the registers")]
pub enum Register {
    Rax,
    Rcx,
    Rdx,
    Rbx,
    Rsp,
    Rbp,
    Rsi,
    Rdi,
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
}

impl Register {
    pub(crate) fn word(self) -> instrument::Argument {
        instrument::Argument::Register(self as u8)
    }
}

word_argument!(Register => u64, |this, _| this.word());

/// A general register by reference: what the function makes of it is the program's value when the
/// function returns. Any register can be changed, the stack pointer too; where the same one is
/// there twice, the later one counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByReference(pub Register);

/// A register of the program that a function may change, for as long as the function runs.
#[derive(Debug)]
pub struct RegisterMut {
    word: *mut u64,
}

impl Deref for RegisterMut {
    type Target = u64;

    fn deref(&self) -> &u64 {
        // SAFETY: the word is this thread's, which it cannot leave, and lives as long; nobody
        // else uses it while the function runs.
        unsafe { &*self.word }
    }
}

impl DerefMut for RegisterMut {
    fn deref_mut(&mut self) -> &mut u64 {
        // SAFETY: as above.
        unsafe { &mut *self.word }
    }
}

impl Argument for ByReference {
    type Value = RegisterMut;
    const IS_WORD: bool = false;

    fn source(&self, _: instrument::Instruction<'_>) -> instrument::Argument {
        instrument::Argument::Changeable(self.0 as u8)
    }

    fn value(_: u64, number: usize) -> RegisterMut {
        RegisterMut {
            word: instrument::argument_word(number),
        }
    }
}

/// The low part of a vector register, xmm0 to xmm15: as an `f32`, as an `f64`, or as 64 bits.
#[derive(Debug, Clone, Copy)]
pub struct LowVector<V, const N: u8>(PhantomData<V>);

impl<V: Value, const N: u8> LowVector<V, N> {
    /// The source.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it is a name for a place")]
    pub const fn new() -> LowVector<V, N> {
        const { assert!(N < 16, "there are sixteen such registers") };
        LowVector(PhantomData)
    }
}

impl<V: Value, const N: u8> Argument for LowVector<V, N> {
    type Value = V;
    const IS_WORD: bool = false;

    fn source(&self, _: instrument::Instruction<'_>) -> instrument::Argument {
        instrument::Argument::Vector(N)
    }

    fn value(_: u64, number: usize) -> V {
        V::from_bits(word_in_memory(number))
    }
}

/// All registers, to be read and changed, the instruction pointer too. The thread leaves the
/// translated code for it, which takes some hundred nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FullContext;

impl Argument for FullContext {
    type Value = instrument::Context;
    const IS_WORD: bool = false;

    fn source(&self, _: instrument::Instruction<'_>) -> instrument::Argument {
        instrument::Argument::Context(0)
    }

    fn value(_: u64, _: usize) -> instrument::Context {
        instrument::Context::current()
    }
}

/// The address of an operand in memory. See [`effective_address`].
#[derive(Debug, Clone, Copy)]
pub struct EffectiveAddress(MemoryOperand);

/// Where an operand of [`memory_operands`](instrument::Instruction::memory_operands) lies: the
/// address of its first byte in the direction in which it is accessed, as the registers have it
/// at the place of the call. Before the instruction this is the address that it will access.
///
/// `None` for operands whose address does not follow from general registers and constants alone
/// (gathers and scatters, tiles, bit strings, and lines of the cache).
#[must_use]
pub fn effective_address(operand: &MemoryOperand) -> Option<EffectiveAddress> {
    let plain = !matches!(
        operand.shape,
        Shape::Indexed { .. } | Shape::Tile { .. } | Shape::BitString { .. } | Shape::AlignedDown
    );
    plain.then_some(EffectiveAddress(*operand))
}

word_argument!(EffectiveAddress => Address, |this, _| instrument::Argument::Address(this.0));

/// The value of an operand in memory. See [`memory_value`].
#[derive(Debug, Clone, Copy)]
pub struct MemoryValue(MemoryOperand);

/// The value of an operand of 1, 2, 4 or 8 bytes, zero-extended: what the instruction is about to
/// read, before it, or what it has written, behind it. What is read and written is listed twice
/// among [`memory_operands`](instrument::Instruction::memory_operands): it has a value at both places.
///
/// `None` for operands of other sizes, and for those that are not plain
/// ([`effective_address`] says which).
///
/// ```
/// use unspool_tool::{AccessKind, Address, Buffer, Superblock, Tool};
/// use unspool_tool::{effective_address, memory_value};
///
/// /// What is loaded from where.
/// struct Loads {
///     log: Buffer<Loads, (Address, u64)>,
/// }
///
/// impl Tool for Loads {
///     type Thread = ();
///     fn instrument(&self, superblock: &Superblock<Self>) {
///         for instruction in superblock.instructions() {
///             let operands = instruction.memory_operands().iter();
///             for read in operands.filter(|it| it.kind == AccessKind::Read) {
///                 if let (Some(address), Some(value)) = (effective_address(read), memory_value(read)) {
///                     instruction.before().append(self.log, (address, value));
///                 }
///             }
///         }
///     }
/// }
/// ```
///
/// What is stored is known at [`after`](crate::Instruction::after), for operands of
/// [`AccessKind::Write`](crate::AccessKind), and at [`taken`](crate::Instruction::taken) for the return
/// address that a call leaves on the stack.
/// (Behind an instruction that changes a register of which the address is made, as `push` does,
/// [`effective_address`] is not where the operand is. Its value is the operand's nevertheless.)
///
/// The value is read once more beside the instruction: another thread may have stored another one
/// between the two. If an instruction faults because its operand is not there, no call is made that
/// wants the value, and the program gets the same signal. If another thread has taken memory away
/// that was just written, the value is 0.
///
/// # Panics
/// Where it is inserted: if it is an operand of another instruction, or not known at that place.
#[must_use]
pub fn memory_value(operand: &MemoryOperand) -> Option<MemoryValue> {
    let is_word = matches!(operand.size, 1 | 2 | 4 | 8);
    (operand.shape == Shape::Plain && is_word).then_some(MemoryValue(*operand))
}

word_argument!(MemoryValue => u64, |this, instruction| {
    let operands = instruction.memory_operands();
    let number = operands.iter().position(|it| *it == this.0);
    let number = number.filter(|&number| number < instrument::MOST_MEMORY_VALUES);
    let number = number.unwrap_or_else(|| {
        panic!(
            "`{}` has no such operand among its first {}",
            instruction.disassembly(),
            instrument::MOST_MEMORY_VALUES
        )
    });
    instrument::Argument::MemoryValue(number as u8)
});

/// How many bytes are accessed. See [`access_size`].
#[derive(Debug, Clone, Copy)]
pub struct AccessSize(MemoryOperand);

/// How many bytes of an operand an instruction accesses. A repeated string instruction that looks
/// for something may end before it has accessed as many.
///
/// `None` where masks decide, and for tiles.
#[must_use]
pub fn access_size(operand: &MemoryOperand) -> Option<AccessSize> {
    let known = matches!(
        operand.shape,
        Shape::Plain | Shape::Repeat { .. } | Shape::BitString { .. } | Shape::AlignedDown
    );
    known.then_some(AccessSize(*operand))
}

word_argument!(AccessSize => u64, |this, _| {
    match this.0.shape {
        // As an address: count × size.
        Shape::Repeat { count, .. } => {
            let scale = this.0.size as u8;
            instrument::Argument::Address(product(count, scale, &this.0))
        }
        _ => instrument::Argument::Constant(u64::from(this.0.size)),
    }
});

/// What would be at `register` × `scale`.
fn product(register: Named, scale: u8, operand: &MemoryOperand) -> MemoryOperand {
    MemoryOperand {
        base: Named::None,
        index: register,
        scale,
        displacement: 0,
        segment: None,
        address_size_32: register == Named::ECX,
        shape: Shape::Plain,
        ..*operand
    }
}

/// Whether the conditional jump before which the place is will be taken. See [`branch_taken`].
#[derive(Debug, Clone, Copy)]
pub struct BranchTaken(());

/// Whether an instruction will be taken, for calls before it; `None` if it is not a conditional
/// branch.
#[must_use]
pub fn branch_taken(instruction: &instrument::Instruction) -> Option<BranchTaken> {
    (instruction.branch() == Some(Branch::Conditional)).then_some(BranchTaken(()))
}

word_argument!(BranchTaken => bool, |_, instruction| {
    assert!(
        branch_taken(&instruction).is_some(),
        "`{}` is not a conditional branch",
        instruction.disassembly()
    );
    instrument::Argument::Taken
});

/// Where a branch goes if it is taken. See [`branch_target`].
#[derive(Debug, Clone, Copy)]
pub struct BranchTarget(());

/// Where a branch goes if it is taken, for calls before it, also where a register or memory says
/// so; `None` if it is not a branch. (System calls are none.)
#[must_use]
pub fn branch_target(instruction: &instrument::Instruction) -> Option<BranchTarget> {
    let branch = instruction.branch().filter(|it| *it != Branch::SystemCall);
    branch.map(|_| BranchTarget(()))
}

impl Argument for BranchTarget {
    type Value = Address;
    const IS_WORD: bool = false;

    fn source(&self, instruction: instrument::Instruction<'_>) -> instrument::Argument {
        assert!(
            branch_target(&instruction).is_some(),
            "`{}` is not a branch",
            instruction.disassembly()
        );
        instrument::Argument::Target
    }

    fn value(_: u64, number: usize) -> Address {
        Address(word_in_memory(number))
    }
}

/// The address behind the instruction.
#[derive(Debug, Clone, Copy)]
pub struct FallThrough;

word_argument!(FallThrough => Address, |_, instruction| instrument::Argument::Constant(instruction.next_address()));

/// Whether an instruction will do anything. See [`predicate`].
#[derive(Debug, Clone, Copy)]
pub struct Predicate(instrument::Argument);

/// Whether an instruction that depends on a condition will do what it is for: a conditional move,
/// or a string instruction that is repeated not at all. For all others it is always true, also
/// for conditional branches (see [`branch_taken`]) and for those with masks.
///
/// A repeated string instruction is executed as one: what is before it is done once, before the
/// first repetition (see [`first_repetition`]).
#[must_use]
pub fn predicate(instruction: &instrument::Instruction) -> Predicate {
    let decoded = instruction.decoded();
    let repeats = instruction.memory_operands().iter();
    let count = repeats
        .filter_map(|operand| match operand.shape {
            Shape::Repeat { count, .. } => Some(product(count, 1, operand)),
            _ => None,
        })
        .next();
    if let Some(count) = count {
        return Predicate(instrument::Argument::Address(count));
    }
    if (Mnemonic::Cmova..=Mnemonic::Cmovs).contains(&decoded.mnemonic()) {
        // iced counts conditions from 1, in the order that opcodes have.
        let number = decoded.condition_code() as u8 - 1;
        return Predicate(instrument::Argument::Condition(number));
    }
    Predicate(instrument::Argument::Constant(1))
}

impl Argument for Predicate {
    type Value = bool;
    const IS_WORD: bool = false;

    fn source(&self, _: instrument::Instruction<'_>) -> instrument::Argument {
        self.0
    }

    fn value(word: u64, _: usize) -> bool {
        word != 0
    }
}

/// Whether a repeated string instruction is at its first repetition. See [`first_repetition`].
#[derive(Debug, Clone, Copy)]
pub struct FirstRepetition(());

/// Whether a repeated string instruction is about to do the first of its repetitions, for calls
/// before it; `None` if it is none. It costs as much as a [`FullContext`].
///
/// What is before such an instruction is done once, and not for each repetition. But a fault can
/// interrupt it, and so can a signal if it is a long one. It is begun again then, behind the
/// handler, and so is what is before it: `false` if it has done some of its repetitions before.
/// So the number of times that it is `true` is that of the instructions, and
/// [`access_size`] tells each time what is left to do.
///
/// ```
/// use unspool_tool::{Superblock, Tool, first_repetition};
///
/// /// Counts repeated string instructions, and how often they are interrupted.
/// struct Strings;
///
/// impl Strings {
///     fn begins(&self, (begun, resumed): &mut (u64, u64), is_first: bool) {
///         *if is_first { begun } else { resumed } += 1;
///     }
/// }
///
/// impl Tool for Strings {
///     type Thread = (u64, u64);
///     fn instrument(&self, superblock: &Superblock<Self>) {
///         for instruction in superblock.instructions() {
///             if let Some(first) = first_repetition(&instruction) {
///                 instruction.before().call(Strings::begins, (first,));
///             }
///         }
///     }
/// }
/// ```
#[must_use]
pub fn first_repetition(instruction: &instrument::Instruction) -> Option<FirstRepetition> {
    let is_repeated = |operand: &MemoryOperand| matches!(operand.shape, Shape::Repeat { .. });
    let mut operands = instruction.memory_operands().iter();
    operands.any(is_repeated).then_some(FirstRepetition(()))
}

impl Argument for FirstRepetition {
    type Value = bool;
    const IS_WORD: bool = false;

    fn source(&self, instruction: instrument::Instruction<'_>) -> instrument::Argument {
        assert!(
            first_repetition(&instruction).is_some(),
            "`{}` is not repeated",
            instruction.disassembly()
        );
        instrument::Argument::Context(0)
    }

    fn value(_: u64, _: usize) -> bool {
        instrument::is_first_repetition()
    }
}

/// The number of the thread: 0 for the first one.
#[derive(Debug, Clone, Copy)]
pub struct ThreadNumber;

impl<M: Moment> Argument<M> for ThreadNumber {
    type Value = u32;

    fn source(&self, _: M::Site<'_>) -> M::Source {
        M::thread_number()
    }

    fn value(_: u64, _: usize) -> u32 {
        instrument::thread_number()
    }
}

/// The processor's time stamp counter.
#[derive(Debug, Clone, Copy)]
pub struct TimeStamp;

impl<M: Moment> Argument<M> for TimeStamp {
    type Value = u64;

    fn source(&self, _: M::Site<'_>) -> M::Source {
        M::time_stamp()
    }

    fn value(_: u64, _: usize) -> u64 {
        // SAFETY: the instruction is one that every such processor has.
        unsafe { std::arch::x86_64::_rdtsc() }
    }
}

/// A source whose value has another type. See [`narrow`].
#[derive(Debug, Clone, Copy)]
pub struct Narrowed<V, S>(S, PhantomData<V>);

/// A source whose value is cut to another type: a size, which has 64 bits, in a field of 32.
///
/// ```
/// # use unspool_tool::{Address, Buffer, Superblock, Tool, access_size, effective_address, narrow};
/// # struct Log { log: Buffer<Log, (Address, u32)> }
/// # impl Tool for Log {
/// #     type Thread = ();
/// #     fn instrument(&self, superblock: &Superblock<Self>) {
/// #         for instruction in superblock.instructions() {
/// #             for operand in instruction.memory_operands() {
/// if let (Some(address), Some(size)) = (effective_address(operand), access_size(operand)) {
///     instruction.before().append(self.log, (address, narrow::<u32, _>(size)));
/// }
/// #             }
/// #         }
/// #     }
/// # }
/// ```
#[must_use]
pub fn narrow<V: Word, S>(source: S) -> Narrowed<V, S> {
    Narrowed(source, PhantomData)
}

impl<M: Moment, V: Word, S: Argument<M, Value: Word>> Argument<M> for Narrowed<V, S> {
    type Value = V;
    const IS_WORD: bool = S::IS_WORD;

    fn source(&self, site: M::Site<'_>) -> M::Source {
        self.0.source(site)
    }

    fn value(word: u64, number: usize) -> V {
        V::from_word(S::value(word, number).to_word())
    }
}

/// A source that is not there at every place. The value is 0 where it is not, so that one function or
/// entry serves instructions of several kinds.
///
/// ```
/// # use unspool_tool::{Address, Buffer, InstructionPointer, Superblock, Tool, effective_address};
/// # struct Log { log: Buffer<Log, (Address, Address)> }
/// # impl Tool for Log {
/// #     type Thread = ();
/// #     fn instrument(&self, superblock: &Superblock<Self>) {
/// for instruction in superblock.instructions() {
///     let operand = instruction.memory_operands().first().and_then(effective_address);
///     instruction.before().append(self.log, (InstructionPointer, operand));
/// }
/// #     }
/// # }
/// ```
impl<M: Moment, S: Argument<M, Value: Word>> Argument<M> for Option<S> {
    type Value = S::Value;

    fn source(&self, site: M::Site<'_>) -> M::Source {
        const {
            assert!(
                S::IS_WORD,
                "only a source that can be a field of an entry can be missing"
            );
        }
        match self {
            Some(source) => source.source(site),
            None => M::constant(0),
        }
    }

    fn value(word: u64, number: usize) -> S::Value {
        S::value(word, number)
    }
}

/// A source with another value where it is not there. See [`value_or`].
#[derive(Debug, Clone, Copy)]
pub struct ValueOr<S, V> {
    source: Option<S>,
    default: V,
}

/// A source that is not there at every place, with the value where it is not: what no address is, for
/// instance, where 0 could be one.
///
/// ```
/// # use unspool_tool::{Address, Buffer, InstructionPointer, Superblock, Tool};
/// # use unspool_tool::{effective_address, value_or};
/// # struct Log { log: Buffer<Log, (Address, Address)> }
/// # impl Tool for Log {
/// #     type Thread = ();
/// #     fn instrument(&self, superblock: &Superblock<Self>) {
/// const NOWHERE: Address = Address(u64::MAX);
/// for instruction in superblock.instructions() {
///     let operand = instruction.memory_operands().first().and_then(effective_address);
///     let entry = (InstructionPointer, value_or(operand, NOWHERE));
///     instruction.before().append(self.log, entry);
/// }
/// #     }
/// # }
/// ```
#[must_use]
pub fn value_or<S, V: Word>(source: Option<S>, default: V) -> ValueOr<S, V> {
    ValueOr { source, default }
}

impl<M: Moment, V: Word, S: Argument<M, Value = V>> Argument<M> for ValueOr<S, V> {
    type Value = V;

    fn source(&self, site: M::Site<'_>) -> M::Source {
        const {
            assert!(
                S::IS_WORD,
                "only a source that can be a field of an entry can be missing"
            );
        }
        match &self.source {
            Some(source) => source.source(site),
            None => M::constant(self.default.to_word()),
        }
    }

    fn value(word: u64, number: usize) -> V {
        S::value(word, number)
    }
}
