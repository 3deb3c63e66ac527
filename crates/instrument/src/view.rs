//! What a tool sees of code that is about to be translated, and where it says what to insert.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use unspool_binary::SourceLine;
use unspool_events::AccessKind;
use unspool_instructions::decode::Kind;
use unspool_instructions::operands::{MemoryOperand, RegisterUse};

use super::images::{Image, Images};
use super::insertions::Inserted;
use super::{Action, AnalysisCall, Argument, CallWhenOver, InsertionPoint, Switch, Version};
use unspool_engine::translate::superblock::{BranchDirection, Item};

/// A piece of code with one entry that is translated as a whole: instructions in the order
/// in which they are executed, unless a conditional branch leaves it on the way. It goes on
/// behind jumps and calls to known places, and may repeat a loop's body. The same code can be
/// part of several, and of a new one each time it is translated again.
pub struct Superblock<'a> {
    items: &'a [Item],
    images: &'a Images,
    inserted: RefCell<Inserted>,
    /// Which version it is, if that is decided.
    wanted: Option<Version>,
    /// Which version it is because the tool has asked, and by which switch.
    version: Cell<Option<(Switch, Version)>>,
}

/// A basic block of a superblock: instructions that are executed one after the other, unless one
/// faults.
#[derive(Clone, Copy)]
pub struct Block<'a> {
    superblock: &'a Superblock<'a>,
    first: usize,
    end: usize,
}

/// One instruction of a superblock.
#[derive(Clone, Copy)]
pub struct Instruction<'a> {
    superblock: &'a Superblock<'a>,
    index: usize,
}

/// How an instruction transfers control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Branch {
    /// A jump to a known address.
    Jump,
    /// A jump to a known address, on a condition.
    Conditional,
    /// A jump to an address in a register or in memory.
    IndirectJump,
    /// A call of a known address.
    Call,
    /// A call of an address in a register or in memory.
    IndirectCall,
    /// A return.
    Return,
    /// A system call.
    SystemCall,
}

impl<'a> Superblock<'a> {
    /// `inserted` is empty. If the superblock is to be a certain version, it is `wanted`.
    pub(crate) fn new(
        items: &'a [Item],
        images: &'a Images,
        inserted: Inserted,
        wanted: Option<Version>,
    ) -> Superblock<'a> {
        Superblock {
            items,
            images,
            inserted: RefCell::new(inserted),
            wanted,
            version: Cell::new(None),
        }
    }

    /// What the tool has inserted, and by which switch it is which version, if it is one.
    pub(crate) fn into_parts(self) -> (Inserted, Option<(Switch, Version)>) {
        (self.inserted.into_inner(), self.version.get())
    }

    /// Which of two versions of the code this is, between which threads choose by a switch.
    ///
    /// # Panics
    /// If it was asked by another switch.
    pub fn version(&self, switch: Switch) -> Version {
        let version = match self.version.get() {
            Some((known, version)) => {
                assert!(known == switch, "a superblock has one switch");
                version
            }
            None => self.wanted.unwrap_or_else(|| switch.chosen()),
        };
        self.version.set(Some((switch, version)));
        version
    }

    /// The address of its first instruction.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.items.first().map_or(0, |item| item.pc)
    }

    /// Has something done each time a thread comes to its first instruction, whichever version of the
    /// code it executes then; behind what is done at moments of routines. Only a call that does not
    /// have the program go on elsewhere, or may make one.
    pub fn when_reached(&self, action: Action) {
        debug_assert!(action.calls() && !action.has_context());
        self.inserted.borrow_mut().push_reached(action);
    }

    /// Its instructions, at least one.
    pub fn instructions(&'a self) -> impl ExactSizeIterator<Item = Instruction<'a>> + use<'a> {
        (0..self.items.len()).map(move |index| Instruction {
            superblock: self,
            index,
        })
    }

    /// Its basic blocks, at least one.
    pub fn blocks(&'a self) -> impl Iterator<Item = Block<'a>> + use<'a> {
        let mut first = 0;
        std::iter::from_fn(move || {
            if first == self.items.len() {
                return None;
            }
            let ends = |item: &Item| {
                item.direction == BranchDirection::Target
                    || matches!(
                        item.layout.kind,
                        Kind::Jcc { .. } | Kind::JrcxzOrLoop { .. }
                    )
            };
            let length = self.items[first..].iter().position(ends);
            let end = length.map_or(self.items.len(), |length| first + length + 1);
            let block = Block {
                superblock: self,
                first,
                end,
            };
            first = end;
            Some(block)
        })
    }
}

