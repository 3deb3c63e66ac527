//! What instructions ask of the caches, beside accessing data.

/// An operation on one line of the caches. The name is that of the instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LineOperation {
    /// The line is written back and dropped, in order with other flushes of it and with writes.
    Clflush = 0,
    /// The same, in order with writes to the line alone.
    Clflushopt = 1,
    /// The line is written back and may be kept.
    Clwb = 2,
    /// The line may be moved to a cache farther away.
    Cldemote = 3,
    /// The line may soon be accessed (AMD's `prefetch`).
    Prefetch = 4,
    /// It may soon be written.
    Prefetchw = 5,
    /// The same, with a hint that the second level is enough.
    Prefetchwt1 = 6,
    /// It may soon be read: into all levels.
    Prefetcht0 = 7,
    /// Into the second level and those behind it.
    Prefetcht1 = 8,
    /// Into the third level and those behind it.
    Prefetcht2 = 9,
    /// Where it displaces little, because it is read only once.
    Prefetchnta = 10,
    /// It may soon be executed: into all levels.
    Prefetchit0 = 11,
    /// Into the second level and those behind it.
    Prefetchit1 = 12,
}

impl LineOperation {
    /// All of them.
    pub const ALL: [LineOperation; 13] = [
        LineOperation::Clflush,
        LineOperation::Clflushopt,
        LineOperation::Clwb,
        LineOperation::Cldemote,
        LineOperation::Prefetch,
        LineOperation::Prefetchw,
        LineOperation::Prefetchwt1,
        LineOperation::Prefetcht0,
        LineOperation::Prefetcht1,
        LineOperation::Prefetcht2,
        LineOperation::Prefetchnta,
        LineOperation::Prefetchit0,
        LineOperation::Prefetchit1,
    ];

    /// The inverse of `operation as u64`.
    #[must_use]
    pub fn from_u64(value: u64) -> Option<LineOperation> {
        LineOperation::ALL
            .into_iter()
            .find(|operation| *operation as u64 == value)
    }

    /// The instruction's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LineOperation::Clflush => "clflush",
            LineOperation::Clflushopt => "clflushopt",
            LineOperation::Clwb => "clwb",
            LineOperation::Cldemote => "cldemote",
            LineOperation::Prefetch => "prefetch",
            LineOperation::Prefetchw => "prefetchw",
            LineOperation::Prefetchwt1 => "prefetchwt1",
            LineOperation::Prefetcht0 => "prefetcht0",
            LineOperation::Prefetcht1 => "prefetcht1",
            LineOperation::Prefetcht2 => "prefetcht2",
            LineOperation::Prefetchnta => "prefetchnta",
            LineOperation::Prefetchit0 => "prefetchit0",
            LineOperation::Prefetchit1 => "prefetchit1",
        }
    }
}

/// An instruction that orders what comes before it and what comes behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fence {
    /// Reads and writes.
    Mfence = 0,
    /// Writes and flushes.
    Sfence = 1,
    /// Reads, and the instructions behind it.
    Lfence = 2,
}

impl Fence {
    /// All of them.
    pub const ALL: [Fence; 3] = [Fence::Mfence, Fence::Sfence, Fence::Lfence];

    /// The inverse of `fence as u64`.
    #[must_use]
    pub fn from_u64(value: u64) -> Option<Fence> {
        Fence::ALL.into_iter().find(|fence| *fence as u64 == value)
    }

    /// The instruction's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fence::Mfence => "mfence",
            Fence::Sfence => "sfence",
            Fence::Lfence => "lfence",
        }
    }
}
