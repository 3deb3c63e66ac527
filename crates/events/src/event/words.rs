//! How the fields of records are words.

use super::KnownStream;

/// The words of an event cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// The stream has no records of this kind.
    #[error("the stream {stream} has no records of kind {kind}")]
    UnknownKind {
        /// Which stream.
        stream: &'static str,
        /// Which kind.
        kind: u16,
    },
    /// There are fewer words than the event needs, or one has a value that it cannot have.
    #[error("the words of a record of kind {kind} in the stream {stream} are damaged")]
    Damaged {
        /// Which stream.
        stream: &'static str,
        /// Which kind.
        kind: u16,
    },
}

/// Why a record cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// There is no such kind.
    Kind,
    /// Its words are damaged.
    Words,
}

/// The records of one stream.
pub(super) trait Record: Sized {
    /// Which stream.
    const STREAM: KnownStream;

    /// Appends its fields, and returns its kind, a number from 1 on within the stream.
    fn put(&self, words: &mut Vec<u64>) -> u16;

    /// The inverse.
    fn read(kind: u16, fields: &mut Fields<'_>) -> Result<Self, Unreadable>;
}

/// The longest text that an event carries; longer ones are cut.
const MAX_TEXT_BYTES: usize = 4096;

/// Appends a text: its length in bytes, then the bytes, padded with zeros to whole words.
pub(super) fn put_text(words: &mut Vec<u64>, text: &str) {
    let mut length = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(length) {
        length -= 1;
    }
    words.push(length as u64);
    for bytes in text.as_bytes()[..length].chunks(8) {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        words.push(u64::from_le_bytes(word));
    }
}

/// Takes fields from the words of an event.
pub(super) struct Fields<'a> {
    words: &'a [u64],
}

impl<'a> Fields<'a> {
    pub(super) fn new(words: &'a [u64]) -> Fields<'a> {
        Fields { words }
    }

    pub(super) fn word(&mut self) -> Result<u64, Unreadable> {
        let (&first, rest) = self.words.split_first().ok_or(Unreadable::Words)?;
        self.words = rest;
        Ok(first)
    }

    /// A word with a value of a narrower type.
    pub(super) fn number<Narrow: TryFrom<u64>>(&mut self) -> Result<Narrow, Unreadable> {
        Narrow::try_from(self.word()?).map_err(|_| Unreadable::Words)
    }

    /// A word that stands for something, by the inverse of its number.
    pub(super) fn one_of<T>(&mut self, inverse: fn(u64) -> Option<T>) -> Result<T, Unreadable> {
        inverse(self.word()?).ok_or(Unreadable::Words)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u64; N], Unreadable> {
        let (&first, rest) = self.words.split_first_chunk().ok_or(Unreadable::Words)?;
        self.words = rest;
        Ok(first)
    }

    pub(super) fn text(&mut self) -> Result<String, Unreadable> {
        let length = self.word()?;
        if length > self.words.len() as u64 * 8 {
            return Err(Unreadable::Words);
        }
        let (text, rest) = self.words.split_at((length as usize).div_ceil(8));
        self.words = rest;
        let mut bytes: Vec<u8> = text.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(length as usize);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
