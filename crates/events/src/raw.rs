//! The raw stream of one thread: 64-bit words, as inlined code leaves them in a buffer.
//!
//! It is made of records, each a header word followed by payload words.
//!
//! **Path record** (bit 63 of the header clear): an execution of a path through a
//! superblock.
//!
//! | bits | field |
//! |---|---|
//! | 0–23 | the path's [`PathId`] |
//! | 24–30 | n, the number of words that follow (0 to 127) |
//! | 31–63 | 0 |
//!
//! **Special record** (bit 63 set):
//!
//! | bits | field |
//! |---|---|
//! | 0–39 | argument |
//! | 40–55 | number of words that follow |
//! | 56–62 | [`SpecialKind`] |
//! | 63 | 1 |

use crate::id::PathId;

/// The most words that a path record can have.
pub const MAX_PATH_WORDS: usize = 127;

/// The most words that a special record can have.
pub const MAX_SPECIAL_WORDS: usize = (1 << 16) - 1;

/// The number of path ids that a header can name.
pub const PATH_IDS: u32 = 1 << 24;

/// What a special record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SpecialKind {
    /// An [`crate::Event`]; the words are its encoding. Argument: the event's tag.
    Event = 1,
    /// One word, the new time of the thread. It belongs to the next path, partial or event
    /// record: if that is a path, its accessing instruction number `argument` (from 0) has
    /// this time or, in orders that advance by themselves, the greater of this time and
    /// the previous time plus one. Several may precede one record, in rising order of argument.
    Stamp = 2,
    /// A path that was left between two of its instructions (a fault, a signal). Argument:
    /// bits 0–23 the first path id of the superblock, bits 24–39 the number of accessing
    /// instructions that were completed. The words are those recorded so far, which may be
    /// more than these instructions need.
    Partial = 3,
    /// The same as [`SpecialKind::Values`], of operands with extent `Plain` alone: the other
    /// ones have no words. Written before version 4 of the format.
    PlainValues = 4,
    /// The values of the accesses of accessing instruction number `argument` of the next path
    /// or partial record: for each access in order its bytes (reads: before the instruction;
    /// writes: after it), padded with zeros to whole words. Where these are more words than a
    /// record can have, several follow one another.
    Values = 5,
}

impl SpecialKind {
    /// The inverse of `kind as u8`.
    #[must_use]
    pub fn from_u8(value: u8) -> Option<SpecialKind> {
        [
            SpecialKind::Event,
            SpecialKind::Stamp,
            SpecialKind::Partial,
            SpecialKind::PlainValues,
            SpecialKind::Values,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == value)
    }
}

/// A header word, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Header {
    /// A path record.
    Path {
        /// Which path.
        path: PathId,
        /// Number of words that follow.
        words: usize,
    },
    /// A special record.
    Special {
        /// Which kind; `None` where this version does not know it.
        kind: Option<SpecialKind>,
        /// The 40-bit argument.
        argument: u64,
        /// Number of words that follow.
        words: usize,
    },
}

impl Header {
    /// Takes a header word apart.
    #[must_use]
    #[inline]
    pub fn decode(word: u64) -> Header {
        if word >> 63 == 0 {
            Header::Path {
                path: PathId(word as u32 & (PATH_IDS - 1)),
                words: (word >> 24 & 0x7f) as usize,
            }
        } else {
            Header::Special {
                kind: SpecialKind::from_u8((word >> 56 & 0x7f) as u8),
                argument: word & 0xff_ffff_ffff,
                words: (word >> 40 & 0xffff) as usize,
            }
        }
    }
}

/// The header of a path record.
///
/// # Panics
/// If the id or the number of words does not fit.
#[must_use]
pub fn path_header(path: PathId, words: usize) -> u32 {
    assert!(path.0 < PATH_IDS && words <= MAX_PATH_WORDS);
    path.0 | (words as u32) << 24
}

/// The header of a special record; `argument` is cut to 40 bits, `words` must be below 65,536.
///
/// # Panics
/// If there are too many words.
#[must_use]
pub fn special_header(kind: SpecialKind, argument: u64, words: usize) -> u64 {
    assert!(
        words <= MAX_SPECIAL_WORDS,
        "a special record has at most 65,535 words"
    );
    1 << 63 | (kind as u64) << 56 | (words as u64) << 40 | argument & 0xff_ffff_ffff
}
