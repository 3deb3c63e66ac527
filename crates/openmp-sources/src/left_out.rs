//! What is no event, of what could be one.

use std::collections::HashSet;

/// What is left out where it costs more than it tells: events of what is short and happens often.
/// Constructs of OpenMP, locks and intervals always are events.
#[derive(Debug, Clone, Default)]
pub struct LeftOut {
    /// Calls, as statements or in assignments.
    pub calls: bool,
    /// Bodies of procedures.
    pub functions: bool,
    /// Loops that threads do not share.
    pub loops: bool,
    /// Names of procedures whose bodies and calls are left out; in Fortran in any case.
    pub names: HashSet<String>,
}

impl LeftOut {
    /// The same without these procedures, too.
    pub(crate) fn and(&self, names: impl Iterator<Item = String>) -> LeftOut {
        LeftOut {
            names: self.names.iter().cloned().chain(names).collect(),
            ..*self
        }
    }

    pub(crate) fn has_call(&self, name: &str) -> bool {
        // Locks are more than calls.
        !name.starts_with('@') && (self.calls || self.names.contains(name))
    }

    pub(crate) fn has_function(&self, name: &str) -> bool {
        self.functions || self.names.contains(name)
    }
}
