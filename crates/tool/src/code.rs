//! Code that is about to be translated, as a tool sees it.

use std::marker::PhantomData;
use std::ops::{Deref, Range};

use unspool_instructions::operands::MemoryOperand;
use unspool_instrument::{
    self as instrument, Action, AnalysisCall, ConditionalEntry, Counter, InsertionPoint,
    Replacement, Shadow,
};

use crate::argument::{Address, Analysis, Arguments, Constant};
use crate::buffer::{Buffer, Entry};
use crate::sampler::Sampler;
use crate::source::EffectiveAddress;
use crate::system_call::SystemCallPoint;
use crate::tool::Tool;

/// A piece of code with one entry that is translated as a whole: instructions in the order
/// in which they are executed, unless a conditional branch leaves it on the way.
///
/// It goes on behind jumps and calls to known places, may repeat a loop's body, and ends at
/// indirect branches, returns and system calls, or where it is long enough. Code that can be reached in several
/// ways may be part of several traces.
#[derive(Clone, Copy)]
pub struct Superblock<'a, T> {
    inner: &'a instrument::Superblock<'a>,
    tool: PhantomData<fn(&T)>,
}

/// A basic block of a superblock: instructions that are executed one after the other, unless one
/// of them faults. It ends at a branch, or with the superblock.
#[derive(Clone, Copy)]
pub struct Block<'a, T> {
    inner: instrument::Block<'a>,
    tool: PhantomData<fn(&T)>,
}

/// One instruction. What there is to know of it, [`instrument::Instruction`] tells.
#[derive(Clone, Copy)]
pub struct Instruction<'a, T> {
    inner: instrument::Instruction<'a>,
    tool: PhantomData<fn(&T)>,
}

/// Instructions, in the order in which they are executed.
pub struct Instructions<'a, T> {
    inner: Box<dyn ExactSizeIterator<Item = instrument::Instruction<'a>> + 'a>,
    tool: PhantomData<fn(&T)>,
}

/// A place at an instruction where something can be inserted. What is inserted at the same
/// place is done in the order in which it was inserted.
#[derive(Clone, Copy)]
pub struct Point<'a, T> {
    instruction: instrument::Instruction<'a>,
    place: InsertionPoint,
    tool: PhantomData<fn(&T)>,
}

impl<'a, T> Superblock<'a, T> {
    pub(crate) fn new(inner: &'a instrument::Superblock<'a>) -> Superblock<'a, T> {
        Superblock {
            inner,
            tool: PhantomData,
        }
    }

    /// The address of its first instruction.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.inner.address()
    }

    /// Its basic blocks, at least one.
    pub fn blocks(&self) -> impl Iterator<Item = Block<'a, T>> + use<'a, T> {
        self.inner.blocks().map(|inner| Block {
            inner,
            tool: PhantomData,
        })
    }

    /// Its instructions, at least one.
    #[must_use]
    pub fn instructions(&self) -> Instructions<'a, T> {
        Instructions::new(self.inner.instructions())
    }
}

impl<'a, T> Block<'a, T> {
    /// The address of its first instruction.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.inner.address()
    }

    /// Bytes of its instructions.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.inner.size()
    }

    /// Its instructions, at least one.
    #[must_use]
    pub fn instructions(&self) -> Instructions<'a, T> {
        Instructions::new(self.inner.instructions())
    }

    /// Its first instruction.
    #[must_use]
    pub fn first(&self) -> Instruction<'a, T> {
        Instruction::new(self.inner.first())
    }

    /// Its last instruction: the branch, if it ends at one.
    #[must_use]
    pub fn last(&self) -> Instruction<'a, T> {
        Instruction::new(self.inner.last())
    }

    /// The place before its first instruction.
    #[must_use]
    pub fn before(&self) -> Point<'a, T> {
        self.first().before()
    }
}

impl<'a, T> Instructions<'a, T> {
    fn new(
        inner: impl ExactSizeIterator<Item = instrument::Instruction<'a>> + 'a,
    ) -> Instructions<'a, T> {
        Instructions {
            inner: Box::new(inner),
            tool: PhantomData,
        }
    }
}

impl<'a, T> Iterator for Instructions<'a, T> {
    type Item = Instruction<'a, T>;

    fn next(&mut self) -> Option<Instruction<'a, T>> {
        self.inner.next().map(Instruction::new)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.inner.size_hint()
    }
}

