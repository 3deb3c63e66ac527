//! What a fragment is before it becomes part of the cache.

use super::{Exit, Loan};
use crate::warmth::Warmth;

/// Everything that is known of one fragment once its code has been emitted.
#[derive(Debug, Default)]
pub struct Draft {
    /// Program address of the first instruction.
    pub pc: u64,
    /// Bytes of hot code before the first instruction's translation.
    pub prologue: u32,
    /// (program bytes, cache bytes) of each instruction.
    pub boundaries: Vec<(u8, u32)>,
    /// The instructions that do not follow the one before them in the program: their numbers
    /// and addresses.
    pub turns: Vec<(u32, u64)>,
    /// Borrowed registers.
    pub loans: Vec<Loan>,
    /// Exits, in order; `field` already emitted with any target.
    pub exits: Vec<Exit>,
    /// Landings of indirect branches: (program address, cache address).
    pub landings: Vec<(u64, u32)>,
    /// Entries: (program address, cache address, warm address or 0).
    pub entries: Vec<(u64, u32, u32)>,
    /// What `warm` addresses expect.
    pub warmth: Warmth,
    /// Trace description, plus 1.
    pub trace: u32,
}

impl Draft {
    /// Makes it as new, except for the room that its parts have.
    pub(super) fn clear(&mut self) {
        let Draft {
            pc: _,
            prologue: _,
            boundaries,
            turns,
            loans,
            exits,
            landings,
            entries,
            warmth: _,
            trace: _,
        } = self;
        boundaries.clear();
        turns.clear();
        loans.clear();
        exits.clear();
        landings.clear();
        entries.clear();
        (self.pc, self.prologue, self.trace) = (0, 0, 0);
        self.warmth = Warmth::default();
    }
}
