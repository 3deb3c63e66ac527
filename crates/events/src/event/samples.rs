//! The stream `samples`. No observer writes it yet.

use super::KnownStream;
use super::words::{Fields, Record, Unreadable, put_text};

/// The most return addresses that a sample carries.
pub const MOST_FRAMES: usize = 8192;

/// The thread was found somewhere when something had happened often enough: a timer or a counter
/// of the processor had run out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// What had happened, its unit last: `processor_ns`, `cache_misses`.
    pub what: String,
    /// For how much of it the sample stands.
    pub weight: u64,
    /// The next instruction, and then the return addresses of the calls that led to it, the
    /// innermost first. Longer than [`MOST_FRAMES`] + 1 it is cut when it is written.
    pub stack: Vec<u64>,
    /// Whether there were more calls than the stack has.
    pub is_cut: bool,
}

impl Record for Sample {
    const STREAM: KnownStream = KnownStream::Samples;

    fn put(&self, words: &mut Vec<u64>) -> u16 {
        let kept = self.stack.len().min(MOST_FRAMES + 1);
        let is_cut = self.is_cut || kept < self.stack.len();
        words.extend([self.weight, u64::from(is_cut), kept as u64]);
        words.extend(&self.stack[..kept]);
        put_text(words, &self.what);
        1
    }

    fn read(kind: u16, fields: &mut Fields<'_>) -> Result<Sample, Unreadable> {
        if kind != 1 {
            return Err(Unreadable::Kind);
        }
        let (weight, is_cut) = (fields.word()?, fields.word()? != 0);
        let stack = fields.list()?;
        Ok(Sample {
            what: fields.text()?,
            weight,
            stack,
            is_cut,
        })
    }
}