impl<T> ExactSizeIterator for Instructions<'_, T> {}

impl<'a, T> Deref for Instruction<'a, T> {
    type Target = instrument::Instruction<'a>;

    fn deref(&self) -> &instrument::Instruction<'a> {
        &self.inner
    }
}

impl<'a, T> Instruction<'a, T> {
    fn new(inner: instrument::Instruction<'a>) -> Instruction<'a, T> {
        Instruction {
            inner,
            tool: PhantomData,
        }
    }

    fn point(&self, place: InsertionPoint) -> Option<Point<'a, T>> {
        self.inner.has(place).then_some(Point {
            instruction: self.inner,
            place,
            tool: PhantomData,
        })
    }

    /// The place before it.
    #[must_use]
    pub fn before(&self) -> Point<'a, T> {
        Point {
            instruction: self.inner,
            place: InsertionPoint::Before,
            tool: PhantomData,
        }
    }

    /// The place after it on the way to the next instruction; `None` if it never goes there by
    /// itself, as calls, jumps, returns and system calls do not. (See
    /// [`after_system_call`](Instruction::after_system_call).)
    #[must_use]
    pub fn after(&self) -> Option<Point<'a, T>> {
        self.point(InsertionPoint::After)
    }

    /// The place after it on the way to its target; `None` if it is not a branch.
    #[must_use]
    pub fn taken(&self) -> Option<Point<'a, T>> {
        self.point(InsertionPoint::Taken)
    }
}

impl<'a, T> Instruction<'a, T> {
    /// The place behind the system call that it makes, when that is over; `None` if it makes none.
    /// What is called there comes when [`Tool::system_call_exit`] does, and behind it: not if the
    /// call does not return, and once if it is interrupted and made again.
    #[must_use]
    pub fn after_system_call(&self) -> Option<SystemCallPoint<'a, T>> {
        let makes_one = self.inner.is_system_call();
        makes_one.then(|| SystemCallPoint::new(self.inner))
    }
}

impl<T: Tool> Instruction<'_, T> {
    /// Has it left out: the program goes on at the next instruction. What is inserted before it is
    /// done, and counts as if it had completed; what is inserted after it is left out too. With a
    /// call before it, which may change registers by reference, it is replaced by that.
    ///
    /// Only for tools that say [`Tool::LEAVES_OUT`].
    ///
    /// ```
    /// use unspool_tool::{ByReference, Register, RegisterMut, Superblock, Tool, iced_x86};
    ///
    /// /// Programs that ask for the time-stamp counter get a clock that ticks once each time.
    /// struct OwnClock;
    ///
    /// impl OwnClock {
    ///     fn tick(&self, clock: &mut u64, mut low: RegisterMut, mut high: RegisterMut) {
    ///         *clock += 1;
    ///         (*low, *high) = (*clock & 0xffff_ffff, *clock >> 32);
    ///     }
    /// }
    ///
    /// impl Tool for OwnClock {
    ///     type Thread = u64;
    ///     const LEAVES_OUT: bool = true;
    ///     fn instrument(&self, superblock: &Superblock<Self>) {
    ///         let instructions = superblock.instructions();
    ///         for instruction in instructions.filter(|it| it.decoded().mnemonic() == iced_x86::Mnemonic::Rdtsc) {
    ///             let result = (ByReference(Register::Rax), ByReference(Register::Rdx));
    ///             instruction.before().call(OwnClock::tick, result);
    ///             instruction.delete();
    ///         }
    ///     }
    /// }
    /// ```
    pub fn delete(&self) {
        self.replace(Replacement::Nothing);
    }

    /// Has it left out, and the program goes on at another address. As for
    /// [`delete`](Instruction::delete).
    ///
    /// (Where to depends on what is found out at run time, a function with a
    /// [`FullContext`](crate::FullContext) can change the instruction pointer.)
    pub fn redirect(&self, to: u64) {
        self.replace(Replacement::Jump(to));
    }

    fn replace(&self, replacement: Replacement) {
        assert!(
            T::LEAVES_OUT,
            "a tool that has instructions left out must say so: Tool::LEAVES_OUT"
        );
        self.inner
            .insert(InsertionPoint::Before, Action::Replace(replacement));
    }
}

