//! The stream `counters`. No observer writes it yet.

use super::KnownStream;
use super::words::{Fields, Record, Unreadable, put_text};

/// The value of a counter, from this time on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counter {
    /// What is counted, its unit last.
    pub name: String,
    /// How much there is of it.
    pub value: u64,
}

impl Record for Counter {
    const STREAM: KnownStream = KnownStream::Counters;

    fn put(&self, words: &mut Vec<u64>) -> u16 {
        words.push(self.value);
        put_text(words, &self.name);
        1
    }

    fn read(kind: u16, fields: &mut Fields<'_>) -> Result<Counter, Unreadable> {
        if kind != 1 {
            return Err(Unreadable::Kind);
        }
        Ok(Counter {
            value: fields.word()?,
            name: fields.text()?,
        })
    }
}
