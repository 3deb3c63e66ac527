//! Shadow memory: a word for each granule of the program's memory, which inserted code tests and
//! stores.

mod memory;

use std::io;
use std::ops::Range;

use unspool_engine::translate::insertion::shadow::ShadowLayout;
use unspool_instructions::operands::{MemoryOperand, Shape};
use unspool_kernel::lock::{Mutex, OnceLock};
use unspool_kernel::reserved;

use crate::thread_words::ThreadWord;

/// How many bits addresses of user mode have.
const ADDRESS_BITS: u32 = 47;
/// The most address space that one shadow memory takes, as a power of two: a quarter of it all.
const MOST_BITS: u32 = 45;
const LARGEST_GRANULE: u64 = 4096;
const PAGE: u64 = 4096;
/// The most words that inserted code looks at for one operand.
pub(crate) const MOST_WORDS: u64 = 64;

/// A word for each granule of the address space, all of them zero at first.
///
/// Only pages of it that were written take memory. It is private: a forked child has a copy. Where the
/// program unmaps memory, or maps other there, its words are zero again, and their pages are given
/// back; where it moves memory (`mremap`), the words go with it.
///
/// Where it would take more than a quarter of the address space (words of eight bytes for each
/// four, for instance), only the lower bits of an address count: see [`Shadow::span`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shadow {
    base: u64,
    /// log₂ of the bytes of a granule.
    shift: u8,
    /// Bytes of a word.
    word: u8,
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum ShadowError {
    /// There is no address space.
    #[error(
        "no address space for a shadow of {bytes} bytes; make its granules larger or its words smaller, or raise the limit (ulimit -v)"
    )]
    Map {
        /// How much was asked for.
        bytes: u64,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// All that there is, for what the program unmaps and moves.
static ALL: Mutex<Vec<Shadow>> = Mutex::new(Vec::new());
/// What there is when the program begins to run.
static SETTLED: OnceLock<Vec<Shadow>> = OnceLock::new();
/// The most that a tool can have: each is one of the ranges that are kept from the program.
const MOST: usize = 4;

impl Shadow {
    /// Words of so many bytes (1, 2, 4 or 8), one for each `granule` bytes.
    ///
    /// # Errors
    /// If there is no address space.
    ///
    /// # Panics
    /// If the program runs already, if there are four already, if there are no words of that size, or
    /// if the granule is not a power of two from 1 to 4096.
    #[track_caller]
    pub fn new(word: u8, granule: u64) -> Result<Shadow, ShadowError> {
        assert!(
            SETTLED.get().is_none(),
            "shadow memory is to be made before the program is run"
        );
        assert!(
            matches!(word, 1 | 2 | 4 | 8),
            "words of {word} bytes: 1, 2, 4 and 8 are possible"
        );
        assert!(
            granule.is_power_of_two() && granule <= LARGEST_GRANULE,
            "granules of {granule} bytes: a power of two from 1 to {LARGEST_GRANULE} is possible"
        );
        let mut all = ALL.lock();
        assert!(
            all.len() < MOST,
            "a tool can have {MOST} shadow memories; let words of one have several parts"
        );
        let mut shadow = Shadow {
            base: 0,
            shift: granule.trailing_zeros() as u8,
            word,
        };
        let bytes = shadow.size();
        shadow.base = memory::map(bytes).map_err(|source| ShadowError::Map { bytes, source })?;
        all.push(shadow);
        Ok(shadow)
    }

    /// Bytes of a granule.
    #[must_use]
    pub fn granule(self) -> u64 {
        1 << self.shift
    }

    /// How far apart addresses are that share a word although they are in different granules, with words
    /// of so many bytes: 2⁴⁷ (there are no such addresses) if it can be, else the next power of two
    /// for which there is room.
    #[must_use]
    pub const fn span(word: u8, granule: u64) -> u64 {
        1 << (bits(word, granule) + granule.trailing_zeros())
    }

    /// Where the word of address 0 lies. They follow each other as granules do, and begin anew where
    /// the span does.
    #[must_use]
    #[inline]
    pub fn base(self) -> u64 {
        self.base
    }

    /// Where the word of an address lies.
    fn place(self, address: u64) -> u64 {
        let span = Shadow::span(self.word, self.granule());
        let granule = (address & (span - 1)) >> self.shift;
        self.base + granule * u64::from(self.word)
    }

    /// How many bits of a granule's number count.
    fn bits(self) -> u32 {
        bits(self.word, self.granule())
    }

    fn size(self) -> u64 {
        u64::from(self.word) << self.bits()
    }

    pub(crate) fn word(self) -> u8 {
        self.word
    }

    pub(crate) fn layout(self) -> ShadowLayout {
        ShadowLayout {
            base: self.base,
            shift: self.shift,
            bits: Some(self.bits() as u8),
            word: self.word,
        }
    }

    /// Where the words of whole granules are; two pieces where they wrap around.
    fn places(self, range: &Range<u64>) -> [Range<u64>; 2] {
        if range.end - range.start >= Shadow::span(self.word, self.granule()) {
            return [self.base..self.base + self.size(), 0..0];
        }
        let (start, end) = (self.place(range.start), self.place(range.end));
        match start <= end {
            true => [start..end, 0..0],
            false => [start..self.base + self.size(), self.base..end],
        }
    }

    /// All words of a range are zero again; the pages that they fill are given back.
    fn clear(self, range: &Range<u64>) {
        for places in self.places(range) {
            let pages = places.start.next_multiple_of(PAGE)..places.end & !(PAGE - 1);
            if pages.start >= pages.end {
                clear_bytes(places);
                continue;
            }
            // SAFETY: these pages are of the shadow's mapping, of which words are only used as atomic
            // ones.
            unsafe {
                let length = (pages.end - pages.start) as usize;
                libc::madvise(pages.start as *mut _, length, libc::MADV_DONTNEED);
            }
            clear_bytes(places.start..pages.start);
            clear_bytes(pages.end..places.end);
        }
    }

    /// The words of a range go to where the range goes to. What they leave is zero.
    fn move_words(self, from: &Range<u64>, to: u64) {
        let granule = self.granule();
        let word = u64::from(self.word);
        // A page of words at a time, so that those which were never written are not touched there.
        let step = (PAGE / word * granule).max(granule);
        for start in (from.start..from.end).step_by(step as usize) {
            let length = step.min(from.end - start);
            let target = to + (start - from.start);
            for at in (0..length).step_by(granule as usize) {
                let (old, new) = (self.place(start + at), self.place(target + at));
                // SAFETY: both are words of the shadow's mapping.
                unsafe {
                    if old != new && read(old, word) != read(new, word) {
                        std::ptr::copy_nonoverlapping(
                            old as *const u8,
                            new as *mut u8,
                            word as usize,
                        );
                    }
                }
            }
        }
        let (left, reached) = (from.clone(), to..to + (from.end - from.start));
        // What it still has is not cleared.
        if left.start < reached.start {
            self.clear(&(left.start..left.end.min(reached.start).max(left.start)));
        } else {
            self.clear(&(left.start.max(reached.end).min(left.end)..left.end));
        }
    }
}

/// How many bits of a granule's number count, with words of so many bytes.
const fn bits(word: u8, granule: u64) -> u32 {
    let all = ADDRESS_BITS - granule.trailing_zeros();
    let most = MOST_BITS - word.trailing_zeros();
    if all < most { all } else { most }
}

/// A word at a place in shadow memory.
///
/// # Safety
/// There must be one of that size.
unsafe fn read(place: u64, word: u64) -> u64 {
    // SAFETY: the caller's.
    unsafe {
        match word {
            1 => (place as *const u8).read_volatile().into(),
            2 => (place as *const u16).read_volatile().into(),
            4 => (place as *const u32).read_volatile().into(),
            _ => (place as *const u64).read_volatile(),
        }
    }
}

/// Clears what is not zero: pages that nobody has written take no memory by it.
fn clear_bytes(places: Range<u64>) {
    for place in places {
        // SAFETY: a byte of the shadow's mapping; others use it as part of an atomic word.
        unsafe {
            let byte = place as *mut u8;
            if byte.read_volatile() != 0 {
                byte.write_volatile(0);
            }
        }
    }
}

/// The program's memory in a range is not what it was: words are zero again.
pub(crate) fn forget(range: &Range<u64>) {
    let end = range.end.min(1 << ADDRESS_BITS);
    if range.start < end {
        let range = range.start..end;
        all().iter().for_each(|shadow| shadow.clear(&range));
    }
}

/// The program's memory has moved: so do words.
pub(crate) fn follow(from: &Range<u64>, to: u64) {
    all().iter().for_each(|shadow| shadow.move_words(from, to));
}

fn all() -> &'static [Shadow] {
    SETTLED.get().map_or(&[], Vec::as_slice)
}

