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
    pub(crate) const ALL: [Way; 2] = [Way::Jump, Way::Return];

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

/// Which clean call it is, of those that a client has inserted. What its number means is for the
/// client to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct CleanCall(u32);

impl CleanCall {
    /// The one that the client calls by this number.
    #[must_use]
    pub fn new(number: u32) -> CleanCall {
        CleanCall(number)
    }

    /// What the client calls it.
    #[must_use]
    pub fn number(self) -> u32 {
        self.0
    }
}

/// Which one it is of two versions in which a client, as a tool, has code translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// The one for threads whose switch is off.
    Off,
    /// The one for threads whose switch is on.
    On,
}

impl Version {
    /// Both.
    pub(crate) const ALL: [Version; 2] = [Version::Off, Version::On];

    /// The one for a switch that is on, or is not.
    #[must_use]
    pub fn of(is_on: bool) -> Version {
        match is_on {
            false => Version::Off,
            true => Version::On,
        }
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Version {
        Version::of(self == Version::Off)
    }
}

/// What an exit of a fragment is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// A direct branch to a program address; can be linked.
    Direct,
    /// The instruction before the target is a system call.
    SystemCall,
    /// The instruction before the target set the flags, the trap flag perhaps among them.
    FlagsPopped,
    /// The instruction before the target stored x87 state.
    X87StateStored {
        /// How many bytes that instruction has.
        length: u8,
    },
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
    Call {
        /// Whether what it stands behind is done.
        completed: bool,
    },
    /// A call into the engine in the middle of a fragment, which then goes on.
    CleanCall(CleanCall),
    /// A hook of a function sends control elsewhere.
    Redirected,
    /// The thread is to execute this version of the code at the target; can be linked. What is to
    /// be done before either of them is done.
    Version(Version),
}

impl ExitKind {
    /// How the table of exits, which is kept in files, has it: a number for the kind, and one for
    /// what the kind says beyond that, or 0.
    #[must_use]
    pub(crate) fn numbers(self) -> (u8, u32) {
        match self {
            ExitKind::Direct => (0, 0),
            ExitKind::SystemCall => (1, 0),
            ExitKind::FlagsPopped => (2, 0),
            ExitKind::X87StateStored { length } => (3, u32::from(length)),
            ExitKind::Emulate => (4, 0),
            ExitKind::Unfetchable => (5, 0),
            ExitKind::Annotation => (6, 0),
            ExitKind::Function => (7, 0),
            ExitKind::Call { completed } => (8, u32::from(completed)),
            ExitKind::CleanCall(CleanCall(number)) => (9, number),
            ExitKind::Redirected => (10, 0),
            ExitKind::Version(version) => (11, u32::from(version == Version::On)),
        }
    }

    /// The inverse of [`ExitKind::numbers`]; none if nothing has these numbers.
    #[must_use]
    pub(crate) fn from_numbers(numbers: (u8, u32)) -> Option<ExitKind> {
        let kind = match numbers {
            (0, 0) => ExitKind::Direct,
            (1, 0) => ExitKind::SystemCall,
            (2, 0) => ExitKind::FlagsPopped,
            (3, length) => ExitKind::X87StateStored {
                length: u8::try_from(length).ok()?,
            },
            (4, 0) => ExitKind::Emulate,
            (5, 0) => ExitKind::Unfetchable,
            (6, 0) => ExitKind::Annotation,
            (7, 0) => ExitKind::Function,
            (8, completed @ 0..=1) => ExitKind::Call {
                completed: completed == 1,
            },
            (9, number) => ExitKind::CleanCall(CleanCall(number)),
            (10, 0) => ExitKind::Redirected,
            (11, on @ 0..=1) => ExitKind::Version(Version::of(on == 1)),
            _ => return None,
        };
        Some(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::{CleanCall, ExitIndex, ExitKind, Reason, Version};

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

    #[test]
    fn a_kind_comes_back_from_its_numbers() {
        let kinds = (0..=u8::MAX).filter_map(|kind| ExitKind::from_numbers((kind, 0)));
        assert_eq!(kinds.clone().count(), 12);
        let saying_more = [
            ExitKind::X87StateStored { length: 9 },
            ExitKind::Call { completed: true },
            ExitKind::CleanCall(CleanCall::new(u32::MAX)),
            ExitKind::Version(Version::On),
        ];
        for kind in kinds.chain(saying_more) {
            assert_eq!(ExitKind::from_numbers(kind.numbers()), Some(kind));
        }
    }

    #[test]
    fn numbers_that_nothing_has_are_no_kind() {
        for numbers in [(0, 1), (3, 256), (8, 2), (11, 2), (12, 0)] {
            assert_eq!(ExitKind::from_numbers(numbers), None, "{numbers:?}");
        }
    }
}
