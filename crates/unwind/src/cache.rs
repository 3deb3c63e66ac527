//! What was found for addresses that have been met.

use crate::quick::Quick;
use crate::recipe::Recipe;
use crate::step::{Found, Method};

/// How many addresses are kept. Each that is met later takes the place of one that falls on the
/// same.
const PLACES: usize = 2048;
/// The same for recipes that are not [`Quick`]: those of signal frames, of linkage tables, and of
/// functions that align their stack.
const LARGE_PLACES: usize = 64;

/// A recipe, in one of its forms, and how it was found.
#[derive(Clone, Copy)]
pub(crate) struct Known<R> {
    pub(crate) recipe: R,
    pub(crate) method: Method,
    /// Where the function begins, in the process.
    pub(crate) function: u64,
}

impl<R> Known<R> {
    /// What is told of it.
    #[inline]
    pub(crate) fn found(&self) -> Found {
        Found {
            method: self.method,
            called: self.function,
        }
    }

    /// The same with the recipe in another form.
    pub(crate) fn with<S>(&self, recipe: S) -> Known<S> {
        Known {
            recipe,
            method: self.method,
            function: self.function,
        }
    }
}

/// Recipes by the address in the process for which they hold.
pub(crate) struct Cache {
    quick: Box<[(u64, Known<Quick>)]>,
    large: Box<[(u64, Known<Recipe>)]>,
}

/// The address of a place that holds nothing: no code can be there.
const NOWHERE: u64 = u64::MAX;

impl Cache {
    pub(crate) fn new() -> Cache {
        let nothing = Known {
            recipe: Recipe::at_entry(),
            method: Method::Scan,
            function: 0,
        };
        let quick = nothing.with(Quick::AT_ENTRY);
        Cache {
            quick: vec![(NOWHERE, quick); PLACES].into_boxed_slice(),
            large: vec![(NOWHERE, nothing); LARGE_PLACES].into_boxed_slice(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.quick.iter_mut().for_each(|place| place.0 = NOWHERE);
        self.large.iter_mut().for_each(|place| place.0 = NOWHERE);
    }

    #[inline]
    pub(crate) fn quick(&self, address: u64) -> Option<&Known<Quick>> {
        let (of, found) = &self.quick[place(address, PLACES)];
        (*of == address).then_some(found)
    }

    pub(crate) fn large(&self, address: u64) -> Option<&Known<Recipe>> {
        let (of, found) = &self.large[place(address, LARGE_PLACES)];
        (*of == address).then_some(found)
    }

    pub(crate) fn keep(&mut self, address: u64, found: Known<Recipe>) {
        match Quick::of(&found.recipe) {
            Some(quick) => self.quick[place(address, PLACES)] = (address, found.with(quick)),
            None => self.large[place(address, LARGE_PLACES)] = (address, found),
        }
    }
}

/// Fibonacci hashing: the high bits of a product with the golden ratio.
#[inline]
fn place(address: u64, places: usize) -> usize {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let bits = places.trailing_zeros();
    (address.wrapping_mul(GOLDEN) >> (64 - bits)) as usize
}
