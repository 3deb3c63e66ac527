//! The way back from a cache address to the program.

use super::FragmentId;
use super::pc_map::{PcStep, PcSteps};
use super::{Cache, Fragment, ModuleIndex, SpillInterval};
use crate::address::CacheAddress;

/// Where a cache address lies in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The fragment.
    pub fragment: FragmentId,
    /// The program's instruction.
    pub pc: u64,
    /// Bytes of that instruction.
    pub length: u8,
    /// Its index in the fragment.
    pub index: u32,
    /// Whether the cache address is the first of the instruction's translation: whatever is to be
    /// done before the instruction is still to be done.
    pub boundary: bool,
    /// Whether the address is before the first instruction (a prologue).
    pub prologue: bool,
}

impl Position {
    fn before(fragment: FragmentId, step: PcStep) -> Position {
        Position {
            fragment,
            pc: step.pc,
            length: step.length,
            index: step.number,
            boundary: true,
            prologue: false,
        }
    }
}

impl Cache {
    /// The fragment that holds a cache address.
    #[must_use]
    pub fn fragment_at(&self, address: CacheAddress) -> Option<FragmentId> {
        let after = self
            .fragments
            .partition_point(|fragment| fragment.start <= address);
        let index = after.checked_sub(1)?;
        (address < self.fragments[index].end).then_some(FragmentId::at(index))
    }

    /// A fragment by its number.
    #[must_use]
    pub fn fragment(&self, id: FragmentId) -> &Fragment {
        &self.fragments[id.place()]
    }

    /// Where a cache address lies in the program; `None` outside fragments' hot code.
    #[must_use]
    pub fn position(&self, address: CacheAddress) -> Option<Position> {
        let id = self.fragment_at(address)?;
        let wanted = address.offset_from(self.fragment(id).start)?;
        let step = self.steps(id).find(|step| wanted < step.end)?;
        let prologue = wanted < step.start;
        let begins = wanted == if prologue { 0 } else { step.start };
        let goes_on = step.number == 0 && self.fragment(id).goes_on;
        Some(Position {
            boundary: begins && !goes_on,
            prologue,
            ..Position::before(id, step)
        })
    }

    /// Whether a cache address lies in a fragment that may still be entered.
    #[must_use]
    pub fn is_current(&self, address: CacheAddress) -> bool {
        let id = self.fragment_at(address);
        id.is_some_and(|id| self.is_live(id))
    }

    pub(super) fn is_live(&self, id: FragmentId) -> bool {
        let fragment = self.fragment(id);
        fragment.live
            && (fragment.module == ModuleIndex::NONE || self.inactive.is_active(fragment.module))
    }

    /// Where the code of a fragment's first instruction starts, behind what prepares it.
    #[must_use]
    pub fn prologue_end(&self, id: FragmentId) -> CacheAddress {
        let fragment = self.fragment(id);
        let first = self.steps(id).next();
        first.map_or(fragment.end, |step| fragment.start.plus(step.start))
    }

    pub(super) fn steps(&self, id: FragmentId) -> PcSteps<'_> {
        let fragment = self.fragment(id);
        let turns = self.source_ranges.turns(id);
        self.pc_map.steps(fragment.pc_map, fragment.pc, turns)
    }

    /// The position before an instruction, by its number, of the fragment that holds a cache
    /// address.
    #[must_use]
    pub fn position_of(&self, address: CacheAddress, wanted: u32) -> Option<Position> {
        let id = self.fragment_at(address)?;
        let step = self.steps(id).nth(wanted as usize)?;
        Some(Position::before(id, step))
    }

    /// The registers that are spilled at a cache address of a fragment.
    pub fn spills_at(
        &self,
        fragment: FragmentId,
        address: CacheAddress,
    ) -> impl Iterator<Item = SpillInterval> + '_ {
        let fragment = self.fragment(fragment);
        let offset = address.offset_from(fragment.start).unwrap_or(u32::MAX);
        let first = fragment.spills as usize;
        self.spills
            .range(first..first + usize::from(fragment.spill_count))
            .iter()
            .copied()
            .filter(move |spill| (u32::from(spill.start)..u32::from(spill.end)).contains(&offset))
    }
}
