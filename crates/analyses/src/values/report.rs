//! What a replay of values came to.

use serde::Serialize;

/// What the replay came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ValueReport {
    /// Accesses of which the value was recorded.
    pub accesses_with_value: u64,
    /// Accesses of which it was not: what they wrote is unknown afterwards.
    pub accesses_without_value: u64,
    /// Reads of the kernel's clock pages, which no thread writes. They are in no other count.
    pub clock_reads: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Bytes that were read and compared.
    pub bytes_compared: u64,
    /// Bytes that were read and learned, because nothing was known of them.
    pub bytes_learned: u64,
    /// Bytes that a system call wrote or unmapped.
    pub bytes_forgotten: u64,
    /// Accesses to memory that the kernel or a device writes, or of which nothing is known.
    pub foreign_accesses: u64,
    /// Reads of memory that other processes have, too, or that the kernel may write at any time,
    /// which found something that this process has not written there.
    pub unexplained_in_open_memory: u64,
    /// Accesses after the time from which on writes of other threads are missing. They were
    /// replayed all the same.
    pub accesses_after_loss: u64,
    /// Reads among them that found something else: what is missing may have written it.
    pub unexplained_after_loss: u64,
    /// Reads that found something else than the last write before them in an order of times, which
    /// does not say in which order several threads wrote and read.
    pub unexplained_between_stamps: u64,
    /// Reads that found something else than the order explains.
    pub mismatch_count: u64,
    /// Reads that did too, while a system call was writing there.
    pub explained_by_system_calls: u64,
    /// The first mismatches.
    pub mismatches: Vec<Mismatch>,
}

/// What a replay says of the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It explains every value.
    Passed,
    /// It explains every value that could be checked, but not all could.
    PartlyChecked,
    /// It does not explain a value.
    Failed,
}

impl ValueReport {
    /// What the replay says of the order.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.mismatch_count, self.unchecked()) {
            (0, 0) if self.accesses() > 0 => Verdict::Passed,
            (0, _) => Verdict::PartlyChecked,
            _ => Verdict::Failed,
        }
    }

    /// All accesses.
    #[must_use]
    pub fn accesses(&self) -> u64 {
        self.accesses_with_value + self.accesses_without_value
    }

    /// Accesses that say nothing about the order.
    #[must_use]
    pub fn unchecked(&self) -> u64 {
        self.accesses_without_value
            + self.foreign_accesses
            + self.unexplained_in_open_memory
            + self.unexplained_after_loss
            + self.unexplained_between_stamps
    }

    /// The share of the accesses that say nothing about the order, from 0 to 1.
    #[must_use]
    pub fn unchecked_share(&self) -> f64 {
        match self.accesses() {
            0 => 1.0,
            accesses => self.unchecked() as f64 / accesses as f64,
        }
    }
}

/// A read that the order does not explain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// When.
    pub time: u64,
    /// Which thread read.
    pub thread: u32,
    /// By which instruction.
    pub pc: u64,
    /// From where.
    pub address: u64,
    /// Whether the instruction is atomic.
    pub atomic: bool,
    /// The bytes that the replay has there.
    pub expected: Vec<u8>,
    /// The bytes that the program saw.
    pub seen: Vec<u8>,
}
