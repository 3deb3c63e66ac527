//! Why the cache was left.

use unspool_kernel::layout;

/// Nothing happened yet, or something is pending: look before entering again.
pub const PENDING: u32 = 0;
/// An indirect branch went to an address that has no translation; it is in `slots.pc`.
pub const INDIRECT: u32 = 1;
/// A signal handler took the state at a boundary between instructions; it is in the slots.
pub const INTERRUPTED: u32 = 2;
/// The trace buffer is full; the thread goes on at `slots.target`.
pub const BUFFER_FULL: u32 = 3;
/// Something is pending behind a call of a tool's function; the thread goes on at `slots.target`.
pub const CALL_INTERRUPTED: u32 = 4;
/// As [`INDIRECT`], by a return that is paired with a call.
pub const INDIRECT_RETURN: u32 = 5;
/// Exits of fragments are numbered from here, by their index in the table of exits.
pub const FIRST: u32 = 16;

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
    pub fn chains(self) -> u64 {
        match self {
            Way::Jump => layout::hashed_branches(),
            Way::Return => layout::hashed_returns(),
        }
    }

    /// Why the cache is left where a chain ends.
    #[must_use]
    pub fn exit(self) -> u32 {
        match self {
            Way::Jump => INDIRECT,
            Way::Return => INDIRECT_RETURN,
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
    pub fn from_number(number: u8) -> Option<ExitKind> {
        ExitKind::ALL.into_iter().find(|&kind| kind as u8 == number)
    }
}
