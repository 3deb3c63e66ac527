//! What a fragment is before it becomes part of the cache.

use super::{Exit, SpillInterval};
use crate::address::CacheAddress;
use crate::binding::RegisterBinding;
use crate::exit::Version;

/// Everything that is known of one fragment once its code has been emitted.
#[derive(Debug, Default)]
pub struct NewFragment {
    /// Program address of the first instruction.
    pub pc: u64,
    /// Bytes of hot code before the first instruction's translation.
    pub prologue: u32,
    /// (program bytes, cache bytes) of each instruction.
    pub pc_map: Vec<(u8, u32)>,
    /// The instructions that do not follow the one before them in the program: their numbers
    /// and addresses.
    pub turns: Vec<(u32, u64)>,
    /// Spilled registers.
    pub spills: Vec<SpillInterval>,
    /// Exits, in order; `field` already emitted with any target.
    pub exits: Vec<Exit>,
    /// Target stubs of indirect branches: (program address, cache address).
    pub target_stubs: Vec<(u64, CacheAddress)>,
    /// Entries: (program address, cache address, bound address or nowhere).
    pub entries: Vec<(u64, CacheAddress, CacheAddress)>,
    /// What `bound` addresses expect.
    pub binding: RegisterBinding,
    /// Whether nothing is inserted: all program state is in place between instructions.
    pub plain: bool,
    /// Which version of the code it is, if another fragment decides whether it is entered.
    pub version: Option<Version>,
}

impl NewFragment {
    /// Makes it as new, except for the room that its parts have.
    pub(super) fn clear(&mut self) {
        let NewFragment {
            pc: _,
            prologue: _,
            pc_map,
            turns,
            spills,
            exits,
            target_stubs,
            entries,
            binding: _,
            plain: _,
            version: _,
        } = self;
        pc_map.clear();
        turns.clear();
        spills.clear();
        exits.clear();
        target_stubs.clear();
        entries.clear();
        (self.pc, self.prologue, self.plain) = (0, 0, false);
        self.binding = RegisterBinding::default();
        self.version = None;
    }
}
