//! What a tool can have inserted, and where.

mod vector_elements;

use unspool_code_cache::gates::MOST_ARGUMENTS;
use unspool_instructions::operands::MemoryOperand;

pub(crate) use self::vector_elements::{Accessed, VectorElements};
use super::kept::Kept;
use super::{BufferId, Counter, SamplerId, ShadowCheck, ThreadWord};

/// When an action happens with respect to its instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InsertionPoint {
    /// Before it is executed.
    Before,
    /// After it, where control goes on at the next instruction.
    After,
    /// After it, where control goes to its target.
    Taken,
}

/// How many of them are passed in registers. The others are in the thread's slots (see
/// [`argument_word`](super::argument_word)).
pub const REGISTER_ARGUMENTS: usize = 4;

/// A function of a tool, called with the tool's address, what it keeps for the thread, and the
/// first arguments. It runs on the engine's stack of the thread, must return, and must not use
/// x87 or MMX registers. What it returns is 0 or 1 if it is a test.
pub type AnalysisFunction = extern "C" fn(*const (), *mut (), u64, u64, u64, u64) -> u64;

/// An argument of a call, evaluated at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Argument {
    /// A constant.
    Constant(u64),
    /// A general register, by its number (rax 0, rcx 1, rdx 2, rbx 3, rsp 4, …, r15 15).
    Register(u8),
    /// The address that an operand in memory names, without what its shape may add to it.
    Address(MemoryOperand),
    /// 1 if the conditional jump before which the place is will be taken, else 0.
    Taken,
    /// 1 if a condition of the status flags holds, by its number in opcodes, else 0.
    Condition(u8),
    /// A general register that the function may change: its value is in the argument's slot, and
    /// what is there when the function returns is the program's from then on.
    Changeable(u8),
    /// The low 64 bits of a vector register, in the argument's slot.
    Vector(u8),
    /// The whole state, which the function may change (see [`Context`](super::Context)); this word
    /// is in the argument's slot.
    Context(u64),
    /// Where the branch before which the place is goes, in the argument's slot.
    Target,
    /// The low 64 bits of a vector register, as any other word.
    LowHalf(u8),
    /// The thread's number, for entries. (Functions ask for it themselves: to calls it is 0.)
    ThreadNumber,
    /// The processor's time-stamp counter, likewise.
    TimeStamp,
    /// The value of an operand of the instruction, by its number among
    /// [`memory_operands`](super::Instruction::memory_operands): what it will read, at
    /// [`InsertionPoint::Before`], or what it has written, at the others. Up to eight bytes, the rest
    /// zeros.
    MemoryValue(u8),
    /// The status flags and the direction flag, where they are in RFLAGS, beside others that are
    /// there. The tool must say that it [`keeps_flags`](super::Instrumentation::keeps_flags).
    Flags,
    /// The word on top of the stack; 0 if it is not there.
    StackTop,
    /// The low bytes of a vector register: 16, 32 or 64 of them, zeros where the processor has none. Of a
    /// call they are in the thread's slots (see [`wide_argument`](super::wide_argument)); in an entry
    /// they are the field.
    WideVector {
        /// Its number, 0 to 31.
        register: u8,
        /// How many bytes.
        bytes: u8,
    },
    /// A mask register, by its number; 0 if the processor has none.
    Mask(u8),
    /// MXCSR.
    VectorControl,
    /// The base of the program's segment FS.
    FsBase,
    /// The address of an access: see [`Action::AppendEach`].
    ElementAddress,
    /// Its bytes, likewise.
    ElementSize,
    /// At a hook of a function: a word that is so many bytes from the end of the thread's list of
    /// calls of hooked functions.
    Activation(i32),
}

/// What is done instead of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replacement {
    /// Nothing: the next instruction follows.
    Nothing,
    /// The program goes on at an address.
    Jump(u64),
}

impl Argument {
    /// Whether it is 0 or 1.
    #[must_use]
    pub fn is_truth(&self) -> bool {
        matches!(self, Argument::Constant(0 | 1) | Argument::Taken)
    }
}

