//! Procedures that are over at once: without loops, calls, and constructs of OpenMP. An event would
//! take longer than what it tells of, so that neither their bodies nor calls of them are events.

use std::collections::HashMap;

/// The procedures of a source, by name: whether all that are called so are short. Names do not tell
/// apart what is overloaded.
#[derive(Debug, Default)]
pub(crate) struct Procedures(HashMap<String, bool>);

impl Procedures {
    /// The source has a procedure of that name.
    pub(crate) fn add(&mut self, name: &str, is_short: bool) {
        *self.0.entry(name.to_owned()).or_insert(true) &= is_short;
    }

    /// Whether what is called so, as far as is known by now, is short.
    pub(crate) fn is_short(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|&is_short| is_short)
    }

    /// Those that are.
    pub(crate) fn short(self) -> impl Iterator<Item = String> {
        let short = self.0.into_iter().filter(|&(_, is_short)| is_short);
        short.map(|(name, _)| name)
    }
}
