//! The stream `losses`.

use super::KnownStream;
use super::words::{Fields, Record, Unreadable, put_text};

/// Records were lost, and why. Readers give one, too, where they miss something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// How many words of the raw stream.
    pub words: u64,
    /// Why, for people.
    pub reason: String,
}

impl Record for Loss {
    const STREAM: KnownStream = KnownStream::Losses;

    fn put(&self, words: &mut Vec<u64>) -> u16 {
        words.push(self.words);
        put_text(words, &self.reason);
        1
    }

    fn read(kind: u16, fields: &mut Fields<'_>) -> Result<Loss, Unreadable> {
        if kind != 1 {
            return Err(Unreadable::Kind);
        }
        Ok(Loss {
            words: fields.word()?,
            reason: fields.text()?,
        })
    }
}
