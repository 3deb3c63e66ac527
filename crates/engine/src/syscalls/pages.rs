//! Pages of memory.

use std::ops::Range;

pub(super) const PAGE: u64 = 4096;

/// The pages in which a range lies.
#[must_use]
pub fn whole_pages(address: u64, size: u64) -> Range<u64> {
    let start = address & !(PAGE - 1);
    start..address.saturating_add(size).saturating_add(PAGE - 1) & !(PAGE - 1)
}