/// What is to be done at a place.
#[derive(Debug, Clone)]
pub enum Action {
    /// Adds to a counter of the thread. At [`InsertionPoint::Before`] it counts only if the
    /// instruction completes: one that faults is not counted, and a repeated string
    /// instruction counts once.
    Count {
        /// The counter.
        counter: Counter,
        /// What to add.
        amount: u32,
    },
    /// Calls a function.
    Call(AnalysisCall),
    /// Leaves the instruction out, or goes on elsewhere instead of executing it. What is to be
    /// done before it is done; what is counted before it counts as if it completed.
    Replace(Replacement),
    /// Calls a function if another one, which returns 0 or 1, says so. Its arguments are as that
    /// leaves what they are made of.
    CallIf {
        /// The one that decides.
        test: AnalysisCall,
        /// The one that is called then.
        then: AnalysisCall,
    },
    /// Calls a function each time a countdown of the thread ends.
    /// [`restart_countdown`](super::restart_countdown) is to be called then.
    Sampled {
        /// The countdown.
        sampler: SamplerId,
        /// The call.
        call: AnalysisCall,
    },
    /// Calls a function if the thread has counted at least so much as its word says. Only where a
    /// superblock is reached ([`Superblock::when_reached`](crate::Superblock::when_reached)): there
    /// nothing is added in advance.
    Reaches {
        /// What is counted: one that is [apart](Counter::apart).
        counter: Counter,
        /// The word.
        word: ThreadWord,
        /// The call.
        call: AnalysisCall,
    },
    /// Tests and stores words of shadow memory.
    Shadow {
        /// Which, and what is done with them.
        check: ShadowCheck,
        /// What is called where a test fails, or where the operand is not aligned, so that it may
        /// touch more words than are tested: a call, or one that another one decides.
        otherwise: Option<Box<Action>>,
    },
    /// Appends an entry to a buffer of the thread. At [`InsertionPoint::Before`] it is appended only if
    /// the instruction completes, as for [`Action::Count`].
    Append {
        /// The buffer.
        buffer: BufferId,
        /// Bytes of the entry, as the buffer's.
        size: u16,
        /// What is stored where. The values are those at the place, and words that are not in an
        /// argument's slot.
        fields: Vec<Field>,
    },
    /// Appends an entry to a buffer of the thread if a function, which returns 0 or 1, says so, at
    /// once: whether the instruction completes or not.
    AppendIf {
        /// The one that decides.
        test: AnalysisCall,
        /// The entry.
        entry: &'static ConditionalEntry,
        /// The words of its fields that are found out at the place.
        words: Vec<Argument>,
    },
    /// Appends an entry to a buffer of the thread for each access that the instruction makes. It
    /// is to be done both before the instruction and after it, and is if it completes; of a
    /// repeated string instruction that is left in its middle the rounds that it has done count.
    AppendEach(&'static EachAccess),
}

impl Action {
    /// The calls of functions that it may make.
    pub(crate) fn functions(&self) -> impl Iterator<Item = &AnalysisCall> {
        let calls = match self {
            Action::Shadow { otherwise, .. } => match otherwise.as_deref() {
                Some(action) => action.own_functions(),
                None => [None, None],
            },
            action => action.own_functions(),
        };
        calls.into_iter().flatten()
    }

    /// The same, but for those of the action that is done where a look at shadow memory fails.
    fn own_functions(&self) -> [Option<&AnalysisCall>; 2] {
        match self {
            Action::Call(call) | Action::Sampled { call, .. } | Action::Reaches { call, .. } => {
                [Some(call), None]
            }
            Action::CallIf { test, then } => [Some(test), Some(then)],
            Action::AppendIf { test, .. } => [Some(test), None],
            Action::Count { .. }
            | Action::Replace(_)
            | Action::Shadow { .. }
            | Action::Append { .. }
            | Action::AppendEach(_) => [None, None],
        }
    }

    /// Whether a function may be called.
    pub(crate) fn calls(&self) -> bool {
        match self {
            // Elements of vectors are appended in place.
            Action::AppendEach(each) => VectorElements::of(each).is_none(),
            _ => self.functions().next().is_some(),
        }
    }

    /// The words that are found out for it.
    pub(crate) fn words(&self) -> impl Iterator<Item = &Argument> {
        let (fields, conditional): (&[Field], &[Argument]) = match self {
            Action::Append { fields, .. } => (fields, &[]),
            Action::AppendIf { words, .. } => (&[], words),
            _ => (&[], &[]),
        };
        let called = self.functions().flat_map(|call| &call.arguments);
        let fields = fields.iter().map(|field| &field.value);
        called.chain(fields).chain(conditional)
    }

    /// Whether flags are found out for it.
    #[must_use]
    pub fn wants_flags(&self) -> bool {
        self.words().any(|word| *word == Argument::Flags)
    }

