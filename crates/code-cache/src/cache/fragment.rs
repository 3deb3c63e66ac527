//! What is known of a fragment, and of the registers that it spills.

use super::table::Record;
use crate::address::CacheAddress;
use crate::emit::Gpr;

/// A module: where it stands among those of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct ModuleIndex(u16);

impl ModuleIndex {
    /// That of fragments that belong to no module.
    pub(super) const NONE: ModuleIndex = ModuleIndex(u16::MAX);

    /// That of the module at a place; none if a snapshot cannot have so many.
    #[must_use]
    pub fn at(place: usize) -> Option<ModuleIndex> {
        let index = ModuleIndex(u16::try_from(place).ok()?);
        (index != ModuleIndex::NONE).then_some(index)
    }

    /// Its place.
    #[must_use]
    pub fn place(self) -> usize {
        usize::from(self.0)
    }
}

/// The number of a fragment: those that are made later have greater ones, until the cache starts anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct FragmentId(u32);

impl FragmentId {
    /// That of the fragment at a place of the table of all.
    #[must_use]
    pub fn at(place: usize) -> FragmentId {
        FragmentId(place as u32)
    }

    /// Its place in the table.
    #[must_use]
    pub fn place(self) -> usize {
        self.0 as usize
    }
}

/// A contiguous part of the cache.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Fragment {
    /// Program address of its first instruction.
    pub pc: u64,
    /// First cache address.
    pub start: CacheAddress,
    /// End of its hot code.
    pub end: CacheAddress,
    /// Program bytes that follow each other from there on.
    pub length: u32,
    /// Where its part of the PC map starts.
    pub(super) pc_map: u32,
    /// Where its spills start, and how many there are.
    pub(super) spills: u32,
    pub(super) spill_count: u16,
    /// The module of which it was kept, if it was.
    pub(super) module: ModuleIndex,
    /// Whether it may still be entered, as soon as its module is active.
    pub(super) live: bool,
    /// Whether nothing is inserted, so that any of its instructions can become an entry.
    pub(super) plain: bool,
    /// Whether it goes on behind what another fragment has done at the same address, so that no
    /// boundary between two instructions lies at its start.
    pub(super) goes_on: bool,
    /// So that there is no padding.
    pub(super) unused: [u8; 5],
}

// SAFETY: without padding.
unsafe impl Record for Fragment {
    fn is_allowed(bytes: &[u8]) -> bool {
        let is_bool = |at: usize| bytes[at] <= 1;
        is_bool(std::mem::offset_of!(Fragment, live))
            && is_bool(std::mem::offset_of!(Fragment, plain))
            && is_bool(std::mem::offset_of!(Fragment, goes_on))
    }
}

const _: () = assert!(size_of::<Fragment>() == 40 && size_of::<SpillInterval>() == 6);

/// The number of the flags among spilled registers: saved as `lahf` and `seto al` leave them.
pub const FLAGS: Gpr = 16;

/// While the cache address is in `start..end` (offsets in the fragment), the program's
/// `register` is in spill slot `slot`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct SpillInterval {
    /// First offset.
    pub start: u16,
    /// End offset.
    pub end: u16,
    /// The spilled register.
    pub register: Gpr,
    /// Where its program value is.
    pub slot: u8,
}

// SAFETY: without padding, and made of numbers.
unsafe impl Record for SpillInterval {}
