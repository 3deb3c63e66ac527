//! What a client keeps for each fragment.

use unspool_code_cache::cache::FragmentId;
use unspool_kernel::lock::Mutex;

/// What one client keeps for the fragments into which it has inserted something, by the fragment's
/// number. Other clients have tables of their own.
#[derive(Debug)]
pub struct PerFragment<T> {
    /// In the order of the numbers, which is that in which fragments are made. In pieces, which stay
    /// where they are: there are many, and to copy them to a larger place again and again would take
    /// longer, and twice the memory.
    kept: Mutex<Vec<Piece<T>>>,
}

/// Some that follow each other, at least one.
type Piece<T> = Vec<(FragmentId, T)>;

/// How many are in a piece.
const PIECE: usize = 256;

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
        let last = kept.last().and_then(|piece| piece.last());
        let is_latest = last.is_none_or(|(last, _)| *last < fragment);
        assert!(is_latest, "{fragment:?} is not the latest one");
        match kept.last_mut() {
            Some(piece) if piece.len() < PIECE => piece.push((fragment, what)),
            _ => {
                let mut piece = Vec::with_capacity(PIECE);
                piece.push((fragment, what));
                kept.push(piece);
            }
        }
    }

    /// Calls `use_it` with what is kept for a fragment, if anything is.
    pub fn with<R>(&self, fragment: FragmentId, use_it: impl FnOnce(&T) -> R) -> Option<R> {
        let kept = self.kept.lock();
        let behind = kept.partition_point(|piece| piece[0].0 <= fragment);
        let piece = &kept[behind.checked_sub(1)?];
        let place = piece.binary_search_by_key(&fragment, |(number, _)| *number);
        place.ok().map(|place| use_it(&piece[place].1))
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

    #[test]
    fn many_are_found_and_nothing_between_them() {
        let numbers = PerFragment::default();
        let count = 3 * super::PIECE + 1;
        for number in 0..count {
            numbers.keep(FragmentId::at(2 * number + 1), number);
        }
        for number in 0..count {
            let found = |at| numbers.with(FragmentId::at(at), |&found| found);
            assert_eq!(found(2 * number + 1), Some(number));
            assert_eq!(found(2 * number), None);
        }
        let behind = FragmentId::at(2 * count);
        assert_eq!(numbers.with(behind, |_| ()), None);
    }

    #[test]
    #[should_panic(expected = "is not the latest one")]
    fn one_that_was_made_before_the_last_of_a_piece_is_refused() {
        let numbers = PerFragment::default();
        for number in 1..=super::PIECE {
            numbers.keep(FragmentId::at(number), ());
        }
        numbers.keep(FragmentId::at(super::PIECE), ());
    }
}
