//! Code that is about to be translated, as a tool sees it.

use std::marker::PhantomData;
use std::ops::Deref;

use unspool_instructions::operands::MemoryOperand;
use unspool_instrument::{
    self as instrument, Action, InsertionPoint, Replacement, Switch, Version,
};

use crate::argument::{Address, Analysis, Arguments};
use crate::point::Point;
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

    /// Has this code made in two versions, and says which of them this is. Each thread executes the
    /// one that its [`Switch`] says when it comes to the superblock's first instruction; what it
    /// changes there takes effect where it enters the next superblock. The tool is asked for each
    /// version when a thread wants it for the first time, so code that is executed in one version only
    /// is translated once. The version in which nothing is inserted costs a comparison for each
    /// superblock.
    ///
    /// The moments of routines come before that choice: a routine's
    /// [`entry`](crate::Routine::entry) that turns the switch on does so for the routine itself, and
    /// its [`exit`](crate::Routine::exit) for the code to which it returns. Both are called whichever
    /// version is executed.
    ///
    /// This tool counts the accesses to memory that a thread makes in `sort` and what that calls:
    ///
    /// ```
    /// use unspool_tool::{Counter, Image, Superblock, Switch, Tool, Version, say};
    ///
    /// struct InSort {
    ///     switch: Switch,
    ///     accesses: Counter,
    /// }
    ///
    /// impl InSort {
    ///     fn begins(&self, depth: &mut u32) {
    ///         *depth += 1;
    ///         self.switch.set(true);
    ///     }
    ///
    ///     fn is_over(&self, depth: &mut u32) {
    ///         *depth -= 1;
    ///         self.switch.set(*depth != 0);
    ///     }
    /// }
    ///
    /// impl Tool for InSort {
    ///     type Thread = u32;
    ///
    ///     fn image_load(&self, image: &Image<Self>) {
    ///         for routine in image.routines_named("sort") {
    ///             routine.entry().call(InSort::begins, ());
    ///             routine.exit().call(InSort::is_over, ());
    ///             routine.unwind().call(InSort::is_over, ());
    ///         }
    ///     }
    ///
    ///     fn instrument(&self, superblock: &Superblock<Self>) {
    ///         if superblock.version(self.switch) == Version::Off {
    ///             return;
    ///         }
    ///         for instruction in superblock.instructions() {
    ///             let operands = instruction.memory_operands().len();
    ///             if operands != 0 {
    ///                 instruction.before().count(self.accesses, operands as u32);
    ///             }
    ///         }
    ///     }
    ///
    ///     fn end(&self) {
    ///         say(&format!("{} accesses in sort", self.accesses.total()));
    ///     }
    /// }
    /// ```
    ///
    /// # Panics
    /// If it is asked by two switches.
    #[must_use]
    pub fn version(&self, switch: Switch) -> Version {
        self.inner.version(switch)
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

    /// Has something done where it is reached, whichever version follows.
    pub(crate) fn when_reached(&self, action: impl FnOnce(Point<'a, T>) -> Action) {
        if let Some(first) = self.instructions().next() {
            self.inner.when_reached(action(first.before()));
        }
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
        let has_it = self.inner.has(place);
        has_it.then(|| Point::new(self.inner, place))
    }

    /// The place before it.
    #[must_use]
    pub fn before(&self) -> Point<'a, T> {
        Point::new(self.inner, InsertionPoint::Before)
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

    /// Has an operand in memory of it be elsewhere: a function, which is called before the instruction
    /// behind what is inserted there already, says at which address, and the instruction accesses that
    /// and nothing else. What it does besides stays, and so do the registers of which its own address
    /// is made. What is read and written at one place is one operand, and is rewritten together.
    ///
    /// ```
    /// use unspool_tool::{Address, EffectiveAddress, Superblock, Tool, effective_address};
    ///
    /// /// All that the program does with one page of its memory it does with another.
    /// struct Moved {
    ///     from: u64,
    ///     to: u64,
    /// }
    ///
    /// impl Moved {
    ///     fn place(&self, _: &mut (), at: Address) -> Address {
    ///         let within = at.0.wrapping_sub(self.from);
    ///         if within < 4096 { Address(self.to + within) } else { at }
    ///     }
    /// }
    ///
    /// impl Tool for Moved {
    ///     type Thread = ();
    ///     fn instrument(&self, superblock: &Superblock<Self>) {
    ///         for instruction in superblock.instructions() {
    ///             let mut operands = instruction.memory_operands().iter();
    ///             let operand = operands.find(|it| instruction.fixed_operand(it).is_none());
    ///             if let Some((operand, at)) = operand.and_then(|it| Some((it, effective_address(it)?))) {
    ///                 instruction.rewrite_memory_operand(operand, Moved::place, (at,));
    ///             }
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// Sources such as [`effective_address`](crate::effective_address) name the place of which the
    /// program's code speaks. A signal because nothing is at the other one has that one's address.
    /// [`accesses`](crate::accesses) and watchpoints of `--gdb` name the program's place, too. The
    /// value of such an operand ([`memory_value`](crate::memory_value)) is not known, and a recorder
    /// cannot run beside the tool (`unspool trace --tool`): both are refused.
    ///
    /// # Panics
    /// If [`fixed_operand`](instrument::Instruction::fixed_operand) gives a reason why the operand
    /// cannot be elsewhere, or if it is already.
    pub fn rewrite_memory_operand<F, A>(&self, operand: &MemoryOperand, function: F, arguments: A)
    where
        A: Arguments,
        F: Analysis<T, T::Thread, A::Values, Address>,
    {
        let before = self.before();
        before.rewrite(operand, before.rewriting(function, &arguments));
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
