//! Events as words of the raw stream.

use crate::event::Event;

/// The words of an event cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    /// No event has this tag.
    #[error("no event has the tag {0}")]
    UnknownTag(u64),
    /// There are fewer words than the event needs, or one has a value that it cannot have.
    #[error("the words of an event with tag {0} are damaged")]
    Damaged(u64),
}

impl Event {
    /// Appends the complete record of the event: header and words.
    pub fn encode(&self, words: &mut Vec<u64>) {
        let _ = words;
        todo!()
    }

    /// The event with this tag (the argument of the record's header) and these words.
    ///
    /// # Errors
    /// If there is no such event.
    pub fn decode(tag: u64, words: &[u64]) -> Result<Event, EventError> {
        let _ = (tag, words);
        todo!()
    }
}
