//! How often and how much is looked at.

/// How samples are taken.
#[derive(Debug, Clone, Copy)]
pub struct Sampling {
    /// Samples in a second of a thread's time.
    pub frequency_hz: u32,
    /// How much of a stack is looked at; a multiple of 8, less than 65,536.
    pub stack_bytes: u32,
}

impl Sampling {
    pub(crate) fn period_ns(self) -> u64 {
        1_000_000_000 / u64::from(self.frequency_hz.max(1))
    }
}
