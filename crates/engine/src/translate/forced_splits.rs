//! Where superblocks ended or were left for no reason of the program's: they were long enough,
//! touched too many registers, a signal came, or another thread took their lines.
//!
//! An entry may be in the cache only because of that. If all other superblocks ended there
//! too, loops would be in pieces for good.

use rustc_hash::FxHashSet;
use unspool_kernel::lock::Mutex;

/// The program addresses of such places.
#[derive(Debug, Default)]
pub struct ForcedSplits(Mutex<FxHashSet<u64>>);

impl ForcedSplits {
    /// Adds one.
    pub fn note(&self, pc: u64) {
        self.0.lock().insert(pc);
    }

    /// Whether there is one here.
    pub(crate) fn contains(&self, pc: u64) -> bool {
        self.0.lock().contains(&pc)
    }
}