    /// The operands whose values are found out for it: a bit for each number.
    pub(crate) fn memory_values(&self) -> u8 {
        self.words().fold(0, |mask, word| match word {
            Argument::MemoryValue(number) => mask | 1 << number,
            _ => mask,
        })
    }

    /// Whether a call may have the program go on elsewhere.
    pub(crate) fn has_context(&self) -> bool {
        self.functions().any(AnalysisCall::has_context)
    }

    /// Which registers of the program calls may change; all, if the flags too.
    pub(crate) fn changes(&self) -> u16 {
        self.functions().fold(0, |mask, call| mask | call.changes())
    }
}

/// A part of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Field {
    /// Its value: the lowest bytes of it are stored.
    pub value: Argument,
    /// Where it lies in the entry.
    pub offset: u16,
    /// Its bytes: 1, 2, 4 or 8; those of a [`WideVector`](Argument::WideVector).
    pub size: u8,
}

/// A call of a function.
#[derive(Debug, Clone)]
pub struct AnalysisCall {
    /// The function.
    pub function: AnalysisFunction,
    /// Its arguments, at most [`MOST_ARGUMENTS`].
    pub arguments: Vec<Argument>,
}

impl AnalysisCall {
    /// Whether the function may have the program go on elsewhere.
    fn has_context(&self) -> bool {
        let is_context = |argument: &Argument| matches!(argument, Argument::Context(_));
        self.arguments.iter().any(is_context)
    }

    /// Which registers of the program it may change; all, if the flags too.
    fn changes(&self) -> u16 {
        let changed = |argument: &Argument| match argument {
            Argument::Changeable(register) => 1 << register,
            Argument::Context(_) => u16::MAX,
            _ => 0,
        };
        self.arguments
            .iter()
            .map(changed)
            .fold(0, |all, mask| all | mask)
    }
}

/// What is appended for each access of an instruction.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EachAccess {
    /// The buffer.
    pub buffer: BufferId,
    /// Bytes of an entry, as the buffer's.
    pub size: u16,
    /// The instruction's operands, and what the entry of an access through each is made of:
    /// constants, general registers as they are before the instruction, and what there is to know
    /// of the access.
    pub operands: Vec<(MemoryOperand, Vec<Field>)>,
}

impl EachAccess {
    /// Keeps it for as long as code may run that refers to it.
    #[must_use]
    pub fn kept(self) -> &'static EachAccess {
        static KEPT: Kept<EachAccess> = Kept::new();
        KEPT.keep(self)
    }
}

/// The most words that are found out at the place: what a call can have, without the two that it is
/// given for itself.
pub const MOST_CONDITIONAL_WORDS: usize = MOST_ARGUMENTS - 2;

/// How an entry is made up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ConditionalEntry {
    buffer: BufferId,
    pub(crate) size: u16,
    /// Where each field is, and what it has.
    pub(crate) fields: Vec<(u16, u8, Content)>,
}

/// What a field has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Content {
    /// The next of the words that are found out at the place.
    Word,
    Constant(u64),
    ThreadNumber,
    TimeStamp,
}

impl ConditionalEntry {
    /// An entry of these fields for a buffer whose entries have so many bytes. Returns the words with
    /// it that are found out at the place.
    ///
    /// # Panics
    /// If there are more than [`MOST_CONDITIONAL_WORDS`], or one is a whole vector register.
    #[must_use]
    pub fn new(
        buffer: BufferId,
        size: u16,
        fields: &[Field],
    ) -> (&'static ConditionalEntry, Vec<Argument>) {
        static KEPT: Kept<ConditionalEntry> = Kept::new();
        let mut words = Vec::new();
        let fields = fields.iter().map(|field| {
            let content = match field.value {
                Argument::Constant(value) => Content::Constant(value),
                Argument::ThreadNumber => Content::ThreadNumber,
                Argument::TimeStamp => Content::TimeStamp,
                Argument::WideVector { .. } => panic!(
                    "a whole vector register cannot be a field of an entry that is appended on a condition"
                ),
                value => {
                    words.push(value);
                    Content::Word
                }
            };
            (field.offset, field.size, content)
        });
        let fields = fields.collect();
        assert!(
            words.len() <= MOST_CONDITIONAL_WORDS,
            "an entry that is appended on a condition has {MOST_CONDITIONAL_WORDS} words at most that are not constant"
        );
        let entry = ConditionalEntry {
            buffer,
            size,
            fields,
        };
        (KEPT.keep(entry), words)
    }

    /// The buffer.
    pub(crate) fn buffer(&self) -> BufferId {
        self.buffer
    }
}
