//! What is inserted where no accesses are recorded yet: what tells of calls of functions.

use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::FragmentId;
use unspool_engine::translate::insertion::Inserter;
use unspool_engine::translate::superblock::Limits;
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
        &self.parts
    }

    fn at_entry(&mut self, walk: &mut Walk) -> bool {
        self.parts.hook(walk, self.pc)
    }

    fn keep(&mut self, _binding: Option<RegisterBinding>, _fragment: FragmentId) {}
}
