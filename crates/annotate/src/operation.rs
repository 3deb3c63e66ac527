//! What both sides agree on: the mark and its operations.

/// The bytes of `nopl 0x554e5350(%rax,%rax,1)`: a no-operation of eight bytes whose
/// displacement reads `PSNU`.
pub const MARKER: [u8; 8] = [0x0f, 0x1f, 0x84, 0x00, 0x50, 0x53, 0x4e, 0x55];

/// What a mark says, by the number in `rdi`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u64)]
pub enum Operation {
    /// The thread takes a number (`rsi`) and a name (`rdx`: the address of a string that
    /// ends with a zero byte, or 0).
    RegisterThread = 1,
    /// A region of interest starts.
    StartRegion = 2,
    /// The region of interest ends.
    EndRegion = 3,
}

impl Operation {
    /// The inverse of `operation as u64`. None for numbers of the future.
    #[must_use]
    pub fn from_number(number: u64) -> Option<Operation> {
        [
            Operation::RegisterThread,
            Operation::StartRegion,
            Operation::EndRegion,
        ]
        .into_iter()
        .find(|operation| *operation as u64 == number)
    }
}
