//! Who has accesses tested for memory that they may touch.

use unspool_kernel::lock::OnceLock;

use crate::action::AnalysisFunction;

/// Somebody who watches memory of the program's. Translated code then tests before each access
/// whether it may touch that.
pub trait Watcher: Send + Sync {
    /// Whether anything is watched.
    fn is_any(&self) -> bool;

    /// The ranges in which an access may touch what is watched: first and last byte, a few at most.
    /// Where they change, translations have to begin anew.
    fn ranges(&self, write: bool) -> Vec<(u64, u64)>;

    /// What is called before an access that may do so: with the address, the value of the register
    /// that the extent depends on, the [`AccessExtent`] as a word, and whether the count is 32 bits wide.
    fn may_touch(&self) -> AnalysisFunction;
}

static WATCHER: OnceLock<&'static dyn Watcher> = OnceLock::new();

/// Somebody watches from now on.
///
/// # Panics
/// If somebody does already.
pub(crate) fn set(watcher: &'static dyn Watcher) {
    assert!(WATCHER.set(watcher).is_ok(), "a process has one watcher");
}

/// Who watches memory at the moment.
pub(crate) fn watcher() -> Option<&'static dyn Watcher> {
    WATCHER.get().copied().filter(|watcher| watcher.is_any())
}

/// Where an access that is about to be made begins and ends, as translated code knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessExtent {
    /// So many bytes from the address on.
    Bytes(u64),
    /// A repeated string instruction with elements of so many bytes: as many as the count
    /// register becomes less.
    Repeated(u64),
    /// A bit string: so many bytes, as far from the address as the bit number says.
    BitString(u64),
    /// The so many bytes, a power of two, in which the address lies.
    Around(u64),
    /// Somewhere.
    Anywhere,
}

impl AccessExtent {
    /// As one word, for translated code.
    #[must_use]
    pub(crate) fn to_word(self, write: bool) -> u64 {
        let (kind, size) = match self {
            AccessExtent::Bytes(size) => (0, size),
            AccessExtent::Repeated(size) => (1, size),
            AccessExtent::BitString(size) => (2, size),
            AccessExtent::Around(size) => (3, size),
            AccessExtent::Anywhere => (4, 0),
        };
        size << 8 | kind << 1 | u64::from(write)
    }

    /// The inverse.
    #[must_use]
    pub fn from_word(word: u64) -> (AccessExtent, bool) {
        let size = word >> 8;
        let extent = match word >> 1 & 0x7f {
            0 => AccessExtent::Bytes(size),
            1 => AccessExtent::Repeated(size),
            2 => AccessExtent::BitString(size),
            3 => AccessExtent::Around(size),
            _ => AccessExtent::Anywhere,
        };
        (extent, word & 1 != 0)
    }
}
