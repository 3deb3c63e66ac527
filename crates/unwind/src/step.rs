//! What a step comes to.

/// Why there is no caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The register with this number of DWARF's is needed and not known.
    RegisterUnknown(u8),
    /// The word at this address is needed and cannot be read.
    Unreadable(u64),
    /// The call-frame information is damaged.
    Damaged,
    /// The caller's frame would not be above.
    NotAbove,
    /// Nothing is known of the code, and no return address was found.
    NoReturnAddress,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::RegisterUnknown(number) => {
                write!(formatter, "register {number} is needed and not known")
            }
            Failure::Unreadable(address) => {
                write!(formatter, "cannot read the word at {address:#x}")
            }
            Failure::Damaged => formatter.write_str("the call-frame information is damaged"),
            Failure::NotAbove => formatter.write_str("the caller's frame would not be above"),
            Failure::NoReturnAddress => formatter.write_str("no return address was found"),
        }
    }
}

impl std::error::Error for Failure {}

/// How a caller was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// By what the compiler says.
    CallFrameInformation,
    /// By the function's instructions.
    Analysis,
    /// By the frame pointer.
    FramePointer,
    /// By a scan of the stack.
    Scan,
}

/// What is above a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<T> {
    /// A caller.
    Caller(T),
    /// Nothing: the thread began here.
    Outermost,
}

/// How a caller was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The means.
    pub method: Method,
    /// Where the function that it has called begins, in the process; 0 if that is not known.
    pub called: u64,
}
