//! How much of the code cache's address space has memory.

use unspool_kernel::layout;

use super::FRAGMENT_ROOM;

/// How far each half of the cache can be accessed. The rest holds nothing, and the program's wild
/// pointers fault there as they would without it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opened {
    pub(super) hot: u64,
    pub(super) cold: u64,
}

impl Opened {
    /// Makes sure that there is room behind both ends of a cache of `size` bytes.
    pub(super) fn reach(self, hot: u64, cold: u64, size: u64) -> Opened {
        let (middle, end) = (layout::cache() + size / 2, layout::cache() + size);
        Opened {
            hot: open(layout::cache(), self.hot, hot + FRAGMENT_ROOM, middle),
            cold: open(middle, self.cold, cold + FRAGMENT_ROOM, end),
        }
    }
}

/// Opens the half that starts at `start` further, if it is not open so far already and the kernel
/// has memory for it, in steps of huge pages. Returns how far it is open. The first step is made of
/// small pages: most programs need a part of it only, and the kernel clears a huge page as a whole.
fn open(start: u64, opened: u64, wanted: u64, end: u64) -> u64 {
    const STEP: u64 = 2 << 20;
    let wanted = wanted.min(end);
    if wanted <= opened {
        return opened;
    }
    let reached = wanted.next_multiple_of(STEP).min(end);
    if layout::open_cache(opened..reached).is_err() {
        return opened;
    }
    let first_huge = opened.max(start + STEP);
    if first_huge < reached {
        layout::prefer_huge_pages(first_huge..reached);
    }
    reached
}
