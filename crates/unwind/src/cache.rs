//! What was found for addresses that have been met.

use crate::recipe::Recipe;
use crate::unwinder::Method;

/// How many addresses are kept. Each that is met later takes the place of one that falls on the
/// same.
const PLACES: usize = 1024;

/// A recipe, and how it was found.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub(crate) recipe: Recipe,
    pub(crate) method: Method,
    /// Where the function begins, in the process.
    pub(crate) function: u64,
}

/// Recipes by the address in the process for which they hold.
pub(crate) struct Cache {
    places: Box<[Option<(u64, Found)>]>,
}

impl Cache {
    pub(crate) fn new() -> Cache {
        Cache {
            places: vec![None; PLACES].into_boxed_slice(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.places.fill(None);
    }

    pub(crate) fn get(&self, address: u64) -> Option<Found> {
        let (of, found) = self.places[place(address)]?;
        (of == address).then_some(found)
    }

    pub(crate) fn keep(&mut self, address: u64, found: Found) {
        self.places[place(address)] = Some((address, found));
    }
}

/// Fibonacci hashing: the high bits of a product with the golden ratio.
fn place(address: u64) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let bits = PLACES.trailing_zeros();
    (address.wrapping_mul(GOLDEN) >> (64 - bits)) as usize
}
