//! All accesses of an instruction, of whatever shape: strings, masks, gathers.

use unspool_events::AccessKind;
use unspool_instructions::operands::{MemoryOperand, Shape};
use unspool_instrument::InsertionPoint;
use unspool_instrument::{self as instrument, Action, Context, EachAccess, Elements, Field};

use crate::argument::{Address, Argument, Arguments, Word, word_argument};
use crate::buffer::{Buffer, Entry};
use crate::code::Instruction;
use crate::moment::{AtAccess, word_in_memory};
use crate::source::{InstructionPointer, Register};
use crate::tool::Tool;

/// The address of an access: see [`Instruction::append_accesses`].
#[derive(Debug, Clone, Copy)]
pub struct ElementAddress;

/// The bytes of an access: see [`Instruction::append_accesses`].
#[derive(Debug, Clone, Copy)]
pub struct ElementSize;

/// Whether an access is a write: see [`Instruction::append_accesses`].
#[derive(Debug, Clone, Copy)]
pub struct ElementIsWritten;

word_argument!(ElementAddress => Address, AtAccess, |_, (_, operand)| match operand.shape {
    Shape::Plain => instrument::Argument::Address(*operand),
    _ => instrument::Argument::ElementAddress,
});

word_argument!(ElementSize => u32, AtAccess, |_, (_, operand)| match operand.shape {
    Shape::Plain => instrument::Argument::Constant(operand.size.into()),
    _ => instrument::Argument::ElementSize,
});

word_argument!(ElementIsWritten => bool, AtAccess, |_, (_, operand)| {
    instrument::Argument::Constant((operand.kind == AccessKind::Write).into())
});

word_argument!(InstructionPointer => Address, AtAccess, |_, (instruction, _)| {
    instrument::Argument::Constant(instruction.address())
});

word_argument!(Register => u64, AtAccess, |this, _| this.word());

impl<T: Tool> Instruction<'_, T> {
    /// Appends an entry to a buffer of the thread for each access to memory that the instruction
    /// makes, of whatever kind it is: plain operands, elements of gathers and scatters, those that
    /// a mask lets through, rows of tiles, and each element of repeated string instructions, of
    /// which those count that were accessed before the instruction ended.
    ///
    /// The fields are those of one access: [`ElementAddress`], [`ElementSize`] in bytes,
    /// [`ElementIsWritten`], and beside them constants, the [`InstructionPointer`], and a
    /// [`Register`] as it is before the instruction. What is both read and written has two entries, the
    /// read first.
    ///
    /// ```
    /// use unspool_tool::{
    ///     Address, Buffer, ElementAddress, ElementIsWritten, ElementSize, Superblock, Tool, entry,
    /// };
    ///
    /// entry! {
    ///     struct Access {
    ///         address: Address,
    ///         size: u32,
    ///         is_write: bool,
    ///     }
    /// }
    ///
    /// struct BytesWritten {
    ///     accesses: Buffer<BytesWritten, Access>,
    /// }
    ///
    /// impl Tool for BytesWritten {
    ///     type Thread = u64;
    ///     fn instrument(&self, superblock: &Superblock<Self>) {
    ///         for instruction in superblock.instructions() {
    ///             let access = (ElementAddress, ElementSize, ElementIsWritten);
    ///             instruction.append_accesses(self.accesses, access);
    ///         }
    ///     }
    /// }
    ///
    /// let tool = BytesWritten {
    ///     accesses: Buffer::new(8192, |_, written, batch: &[Access]| {
    ///         let writes = batch.iter().filter(|access| access.is_write);
    ///         *written += writes.map(|access| u64::from(access.size)).sum::<u64>();
    ///     }),
    /// };
    /// ```
    ///
    /// Plain operands cost what [`Point::append`](crate::Point::append) does, and elements of gathers,
    /// of scatters, and of what else is accessed under a mask hardly more. Where an operand is of another
    /// shape (repeated strings, tiles), and where an entry has the time in it, functions are called
    /// before and after the instruction, which takes some hundred nanoseconds, and less than one for each
    /// entry.
    ///
    /// An instruction that faults leaves no entry, but a repeated string instruction one for each element
    /// that it has accessed until then. (Elements that a gather had read when it faulted, and
    /// which it does not read again, are left out.)
    ///
    /// # Panics
    /// As [`Point::append`](crate::Point::append).
    pub fn append_accesses<E, A>(&self, buffer: Buffer<T, E>, arguments: A)
    where
        E: Entry,
        A: Arguments<AtAccess, Values = E::Fields>,
    {
        const {
            assert!(
                A::ARE_WORDS,
                "one of these arguments is found out by a function"
            );
        }
        let operands = self.memory_operands();
        let fields = |operand| crate::buffer::fields::<E>(arguments.sources((**self, operand)));
        if operands.iter().all(|it| it.shape == Shape::Plain) {
            for operand in operands {
                let action = buffer.insertion(fields(operand));
                self.insert(InsertionPoint::Before, action);
            }
            return;
        }
        let operands = operands.iter().map(|operand| {
            // Where others are found out, so are these.
            let element = |field: Field| match field.value {
                instrument::Argument::Address(_) => Field {
                    value: instrument::Argument::ElementAddress,
                    ..field
                },
                _ => field,
            };
            (*operand, fields(operand).into_iter().map(element).collect())
        });
        let each = EachAccess {
            buffer: buffer.id(),
            size: size_of::<E>() as u16,
            operands: operands.collect(),
        };
        let each = each.kept();
        for place in [InsertionPoint::Before, InsertionPoint::After] {
            self.insert(place, Action::AppendEach(each));
        }
    }
}

/// The accesses that an instruction will make through an operand. See [`accesses`].
#[derive(Debug, Clone, Copy)]
pub struct AllAccesses(&'static MemoryOperand);

/// The accesses that an instruction will make through one of its
/// [`memory_operands`](instrument::Instruction::memory_operands), for calls before it: each
/// element of gathers and scatters, and of vectors those that masks let through. It costs as much
/// as a [`FullContext`](crate::FullContext); where [`effective_address`](crate::effective_address)
/// and [`access_size`](crate::access_size) say the same, they cost next to nothing. Where entries
/// will do, there is [`Instruction::append_accesses`].
#[must_use]
pub fn accesses(operand: &MemoryOperand) -> AllAccesses {
    AllAccesses(instrument::keep_operand(*operand))
}

impl Argument for AllAccesses {
    type Value = Accesses;
    const IS_WORD: bool = false;

    fn source(&self, _: instrument::Instruction<'_>) -> instrument::Argument {
        instrument::Argument::Context(std::ptr::from_ref(self.0) as u64)
    }

    fn value(_: u64, number: usize) -> Accesses {
        // SAFETY: inserted code has written the address of an operand there that is kept for good.
        let operand = unsafe { &*(word_in_memory(number) as *const MemoryOperand) };
        Accesses {
            operand,
            context: Context::current(),
        }
    }
}

/// Accesses that are about to be made.
#[derive(Debug)]
pub struct Accesses {
    operand: &'static MemoryOperand,
    context: Context,
}

impl Accesses {
    /// Address and size in bytes of each, in the order of the elements. Adjacent elements of a
    /// string are one.
    #[must_use]
    pub fn to_vec(&self) -> Vec<(Address, u64)> {
        let mut all = Vec::new();
        let elements = Elements::new(self.operand, &self.context);
        elements.each(|address, size| all.push((Address(address), size)));
        all
    }
}