/// The program is about to run. To it, shadow memory is a place where nothing is.
pub(crate) fn settle() {
    let made = ALL.lock().clone();
    for shadow in &made {
        reserved::keep(shadow.base..shadow.base + shadow.size());
    }
    let _ = SETTLED.set(made);
}

/// A part of each word of a shadow memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WordPart {
    /// The shadow memory.
    pub shadow: Shadow,
    /// Where it begins in the word.
    pub offset: u8,
    /// Its bytes: 1, 2, 4 or 8.
    pub size: u8,
}

/// What a word is compared with, or becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WordValue {
    /// The same each time: its lowest bytes.
    Constant(u64),
    /// What the thread has there.
    Thread(ThreadWord),
}

/// What words are expected to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShadowTest {
    /// The part that is looked at.
    pub part: WordPart,
    /// What it is compared with.
    pub value: WordValue,
    /// The bits of it that count, if not all do: of a part of four bytes.
    pub mask: Option<u32>,
}

/// What words become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ShadowStore {
    /// The part that is stored.
    pub part: WordPart,
    /// What it becomes.
    pub value: WordValue,
}

/// What is done with the words of an operand.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ShadowCheck {
    pub(crate) shadow: Shadow,
    pub(crate) operand: MemoryOperand,
    pub(crate) tests: Vec<ShadowTest>,
    pub(crate) stores: Vec<ShadowStore>,
}