impl<T: Tool> Point<'_, T> {
    /// Calls a function each time control passes here, with the tool, what the tool keeps for the
    /// thread, and the values of the arguments. The types must fit when the tool is compiled:
    ///
    /// ```
    /// use unspool_tool::{Address, InstructionPointer, Register, Superblock, Tool};
    ///
    /// struct Calls;
    ///
    /// impl Calls {
    ///     fn passed(&self, count: &mut u64, at: Address, rdi: u64) {
    ///         *count += 1;
    ///     }
    /// }
    ///
    /// impl Tool for Calls {
    ///     type Thread = u64;
    ///     fn instrument(&self, superblock: &Superblock<Self>) {
    ///         let arguments = (InstructionPointer, Register::Rdi);
    ///         superblock.instructions().for_each(|it| it.before().call(Calls::passed, arguments));
    ///     }
    /// }
    /// ```
    ///
    /// In the other order they do not:
    ///
    /// ```compile_fail,E0631
    /// # use unspool_tool::{Address, InstructionPointer, Register, Superblock, Tool};
    /// # struct Calls;
    /// # impl Calls {
    /// #     fn passed(&self, count: &mut u64, at: Address, rdi: u64) {
    /// #         *count += 1;
    /// #     }
    /// # }
    /// # impl Tool for Calls {
    /// #     type Thread = u64;
    /// #     fn instrument(&self, superblock: &Superblock<Self>) {
    ///         let arguments = (Register::Rdi, InstructionPointer);
    /// #         superblock.instructions().for_each(|it| it.before().call(Calls::passed, arguments));
    /// #     }
    /// # }
    /// ```
    ///
    /// The function runs in the program's thread. Counters of the thread can be a few
    /// instructions ahead or behind meanwhile. It must not use x87 or MMX registers, which
    /// compiled Rust never does.
    pub fn call<F, A>(&self, function: F, arguments: A)
    where
        A: Arguments,
        F: Analysis<T, T::Thread, A::Values>,
    {
        let action = Action::Call(AnalysisCall {
            function: crate::call::entry::<T, F, A, ()>(function),
            arguments: arguments.sources(self.instruction),
        });
        self.instruction.insert(self.place, action);
    }

    /// Calls a function each time control passes here and a test says so. The test should be
    /// short: one of a few instructions that calls nothing stands in the program's code itself.
    ///
    /// ```
    /// use unspool_tool::{Address, InstructionPointer, Register, Superblock, Tool};
    ///
    /// struct Large;
    ///
    /// impl Large {
    ///     fn is_large(&self, _: &mut u64, size: u64) -> bool {
    ///         size > 1 << 20
    ///     }
    ///
    ///     fn tell(&self, count: &mut u64, at: Address) {
    ///         *count += 1;
    ///     }
    /// }
    ///
    /// impl Tool for Large {
    ///     type Thread = u64;
    ///     fn instrument(&self, superblock: &Superblock<Self>) {
    ///         for instruction in superblock.instructions() {
    ///             instruction.before().call_if(
    ///                 Large::is_large, (Register::Rdi,), Large::tell, (InstructionPointer,));
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// A test that does not return `bool` does not compile:
    ///
    /// ```compile_fail,E0271
    /// # use unspool_tool::{Address, InstructionPointer, Register, Superblock, Tool};
    /// # struct Large;
    /// # impl Large {
    /// #     fn is_large(&self, _: &mut u64, size: u64) -> u64 {
    /// #         size >> 20
    /// #     }
    /// #     fn tell(&self, count: &mut u64, at: Address) {
    /// #         *count += 1;
    /// #     }
    /// # }
    /// # impl Tool for Large {
    /// #     type Thread = u64;
    /// #     fn instrument(&self, superblock: &Superblock<Self>) {
    /// #         for instruction in superblock.instructions() {
    /// instruction.before().call_if(
    ///     Large::is_large, (Register::Rdi,), Large::tell, (InstructionPointer,));
    /// #         }
    /// #     }
    /// # }
    /// ```
    pub fn call_if<P, B, F, A>(&self, test: P, test_arguments: B, function: F, arguments: A)
    where
        B: Arguments,
        P: Analysis<T, T::Thread, B::Values, bool>,
        A: Arguments,
        F: Analysis<T, T::Thread, A::Values>,
    {
        let action = Action::CallIf {
            test: AnalysisCall {
                function: crate::call::entry::<T, P, B, bool>(test),
                arguments: test_arguments.sources(self.instruction),
            },
            then: AnalysisCall {
                function: crate::call::entry::<T, F, A, ()>(function),
                arguments: arguments.sources(self.instruction),
            },
        };
        self.instruction.insert(self.place, action);
    }

    /// Calls a function each time control passes here and an operand of so many bytes is at least
    /// in part in a range of addresses.
    pub fn call_if_within<F, A>(
        &self,
        (address, size): (EffectiveAddress, u64),
        range: Range<u64>,
        function: F,
        arguments: A,
    ) where
        A: Arguments,
        F: Analysis<T, T::Thread, A::Values>,
    {
        let overlaps = |_: &T, _: &mut T::Thread, at: Address, start: u64, length: u64| {
            at.0.wrapping_sub(start) < length
        };
        let before = size.saturating_sub(1);
        let start = range.start.wrapping_sub(before);
        let length = range.end.saturating_sub(range.start);
        let length = if length == 0 { 0 } else { length + before };
        let operand = (address, Constant(start), Constant(length));
        self.call_if(overlaps, operand, function, arguments);
    }

    /// Calls a function as [`Point::call`] does, but only each n-th time that control passes here
    /// or at another place of the same sampler, in the same thread. The countdown is inlined.
    pub fn call_sampled<F, A>(&self, sampler: Sampler, function: F, arguments: A)
    where
        A: Arguments,
        F: Analysis<T, T::Thread, A::Values>,
    {
        let action = Action::Sampled {
            sampler: sampler.id(),
            call: AnalysisCall {
                function: crate::call::sampled_entry::<T, F, A>(function),
                arguments: arguments.sources(self.instruction),
            },
        };
        self.instruction.insert(self.place, action);
    }

    /// Calls a function as [`Point::call`] does, but only where the shadow of a piece of memory
    /// that the operand touches is something else than `expected`. The test is inlined.
    ///
    /// `false`, and nothing is inserted, for operands without an
    /// [`effective_address`](crate::effective_address), and for those of more than sixteen
    /// pieces, as the areas of `xsave` are: have a function called there that looks itself. Of a repeated string instruction the
    /// first element counts, of a masked operand all elements.
    ///
    /// ```
    /// use unspool_tool::{Address, InstructionPointer, Shadow, Superblock, Tool};
    ///
    /// /// Tells who touches memory that was marked by `shadow.set(start, length, 1)`.
    /// struct Touches {
    ///     shadow: Shadow,
    /// }
    ///
    /// impl Touches {
    ///     fn touched(&self, by: &mut Vec<Address>, at: Address) {
    ///         by.push(at);
    ///     }
    /// }
    ///
    /// impl Tool for Touches {
    ///     type Thread = Vec<Address>;
    ///     fn instrument(&self, superblock: &Superblock<Self>) {
    ///         for instruction in superblock.instructions() {
    ///             for operand in instruction.memory_operands() {
    ///                 let (before, unmarked) = (instruction.before(), (self.shadow, 0));
    ///                 let arguments = (InstructionPointer,);
    ///                 before.call_where_shadow_differs(unmarked, operand, Touches::touched, arguments);
    ///             }
    ///         }
    ///     }
    /// }
    /// ```
    pub fn call_where_shadow_differs<F, A>(
        &self,
        (shadow, expected): (Shadow, u8),
        operand: &MemoryOperand,
        function: F,
        arguments: A,
    ) -> bool
    where
        A: Arguments,
        F: Analysis<T, T::Thread, A::Values>,
    {
        const MOST_GRANULES: u64 = 16;
        let is_large = u64::from(operand.size) > MOST_GRANULES * shadow.granule();
        if is_large || crate::effective_address(operand).is_none() {
            return false;
        }
        let action = Action::Watched {
            shadow,
            expected,
            operand: *operand,
            call: AnalysisCall {
                function: crate::call::entry::<T, F, A, ()>(function),
                arguments: arguments.sources(self.instruction),
            },
        };
        self.instruction.insert(self.place, action);
        true
    }

    /// Appends an entry to a buffer of the thread each time control passes here, with the values
    /// of the arguments as its fields. The types must fit when the tool is compiled:
    ///
    /// ```
    /// # use unspool_tool::{Address, Buffer, Constant, InstructionPointer, Superblock, Tool};
    /// # struct Log { log: Buffer<Log, (Address, u32)> }
    /// # impl Tool for Log {
    /// #     type Thread = ();
    /// #     fn instrument(&self, superblock: &Superblock<Self>) {
    /// #         for instruction in superblock.instructions() {
    /// instruction.before().append(self.log, (InstructionPointer, Constant(1_u32)));
    /// #         }
    /// #     }
    /// # }
    /// ```
    ///
    /// ```compile_fail,E0271
    /// # use unspool_tool::{Address, Buffer, Constant, InstructionPointer, Superblock, Tool};
    /// # struct Log { log: Buffer<Log, (Address, u32)> }
    /// # impl Tool for Log {
    /// #     type Thread = ();
    /// #     fn instrument(&self, superblock: &Superblock<Self>) {
    /// #         for instruction in superblock.instructions() {
    /// instruction.before().append(self.log, (InstructionPointer, Constant(1_u64)));
    /// #         }
    /// #     }
    /// # }
    /// ```
    ///
    /// No call is made until the buffer is full. Before an instruction, an entry is appended only
    /// if the instruction completes, as for [`Point::count`]: one that faults leaves none, and if
    /// it is begun again then, its entry has the values of that time. So a repeated
    /// string instruction leaves one entry; if a fault has interrupted it, with the values
    /// with which it was resumed.
    ///
    /// # Panics
    /// If a field is a `bool` and its source is not known to be one: a source of one's own
    /// must be [`Constant`] or [`BranchTaken`](crate::BranchTaken).
    pub fn append<E, A>(&self, buffer: Buffer<T, E>, arguments: A)
    where
        E: Entry,
        A: Arguments<Values = E::Fields>,
    {
        const {
            assert!(
                A::ARE_WORDS,
                "one of these arguments is found out by a function, which is not called here"
            );
        }
        let fields = crate::buffer::fields::<E>(arguments.sources(self.instruction));
        let action = buffer.append(fields);
        self.instruction.insert(self.place, action);
    }

    /// Appends an entry as [`Point::append`] does, but only if a test says so: the filter of a
    /// simulation, for instance. A short test stands in the program's code itself (see
    /// [`Point::call_if`]); the entry is made by a call then.
    ///
    /// The entry is there at once, behind those that were appended before, also if the instruction
    /// faults. Up to eight of its fields may be something else than constants, the thread's number
    /// and the time.
    ///
    /// ```
    /// use unspool_tool::{Address, Buffer, Superblock, TimeStamp, Tool, effective_address};
    ///
    /// /// Where each thread leaves a page, and when.
    /// struct Pages {
    ///     left: Buffer<Pages, (Address, u64)>,
    /// }
    ///
    /// impl Pages {
    ///     fn is_new(&self, last: &mut u64, address: Address) -> bool {
    ///         std::mem::replace(last, address.0 >> 12) != address.0 >> 12
    ///     }
    /// }
    ///
    /// impl Tool for Pages {
    ///     type Thread = u64;
    ///     fn instrument(&self, superblock: &Superblock<Self>) {
    ///         for instruction in superblock.instructions() {
    ///             for address in instruction.memory_operands().iter().filter_map(effective_address) {
    ///                 let entry = (address, TimeStamp);
    ///                 instruction.before().append_if(Pages::is_new, (address,), self.left, entry);
    ///             }
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// # Panics
    /// As [`Point::append`], and if more than eight fields are no constants.
    pub fn append_if<P, B, E, A>(
        &self,
        test: P,
        test_arguments: B,
        buffer: Buffer<T, E>,
        arguments: A,
    ) where
        B: Arguments,
        P: Analysis<T, T::Thread, B::Values, bool>,
        E: Entry,
        A: Arguments<Values = E::Fields>,
    {
        const {
            assert!(
                A::ARE_WORDS,
                "one of these arguments is found out by a function, which is not called here"
            );
        }
        let fields = crate::buffer::fields::<E>(arguments.sources(self.instruction));
        let size = size_of::<E>() as u16;
        let (entry, words) = ConditionalEntry::new(buffer.id(), size, &fields);
        let action = Action::AppendIf {
            test: AnalysisCall {
                function: crate::call::entry::<T, P, B, bool>(test),
                arguments: test_arguments.sources(self.instruction),
            },
            entry,
            words,
        };
        self.instruction.insert(self.place, action);
    }

    /// Adds to a counter, each time control passes here. Before an instruction, it counts the
    /// times that the instruction completes: not those when it faults, and a repeated string
    /// instruction once.
    pub fn count(&self, counter: Counter, amount: u32) {
        self.instruction
            .insert(self.place, Action::Count { counter, amount });
    }
}
