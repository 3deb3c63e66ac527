//! The way back from a cache address to the program.

use super::pc_map::{PcStep, PcSteps};
use super::{Cache, Fragment, NO_MODULE, SpillInterval};

/// Where a cache address lies in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// The fragment.
    pub fragment: u32,
    /// The program's instruction.
    pub pc: u64,
    /// Bytes of that instruction.
    pub length: u8,
    /// Its index in the fragment.
    pub index: u32,
    /// Whether the cache address is the first of the instruction's translation.
    pub boundary: bool,
    /// Whether the address is before the first instruction (a prologue).
    pub prologue: bool,
}

impl Position {
    fn before(fragment: u32, step: PcStep) -> Position {
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
    pub fn fragment_at(&self, address: u64) -> Option<u32> {
        let address = u32::try_from(address).ok()?;
        let after = self
            .fragments
            .partition_point(|fragment| fragment.start <= address);
        let index = after.checked_sub(1)?;
        (address < self.fragments[index].end).then_some(index as u32)
    }

    /// A fragment by its index.
    #[must_use]
    pub fn fragment(&self, index: u32) -> &Fragment {
        &self.fragments[index as usize]
    }

    /// Where a cache address lies in the program; `None` outside fragments' hot code.
    #[must_use]
    pub fn position(&self, address: u64) -> Option<Position> {
        let index = self.fragment_at(address)?;
        let fragment = self.fragments[index as usize];
        let wanted = address as u32 - fragment.start;
        let step = self.steps(index).find(|step| wanted < step.end)?;
        let prologue = wanted < step.start;
        Some(Position {
            boundary: wanted == if prologue { 0 } else { step.start },
            prologue,
            ..Position::before(index, step)
        })
    }

    /// Whether a cache address lies in a fragment that may still be entered.
    #[must_use]
    pub fn is_current(&self, address: u64) -> bool {
        let index = self.fragment_at(address);
        index.is_some_and(|index| self.is_live(index))
    }

    pub(super) fn is_live(&self, index: u32) -> bool {
        let fragment = &self.fragments[index as usize];
        fragment.live && (fragment.module == NO_MODULE || self.inactive.is_active(fragment.module))
    }

    /// Where the code of a fragment's first instruction starts, behind what prepares it.
    #[must_use]
    pub fn prologue_end(&self, index: u32) -> u64 {
        let fragment = self.fragments[index as usize];
        let first = self.steps(index).next();
        u64::from(first.map_or(fragment.end, |step| fragment.start + step.start))
    }

    pub(super) fn steps(&self, index: u32) -> PcSteps<'_> {
        let fragment = &self.fragments[index as usize];
        let turns = self.source_ranges.turns(index);
        self.pc_map.steps(fragment.pc_map, fragment.pc, turns)
    }

    /// The position before an instruction, by its number, of the fragment that holds a cache
    /// address.
    #[must_use]
    pub fn position_of(&self, address: u64, wanted: u32) -> Option<Position> {
        let index = self.fragment_at(address)?;
        let step = self.steps(index).nth(wanted as usize)?;
        Some(Position::before(index, step))
    }

    /// The registers that are spilled at a cache address of a fragment.
    pub fn spills_at(
        &self,
        fragment: u32,
        address: u64,
    ) -> impl Iterator<Item = SpillInterval> + '_ {
        let fragment = self.fragments[fragment as usize];
        let offset = address as u32 - fragment.start;
        let first = fragment.spills as usize;
        self.spills
            .range(first..first + usize::from(fragment.spill_count))
            .iter()
            .copied()
            .filter(move |spill| (u32::from(spill.start)..u32::from(spill.end)).contains(&offset))
    }
}
