//! Which addresses the engine keeps for itself.
//!
//! To the program they are addresses where nothing is: a pointer there is a bad one. The
//! ranges are few, are added while the engine starts, and are asked for at each system call.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Ranges that can be kept.
const MOST: usize = 8;

/// Start and end of each.
static RANGES: [(AtomicU64, AtomicU64); MOST] =
    [const { (AtomicU64::new(0), AtomicU64::new(0)) }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The first of all kept addresses, and how far they reach from there.
static FIRST: AtomicU64 = AtomicU64::new(0);
static EXTENT: AtomicU64 = AtomicU64::new(0);

/// The engine keeps this range from now on. Called while there is one thread.
///
/// # Panics
/// If there are too many.
pub fn keep(range: Range<u64>) {
    let count = COUNT.load(Ordering::Relaxed);
    RANGES[count].0.store(range.start, Ordering::Relaxed);
    RANGES[count].1.store(range.end, Ordering::Relaxed);
    let known = FIRST.load(Ordering::Relaxed);
    let end = known + EXTENT.load(Ordering::Relaxed);
    let first = if count == 0 {
        range.start
    } else {
        known.min(range.start)
    };
    FIRST.store(first, Ordering::Relaxed);
    EXTENT.store(end.max(range.end) - first, Ordering::Relaxed);
    COUNT.store(count + 1, Ordering::Release);
}

/// Whether an address is the engine's.
#[must_use]
#[inline]
pub fn holds(address: u64) -> bool {
    address.wrapping_sub(FIRST.load(Ordering::Relaxed)) < EXTENT.load(Ordering::Relaxed)
        && meets(&(address..address + 1))
}

/// Whether any address of a range is the engine's.
#[must_use]
pub fn meets(range: &Range<u64>) -> bool {
    let count = COUNT.load(Ordering::Acquire);
    RANGES[..count].iter().any(|(start, end)| {
        range.start < end.load(Ordering::Relaxed) && start.load(Ordering::Relaxed) < range.end
    })
}

/// Whether bytes from `address` on can be the program's: none of them is the engine's.
#[must_use]
#[inline]
pub(crate) fn spares(address: u64, size: usize) -> bool {
    let first = FIRST.load(Ordering::Relaxed);
    let reach = EXTENT.load(Ordering::Relaxed) + size as u64;
    // The usual case, in one comparison: everything lies before or behind.
    address.wrapping_add(size as u64).wrapping_sub(first) >= reach
        || !meets(&(address..address.saturating_add(size as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_held() {
        assert!(!holds(0x5000));
        keep(0x5000..0x7000);
        keep(0x1_0000..0x1_8000);
        let cases = [
            (0x4fff, 1, true),
            (0x4fff, 2, false),
            (0x5000, 1, false),
            (0x6fff, 1, false),
            (0x7000, 0x9000, true),
            (0x7000, 0x9001, false),
            (0xffff, 1, true),
            (0x1_7fff, 8, false),
            (0x1_8000, 8, true),
            (0, 0x10_0000, false),
            (u64::MAX - 7, 8, true),
            (u64::MAX, 8, true),
        ];
        for (address, size, spared) in cases {
            assert_eq!(spares(address, size), spared, "{address:#x}, {size}");
            if size == 1 {
                assert_eq!(holds(address), !spared, "{address:#x}");
            }
        }
    }
}
