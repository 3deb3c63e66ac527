//! What code refers to that has been translated: it is kept for good, once.

use std::collections::HashSet;
use std::hash::Hash;

use unspool_kernel::lock::{Mutex, OnceLock};

/// Values that are kept.
pub(crate) struct Kept<V: 'static>(OnceLock<Mutex<HashSet<&'static V>>>);

impl<V: Eq + Hash> Kept<V> {
    /// None yet.
    pub(crate) const fn new() -> Kept<V> {
        Kept(OnceLock::new())
    }

    /// Keeps one. Code that is translated again wants the same again, and gets it.
    pub(crate) fn keep(&self, value: V) -> &'static V {
        let mut kept = self.0.get_or_init(Mutex::default).lock();
        if let Some(known) = kept.get(&value) {
            return known;
        }
        let new: &V = Box::leak(Box::new(value));
        kept.insert(new);
        new
    }
}
