//! Which calls a filter always allows, whatever their arguments: they need no run of it.
//!
//! The kernel keeps such a set, too (`seccomp_cache_prepare`). It is found by running the filter
//! over each number with everything else unknown.

use super::ARCHITECTURE;
use super::program::Program;
use super::run::run_over;
use super::verdict::{Verdict, meaning};

/// Numbers below this have a place in the set.
const NUMBERS: usize = 512;

/// Numbers of system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AlwaysAllowed([u64; NUMBERS / 64]);

impl AlwaysAllowed {
    /// All numbers: what no filter judges.
    pub(crate) const ALL: AlwaysAllowed = AlwaysAllowed([u64::MAX; NUMBERS / 64]);

    /// Those of the set that a further filter always allows as well.
    #[must_use]
    pub(crate) fn and_by(self, program: &Program) -> AlwaysAllowed {
        self.filtered(|number| {
            let known = |offset| match offset {
                0 => Some(number as u32),
                4 => Some(ARCHITECTURE),
                _ => None,
            };
            run_over(program, known).is_some_and(|result| meaning(result) == Verdict::Allow)
        })
    }

    /// Those of the set that a condition holds for.
    #[must_use]
    pub(crate) fn filtered(self, keep: impl Fn(usize) -> bool) -> AlwaysAllowed {
        let mut words = self.0;
        for number in 0..NUMBERS {
            let bit = 1 << (number % 64);
            if words[number / 64] & bit != 0 && !keep(number) {
                words[number / 64] &= !bit;
            }
        }
        AlwaysAllowed(words)
    }

    /// Whether a number is in the set.
    #[must_use]
    #[inline]
    pub(crate) fn has(&self, number: i32) -> bool {
        let number = number as u32 as usize;
        number < NUMBERS && self.0[number / 64] >> (number % 64) & 1 != 0
    }
}
