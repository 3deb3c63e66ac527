//! What a client keeps for each fragment.

use rustc_hash::FxHashMap;

use unspool_kernel::lock::Mutex;

/// What one client keeps for the fragments into which it has inserted something, by the fragment's
/// number. Other clients have tables of their own.
#[derive(Debug)]
pub(crate) struct PerFragment<T> {
    kept: Mutex<FxHashMap<u32, T>>,
}

impl<T> Default for PerFragment<T> {
    fn default() -> PerFragment<T> {
        PerFragment {
            kept: Mutex::default(),
        }
    }
}

impl<T> PerFragment<T> {
    /// Keeps something for a fragment. Called with the cache locked, before its code can run.
    pub(crate) fn keep(&self, fragment: u32, what: T) {
        self.kept.lock().insert(fragment, what);
    }

    /// Calls `use_it` with what is kept for a fragment, if anything is.
    pub(crate) fn with<R>(&self, fragment: u32, use_it: impl FnOnce(&T) -> R) -> Option<R> {
        self.kept.lock().get(&fragment).map(use_it)
    }

    /// No fragment is left.
    pub(crate) fn clear(&self) {
        self.kept.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::PerFragment;

    #[test]
    fn each_table_has_its_own_entry_for_a_fragment() {
        let (words, numbers) = (PerFragment::default(), PerFragment::default());
        words.keep(3, "three");
        numbers.keep(3, 30);
        numbers.keep(4, 40);
        assert_eq!(words.with(3, |word| word.len()), Some(5));
        assert_eq!(words.with(4, |word| word.len()), None);
        assert_eq!(numbers.with(4, |&number| number), Some(40));
        numbers.clear();
        assert_eq!(numbers.with(3, |&number| number), None);
        assert_eq!(words.with(3, |_| ()), Some(()));
    }
}
