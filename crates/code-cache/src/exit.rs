//! Why the cache was left.

use std::num::NonZeroU32;

use unspool_kernel::layout;

/// Where an exit of a fragment stands in the table of all exits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ExitIndex(
    /// One more than the place, so that an `Option` has as many bytes, and none is 0 in kept tables.
    NonZeroU32,
);

impl ExitIndex {
    /// That of the exit at a place of the table.
    pub(crate) fn at(place: usize) -> ExitIndex {
        ExitIndex(NonZeroU32::MIN.saturating_add(place as u32))
    }

    /// Its place in the table.
    pub(crate) fn place(self) -> usize {
        (self.0.get() - 1) as usize
    }

    /// The one that is so many exits behind it.
    #[must_use]
    pub fn plus(self, exits: usize) -> ExitIndex {
        ExitIndex::at(self.place() + exits)
    }
}

/// Why the cache was left: by an exit of a fragment, or by one of the gates alone.
///
/// Emitted code knows it as a number. That of a table's place is none by accident:
///
/// ```compile_fail,E0308
/// use unspool_code_cache::emit::Emitter;
/// use unspool_code_cache::gates::Gates;
///
/// fn leave(code: &mut Emitter, place: u32, gates: &Gates) {
///     code.leave(place, gates.exit);
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Reason(u32);

impl Reason {
    /// Nothing happened yet, or something is pending: look before entering again.
    pub const PENDING: Reason = Reason(0);
    /// An indirect branch went to an address that has no translation; it is in `slots.pc`.
    pub const INDIRECT: Reason = Reason(1);
    /// A signal handler took the state at a boundary between instructions; it is in the slots.
    pub const INTERRUPTED: Reason = Reason(2);
    /// The trace buffer is full; the thread goes on at the slots' target.
    pub const BUFFER_FULL: Reason = Reason(3);
    /// Something is pending behind a call of a tool's function; the thread goes on at the slots'
    /// target.
    pub const CALL_INTERRUPTED: Reason = Reason(4);
    /// As [`Reason::INDIRECT`], by a return that is paired with a call.
    pub const INDIRECT_RETURN: Reason = Reason(5);
    /// Exits of fragments are numbered from here, by their places in the table of exits.
    const FIRST: u32 = 16;

    /// By this exit.
    #[must_use]
    pub fn exit(index: ExitIndex) -> Reason {
        Reason(Reason::FIRST + index.place() as u32)
    }

    /// The exit by which it was left, if it was by one.
    #[must_use]
    pub fn exit_index(self) -> Option<ExitIndex> {
        let place = self.0.checked_sub(Reason::FIRST)?;
        Some(ExitIndex::at(place as usize))
    }

    /// What emitted code puts into the slots for it.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// What emitted code has put there.
    pub(crate) fn of_number(number: u32) -> Reason {
        Reason(number)
    }
}

/// How an indirect branch goes to its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Way {
    /// By a jump.
    Jump,
    /// By a `ret` that belongs to a call of translated code.
    Return,
}

impl Way {
    /// Both, in the order of their numbers.
    pub const ALL: [Way; 2] = [Way::Jump, Way::Return];

    /// Where its chains are.
    #[must_use]
    pub(crate) fn chains(self) -> u64 {
        match self {
            Way::Jump => layout::hashed_branches(),
            Way::Return => layout::hashed_returns(),
        }
    }

    /// Why the cache is left where a chain ends.
    #[must_use]
    pub fn exit(self) -> Reason {
        match self {
            Way::Jump => Reason::INDIRECT,
            Way::Return => Reason::INDIRECT_RETURN,
        }
    }
}

/// What an exit of a fragment is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitKind {
    /// A direct branch to a program address; can be linked.
    Direct,
    /// The instruction before the target is a system call.
    SystemCall,
    /// The instruction before the target set the flags, the trap flag perhaps among them.
    FlagsPopped,
    /// The instruction before the target, which is `detail` bytes long, stored x87 state.
    X87StateStored,
    /// The instruction at the target cannot be copied and is executed by the engine.
    Emulate,
    /// The instruction at the target cannot be fetched or decoded, or has a breakpoint.
    Unfetchable,
    /// A marker of the annotation interface precedes the target.
    Annotation,
    /// A traced function is entered or left at the target.
    Function,
    /// A tool's function is to be called with the program's whole state; the fragment goes on
    /// behind, if the function lets it.
    Call,
    /// A call into the engine in the middle of a fragment, which then goes on.
    CleanCall,
    /// A hook of a function sends control elsewhere.
    Redirected,
}

impl ExitKind {
    const ALL: [ExitKind; 11] = [
        ExitKind::Direct,
        ExitKind::SystemCall,
        ExitKind::FlagsPopped,
        ExitKind::X87StateStored,
        ExitKind::Emulate,
        ExitKind::Unfetchable,
        ExitKind::Annotation,
        ExitKind::Function,
        ExitKind::Call,
        ExitKind::CleanCall,
        ExitKind::Redirected,
    ];

    /// The inverse of `as u8`.
    #[must_use]
    pub(crate) fn from_number(number: u8) -> Option<ExitKind> {
        ExitKind::ALL.into_iter().find(|&kind| kind as u8 == number)
    }
}

#[cfg(test)]
mod tests {
    use super::{ExitIndex, Reason};

    #[test]
    fn an_exit_comes_back_from_its_number() {
        for place in [0, 1, 70_000] {
            let index = ExitIndex::at(place);
            let number = Reason::exit(index).number();
            assert_eq!(Reason::of_number(number).exit_index(), Some(index));
            assert_eq!((index.place(), index.plus(3).place()), (place, place + 3));
        }
    }

    #[test]
    fn what_gates_say_is_no_exit() {
        for reason in [Reason::PENDING, Reason::INDIRECT_RETURN] {
            assert_eq!(reason.exit_index(), None);
        }
    }
}
