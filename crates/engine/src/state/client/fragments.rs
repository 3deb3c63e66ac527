//! What a client keeps for each fragment.

use unspool_code_cache::cache::FragmentId;
use unspool_kernel::lock::Mutex;

/// What one client keeps for the fragments into which it has inserted something, by the fragment's
/// number. Other clients have tables of their own.
#[derive(Debug)]
pub struct PerFragment<T> {
    /// In the order of the numbers, which is that in which fragments are made.
    kept: Mutex<Vec<(FragmentId, T)>>,
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
    ///
    /// # Panics
    /// If something is kept for this fragment already, or for a later one.
    pub fn keep(&self, fragment: FragmentId, what: T) {
        let mut kept = self.kept.lock();
        let is_latest = kept.last().is_none_or(|(last, _)| *last < fragment);
        assert!(is_latest, "{fragment:?} is not the latest one");
        kept.push((fragment, what));
    }

    /// Calls `use_it` with what is kept for a fragment, if anything is.
    pub fn with<R>(&self, fragment: FragmentId, use_it: impl FnOnce(&T) -> R) -> Option<R> {
        let kept = self.kept.lock();
        let place = kept.binary_search_by_key(&fragment, |(number, _)| *number);
        place.ok().map(|place| use_it(&kept[place].1))
    }

    /// No fragment is left.
    pub fn clear(&self) {
        self.kept.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use unspool_code_cache::cache::FragmentId;

    use super::PerFragment;

    #[test]
    fn each_table_has_its_own_entry_for_a_fragment() {
        let (words, numbers) = (PerFragment::default(), PerFragment::default());
        words.keep(FragmentId::at(3), "three");
        numbers.keep(FragmentId::at(3), 30);
        numbers.keep(FragmentId::at(4), 40);
        assert_eq!(words.with(FragmentId::at(3), |word| word.len()), Some(5));
        assert_eq!(words.with(FragmentId::at(4), |word| word.len()), None);
        assert_eq!(numbers.with(FragmentId::at(4), |&number| number), Some(40));
        numbers.clear();
        assert_eq!(numbers.with(FragmentId::at(3), |&number| number), None);
        assert_eq!(words.with(FragmentId::at(3), |_| ()), Some(()));
    }
}