impl<'a> Block<'a> {
    /// The address of its first instruction.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.first().address()
    }

    /// Bytes of its instructions.
    #[must_use]
    pub fn size(&self) -> u64 {
        let items = &self.superblock.items[self.first..self.end];
        items.iter().map(|item| u64::from(item.layout.length)).sum()
    }

    /// Its instructions, at least one.
    pub fn instructions(&self) -> impl ExactSizeIterator<Item = Instruction<'a>> + use<'a> {
        let superblock = self.superblock;
        (self.first..self.end).map(move |index| Instruction { superblock, index })
    }

    /// Its first instruction.
    #[must_use]
    pub fn first(&self) -> Instruction<'a> {
        Instruction {
            superblock: self.superblock,
            index: self.first,
        }
    }

    /// Its last instruction.
    #[must_use]
    pub fn last(&self) -> Instruction<'a> {
        Instruction {
            superblock: self.superblock,
            index: self.end - 1,
        }
    }
}

impl<'a> Instruction<'a> {
    fn item(&self) -> &'a Item {
        &self.superblock.items[self.index]
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.item().pc
    }

    /// The address behind it.
    #[must_use]
    pub fn next_address(&self) -> u64 {
        self.address() + self.bytes().len() as u64
    }

    /// Its bytes, 1 to 15.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        &self.item().bytes[..usize::from(self.item().layout.length)]
    }

    /// All that its bytes say.
    #[must_use]
    pub fn decoded(&self) -> &'a iced_x86::Instruction {
        self.item().decoded()
    }

    /// Its text, in the syntax of the GNU assembler.
    #[must_use]
    pub fn disassembly(&self) -> String {
        use iced_x86::Formatter;
        let mut text = String::new();
        iced_x86::GasFormatter::new().format(self.decoded(), &mut text);
        text
    }

    /// The image that it is in.
    #[must_use]
    pub fn image(&self) -> Option<Arc<Image>> {
        self.superblock.images.find(self.address())
    }

    /// The name of the routine that it is in, as the source has it.
    #[must_use]
    pub fn routine_name(&self) -> Option<String> {
        let image = self.image()?;
        let routine = image.routine_at(self.address())?;
        Some(routine.name())
    }

    /// The line of the source that it comes from, if there is debugging information.
    #[must_use]
    pub fn source_line(&self) -> Option<SourceLine> {
        self.image()?.source_line(self.address())
    }

    /// Its operands in memory, those that are implied included: what it reads, and then what it writes.
    ///
    /// An operand that is read and written is listed in both directions, so that whoever goes through
    /// them meets each access that the instruction makes, and can ask for the value that it
    /// reads and for the one that it writes ([`Argument::MemoryValue`]). Pin counts such an operand once,
    /// and says of it that it is read and that it is written; [`MemoryOperand::is_at`] tells which of
    /// these are one there.
    #[must_use]
    pub fn memory_operands(&self) -> &'a [MemoryOperand] {
        self.item().operands()
    }

    /// Why an operand of it cannot be elsewhere (see [`rewrite_operand`](Instruction::rewrite_operand));
    /// `None`, if it can: if it is the one that the instruction names, and not implied as those of
    /// string instructions and of the stack are, nor many, as those of gathers.
    #[must_use]
    pub fn fixed_operand(&self, operand: &MemoryOperand) -> Option<&'static str> {
        self.item().fixed_operand(operand)
    }

    /// Whether its memory accesses are one atomic operation.
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        self.item().facts().atomic
    }

    /// Which general registers and flags it reads and writes.
    #[must_use]
    pub fn registers(&self) -> RegisterUse {
        self.item().uses()
    }

    /// How it transfers control, if it does.
    #[must_use]
    pub fn branch(&self) -> Option<Branch> {
        match self.item().layout.kind {
            Kind::Jcc { .. } | Kind::JrcxzOrLoop { .. } => Some(Branch::Conditional),
            Kind::JumpDirect | Kind::Xbegin => Some(Branch::Jump),
            Kind::JumpIndirect => Some(Branch::IndirectJump),
            Kind::CallDirect => Some(Branch::Call),
            Kind::CallIndirect => Some(Branch::IndirectCall),
            Kind::Return { .. } => Some(Branch::Return),
            Kind::Syscall => Some(Branch::SystemCall),
            _ => None,
        }
    }

    /// Where it branches to, if its bytes say so.
    #[must_use]
    pub fn target(&self) -> Option<u64> {
        let direct = matches!(
            self.branch(),
            Some(Branch::Conditional | Branch::Jump | Branch::Call)
        );
        direct.then(|| self.item().layout.target)
    }

    /// Whether there is such a place: an instruction that always transfers control has nothing
    /// after it, and one that never does is never taken.
    #[must_use]
    pub fn has(&self, place: InsertionPoint) -> bool {
        match place {
            InsertionPoint::Before => true,
            InsertionPoint::After => match self.item().layout.kind {
                Kind::Jcc { .. } | Kind::JrcxzOrLoop { .. } => true,
                kind => unspool_engine::translate::superblock::runs_on(kind),
            },
            InsertionPoint::Taken => self
                .branch()
                .is_some_and(|branch| branch != Branch::SystemCall),
        }
    }

    /// Whether it makes a system call.
    #[must_use]
    pub fn is_system_call(&self) -> bool {
        self.branch() == Some(Branch::SystemCall)
    }

    /// Has a function called when the system call that it makes is over, behind those that are
    /// there already.
    ///
    /// # Panics
    /// If it makes none.
    pub fn call_when_over(&self, call: CallWhenOver) {
        assert!(
            self.is_system_call(),
            "`{}` makes no system call",
            self.disassembly()
        );
        self.superblock
            .inserted
            .borrow_mut()
            .push_over(self.index, call);
    }

    /// Has an action inserted, behind those that are there already.
    ///
    /// # Panics
    /// If there is no such place, or if the value of an operand is wanted where the instruction has not
    /// read or written it.
    pub fn insert(&self, place: InsertionPoint, action: Action) {
        assert!(
            self.has(place),
            "`{}` has no place {place:?}",
            self.disassembly()
        );
        self.check_memory_values(place, &action);
        self.superblock
            .inserted
            .borrow_mut()
            .push(self.index, place, action);
    }

    /// Has a function called before the instruction, behind what is inserted there already, that says
    /// by [`set_operand_address`](super::set_operand_address) where an operand in memory is: the
    /// instruction accesses that address, and not what its bytes name.
    ///
    /// # Panics
    /// If the operand cannot be elsewhere, if it is already, or if its value is wanted.
    pub fn rewrite_operand(&self, operand: &MemoryOperand, call: AnalysisCall) {
        if let Some(reason) = self.item().fixed_operand(operand) {
            panic!(
                "an operand of `{}` cannot be rewritten: {reason}; delete the instruction, and have a function do what it does",
                self.disassembly()
            );
        }
        let mut inserted = self.superblock.inserted.borrow_mut();
        assert!(
            !inserted.is_elsewhere(self.index),
            "the operand of `{}` is rewritten twice",
            self.disassembly()
        );
        assert!(
            !inserted.wants_memory_values(self.index),
            "the value of an operand of `{}` is wanted, which is rewritten: read it in the function that says where it is",
            self.disassembly()
        );
        inserted.push_elsewhere(self.index);
        drop(inserted);
        self.insert(InsertionPoint::Before, Action::Call(call));
    }

    /// What is to be read is known before the instruction, and what was written behind it.
    fn check_memory_values(&self, place: InsertionPoint, action: &Action) {
        for word in action.words() {
            let Argument::MemoryValue(number) = *word else {
                continue;
            };
            assert!(
                !self.superblock.inserted.borrow().is_elsewhere(self.index),
                "the value of an operand of `{}` is wanted, which is rewritten: read it in the function that says where it is",
                self.disassembly()
            );
            let (known, when) = match self.memory_operands()[usize::from(number)].kind {
                AccessKind::Read => (place == InsertionPoint::Before, "reads it before it"),
                AccessKind::Write => (place != InsertionPoint::Before, "has written it behind it"),
            };
            assert!(
                known,
                "the value of operand {number} of `{}` is not known at the place {place:?}: the instruction {when}",
                self.disassembly()
            );
        }
    }
}
