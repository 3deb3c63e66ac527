//! From program code to fragments.
//!
//! One walk goes over the instructions (`walk`, `execute`) and copies each so that it does at its
//! new address what it did at its old one ([`copy`]); where clients have something inserted, it
//! asks their [inserters](insertion::Inserter). [`plain`] is the walk where nobody does.

pub mod copy;
mod element_masks;
pub mod forced_splits;
mod gs;
pub mod insertion;
mod item;
pub(crate) mod live_flags;
pub mod operand_address;
pub mod plain;
mod reader;
mod rewritten;
pub mod state_sizes;
pub mod superblock;

pub use self::insertion::walk;

use unspool_code_cache::exit::Version;
use unspool_instructions::decode::MAX_LENGTH;
use unspool_kernel::regions::Regions;

/// What is to be translated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// The code at this address.
    pub(crate) pc: u64,
    /// An indirect branch has just come there.
    pub(crate) by_indirect_branch: bool,
    /// This version of it, for a fragment that has the other one and leads there.
    pub(crate) version: Option<Version>,
}

/// Where program code comes from.
pub(crate) struct Source<'a> {
    /// What is mapped.
    pub regions: &'a Regions,
    /// The copy of the kernel's vDSO that the program sees.
    pub(crate) vdso: Vdso,
    /// How far the code that follows the first instruction may be translated with it: see
    /// [`crate::code_pages::watch`].
    pub end: u64,
}

/// The vDSO is shown to the program at an address below 2 GiB; its data stays where the
/// kernel put it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Vdso {
    /// Where the copy is.
    pub start: u64,
    /// Its bytes.
    pub size: u64,
    /// What to add to an address relative to the copy to get the original one.
    pub(crate) bias: u64,
}

impl Vdso {
    /// Whether an address is in the copy.
    #[must_use]
    pub(crate) fn holds(&self, address: u64) -> bool {
        (self.start..self.start + self.size).contains(&address)
    }

    /// Where a RIP-relative operand of an instruction at `pc` really points.
    #[must_use]
    pub(crate) fn resolve(&self, pc: u64, address: u64) -> u64 {
        if self.holds(pc) && !self.holds(address) {
            address.wrapping_add(self.bias)
        } else {
            address
        }
    }
}

impl Source<'_> {
    /// How many bytes of code can be fetched at `pc`, up to the end of its mapping.
    #[must_use]
    pub(crate) fn fetchable(&self, pc: u64) -> u64 {
        self.regions.executable_length(pc)
    }

    /// Whether the instruction at `pc` may reach beyond the end.
    #[must_use]
    pub(crate) fn ends_at(&self, pc: u64) -> bool {
        pc <= self.end && self.end - pc < MAX_LENGTH as u64
    }

    /// Whether code of this length at `pc` can change only by a system call.
    #[must_use]
    pub(crate) fn is_stable(&self, pc: u64, length: u64) -> bool {
        self.fetchable(pc) != 0 && self.regions.is_stable(pc..pc.saturating_add(length))
    }
}
