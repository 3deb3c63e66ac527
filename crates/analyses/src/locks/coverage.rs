//! In which orders have threads taken a lock one behind the other?
//!
//! Two places at which threads take the same lock have been seen in one order only, or in both. A
//! fault that shows in the other one alone has had no chance in this run.

use std::collections::BTreeMap;

use super::report::{LockUse, Succession};
use crate::call_paths::ContextId;

/// Pairs of places that are kept.
const KEPT: usize = 1 << 14;

/// All pairs of places at which different threads took a lock directly one behind the other.
#[derive(Debug, Default)]
pub(super) struct Coverage {
    pairs: BTreeMap<(ContextId, ContextId), Succession>,
    /// How often a pair was left out.
    beyond: u64,
}

impl Coverage {
    /// A thread takes a lock that another one had last.
    pub(super) fn follows(&mut self, first: LockUse, second: LockUse) {
        let key = (first.context, second.context);
        if let Some(known) = self.pairs.get_mut(&key) {
            known.times += 1;
        } else if self.pairs.len() < KEPT {
            let times = 1;
            self.pairs.insert(
                key,
                Succession {
                    first,
                    second,
                    times,
                },
            );
        } else {
            self.beyond += 1;
        }
    }

    pub(super) fn successions(&self) -> Vec<Succession> {
        self.pairs.values().copied().collect()
    }

    pub(super) fn beyond(&self) -> u64 {
        self.beyond
    }
}
