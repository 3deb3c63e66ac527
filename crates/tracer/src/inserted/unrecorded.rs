//! What is inserted where no accesses are recorded yet: what tells of calls of functions.

use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::FragmentId;
use unspool_engine::translate::forced_splits::ForcedSplits;
use unspool_engine::translate::insertion::Inserter;
use unspool_engine::translate::superblock::{Item, Limits};
use unspool_engine::translate::walk::Walk;

use super::parts::Parts;

/// Translates a superblock without records.
pub(crate) struct Unrecorded {
    parts: Parts,
    pc: u64,
}

impl Unrecorded {
    /// The superblock at `pc`.
    pub(crate) fn new(parts: Parts, pc: u64) -> Unrecorded {
        Unrecorded { parts, pc }
    }
}

impl Inserter for Unrecorded {
    fn limits(&self) -> &dyn Limits {
        self
    }

    fn at_entry(&mut self, walk: &mut Walk) -> bool {
        self.parts.hook(walk, self.pc)
    }

    fn keep(&mut self, _binding: Option<RegisterBinding>, _fragment: FragmentId) {}
}

/// As where accesses are recorded, but that no registers are kept for records: all code is translated
/// anew when these begin.
impl Limits for Unrecorded {
    fn bound_registers(&self) -> usize {
        0
    }

    fn word_bound(&self, _: &Item) -> usize {
        0
    }

    fn forced_splits(&self) -> &ForcedSplits {
        self.parts.forced_splits()
    }

    fn follows_calls(&self) -> bool {
        self.parts.follows_calls()
    }

    fn is_function(&self, pc: u64) -> bool {
        self.parts.is_function(pc)
    }

    fn ends_behind(&self, item: &Item) -> bool {
        self.parts.ends_behind(item)
    }

    fn pairs_calls(&self) -> bool {
        self.parts.pairs_calls()
    }
}
