//! A signal on its way from the kernel to the program.

/// A signal that has been taken from the kernel and not yet been given to the program.
#[derive(Clone, Copy)]
pub struct PendingSignal {
    /// Its number.
    pub number: i32,
    /// The kernel's `siginfo`, 128 bytes.
    pub info: [u64; 16],
    /// For faults: error code, trap number and CR2 of the signal context.
    pub fault: Option<[u64; 3]>,
    /// Whether it is known to be for this thread, where `info` does not say so.
    pub is_directed: bool,
}
