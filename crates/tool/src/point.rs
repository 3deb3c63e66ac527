//! Places at instructions, and what can be inserted there.

use std::marker::PhantomData;
use std::ops::Range;

use unspool_instructions::operands::MemoryOperand;
use unspool_instrument::{
    self as instrument, Action, AnalysisCall, ConditionalEntry, Counter, InsertionPoint,
};

use crate::argument::{Address, Analysis, Arguments, Constant};
use crate::buffer::{Buffer, Entry};
use crate::sampler::Sampler;
use crate::source::EffectiveAddress;
use crate::tool::Tool;

/// A place at an instruction where something can be inserted. What is inserted at the same
/// place is done in the order in which it was inserted.
#[derive(Clone, Copy)]
pub struct Point<'a, T> {
    instruction: instrument::Instruction<'a>,
    place: InsertionPoint,
    tool: PhantomData<fn(&T)>,
}

impl<'a, T> Point<'a, T> {
    pub(crate) fn new(
        instruction: instrument::Instruction<'a>,
        place: InsertionPoint,
    ) -> Point<'a, T> {
        Point {
            instruction,
            place,
            tool: PhantomData,
        }
    }
}

impl<T: Tool> Point<'_, T> {
    /// Has something done here.
    pub(crate) fn insert(&self, action: Action) {
        self.check_flags(&action);
        self.instruction.insert(self.place, action);
    }

    /// Has an operand of the instruction be where a call says.
    pub(crate) fn rewrite(&self, operand: &MemoryOperand, call: AnalysisCall) {
        self.check_flags(&Action::Call(call.clone()));
        self.instruction.rewrite_operand(operand, call);
    }

    fn check_flags(&self, action: &Action) {
        assert!(
            T::KEEPS_FLAGS || !action.wants_flags(),
            "a tool that looks at flags must say so: Tool::KEEPS_FLAGS"
        );
    }

    /// The call of a function with arguments that are found out here.
    pub(crate) fn analysis<F, A>(&self, function: F, arguments: &A) -> AnalysisCall
    where
        A: Arguments,
        F: Analysis<T, T::Thread, A::Values>,
    {
        AnalysisCall {
            function: crate::call::entry::<T, F, A, ()>(function),
            arguments: arguments.sources(self.instruction),
        }
    }

    /// The same of one that says where an operand in memory is.
    pub(crate) fn rewriting<F, A>(&self, function: F, arguments: &A) -> AnalysisCall
    where
        A: Arguments,
        F: Analysis<T, T::Thread, A::Values, Address>,
    {
        AnalysisCall {
            function: crate::call::rewriting_entry::<T, F, A>(function),
            arguments: arguments.sources(self.instruction),
        }
    }

    /// The same of one that decides.
    pub(crate) fn test<F, A>(&self, function: F, arguments: &A) -> AnalysisCall
    where
        A: Arguments,
        F: Analysis<T, T::Thread, A::Values, bool>,
    {
        AnalysisCall {
            function: crate::call::entry::<T, F, A, bool>(function),
            arguments: arguments.sources(self.instruction),
        }
    }

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
        self.insert(Action::Call(self.analysis(function, &arguments)));
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
            test: self.test(test, &test_arguments),
            then: self.analysis(function, &arguments),
        };
        self.insert(action);
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
        self.insert(action);
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
    /// with which it was resumed. What functions that are called before the instruction append
    /// ([`Buffer::append`]) stands in front of it.
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
        let action = buffer.insertion(fields);
        self.insert(action);
    }

    /// Appends an entry as [`Point::append`] does, but only if a test says so: the filter of a
    /// simulation, for instance. A short test stands in the program's code itself (see
    /// [`Point::call_if`]), and so does then what stores the entry. Behind a test that is called the
    /// entry is made by a call, too.
    ///
    /// The entry is there at once, also if the instruction faults: behind what was appended at
    /// instructions before, and in front of what [`Point::append`] appends before the same one, which
    /// counts from when that has completed. Up to eight of its fields may be something else than constants, the thread's number
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
            test: self.test(test, &test_arguments),
            entry,
            words,
        };
        self.insert(action);
    }

    /// Adds to a counter, each time control passes here. Before an instruction, it counts the
    /// times that the instruction completes: not those when it faults, and a repeated string
    /// instruction once.
    pub fn count(&self, counter: Counter, amount: u32) {
        self.insert(Action::Count { counter, amount });
    }
}
