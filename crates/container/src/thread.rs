//! Which thread.

/// A thread of the trace: 0 is the program's first, and each new thread takes the next.
/// Never reused within one trace (unlike the kernel's thread ids).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ThreadId(pub u32);
