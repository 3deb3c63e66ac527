//! The line on standard error that says how far a recording has come.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_kernel::diagnostics::say_in_place;

/// What the line counts.
#[derive(Debug, Default)]
pub(crate) struct ProgressLine {
    words: AtomicU64,
    /// Tenths of a second since the start at which it was last shown.
    shown: AtomicU64,
}

impl ProgressLine {
    /// Counts words of trace, and now and then shows how many there are, so many seconds after the
    /// start.
    pub(crate) fn count(&self, words: usize, seconds: f64) {
        const EVERY_TENTHS: u64 = 5;
        let relaxed = Ordering::Relaxed;
        let words = self.words.fetch_add(words as u64, relaxed) + words as u64;
        let tenths = (seconds * 10.0) as u64;
        let shown = self.shown.load(relaxed);
        let is_due = tenths >= shown + EVERY_TENTHS;
        if is_due
            && self
                .shown
                .compare_exchange(shown, tenths, relaxed, relaxed)
                .is_ok()
        {
            let millions = words as f64 / 1e6;
            say_in_place(&format!(
                "unspool: {seconds:.1} s, {millions:.1} million words of trace"
            ));
        }
    }

    /// Takes it away, if it was shown.
    pub(crate) fn clear(&self) {
        if self.shown.load(Ordering::Relaxed) != 0 {
            say_in_place("");
        }
    }
}