impl ShadowCheck {
    /// Tests of the words that an operand touches, and what is stored in each of them if all tests
    /// hold. `None` if the operand's address does not follow from registers alone, or if it touches
    /// too many.
    ///
    /// # Panics
    /// If there is nothing to be done, or with words of different shadow memories.
    #[must_use]
    pub fn new(
        operand: &MemoryOperand,
        tests: &[ShadowTest],
        stores: &[ShadowStore],
    ) -> Option<ShadowCheck> {
        let tested = tests.iter().map(|test| test.part.shadow);
        let mut shadows = tested.chain(stores.iter().map(|store| store.part.shadow));
        let shadow = shadows
            .next()
            .expect("a check of shadow memory tests or stores something");
        assert!(
            shadows.all(|another| another == shadow),
            "one check is about words of one shadow memory; insert another one for others"
        );
        let extent = extent(operand)?;
        (extent.div_ceil(shadow.granule()) <= MOST_WORDS).then(|| ShadowCheck {
            shadow,
            operand: *operand,
            tests: tests.to_vec(),
            stores: stores.to_vec(),
        })
    }

    /// Bytes of the operand.
    pub(crate) fn extent(&self) -> u64 {
        extent(&self.operand).expect("it was asked before")
    }

    /// How many words there are where the operand begins at a granule or lies within one.
    pub(crate) fn words(&self) -> u64 {
        self.extent().div_ceil(self.shadow.granule())
    }
}

/// How many bytes an operand may touch from its address on; of a repeated string instruction the first
/// element counts.
fn extent(operand: &MemoryOperand) -> Option<u64> {
    let size = u64::from(operand.size).max(1);
    match operand.shape {
        Shape::Plain | Shape::Repeat { .. } | Shape::AnyOf { .. } => Some(size),
        Shape::Masked { count, .. } | Shape::Compressed { count, .. } => {
            Some(size * u64::from(count))
        }
        Shape::BitString { .. }
        | Shape::Indexed { .. }
        | Shape::Tile { .. }
        | Shape::AlignedDown => None,
    }
}

#[cfg(test)]
mod tests;
