//! The stream `messages`. No observer writes it yet.

use super::KnownStream;
use super::words::{Fields, Record, Unreadable};

/// Which way a message goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum MessageDirection {
    /// The process has given it away.
    Sent = 0,
    /// The process has got it.
    Received = 1,
}

impl MessageDirection {
    /// The inverse of `direction as u64`.
    #[must_use]
    pub fn from_u64(value: u64) -> Option<MessageDirection> {
        match value {
            0 => Some(MessageDirection::Sent),
            1 => Some(MessageDirection::Received),
            _ => None,
        }
    }
}

/// The process sent something to another, or got it, as MPI does. A message that was sent and the
/// one that was received are the same if communicator and tag are, each is the other's peer, and as
/// many like it came before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Which way it goes.
    pub direction: MessageDirection,
    /// The rank of the other process within the communicator.
    pub peer: u32,
    /// Among which processes it goes.
    pub communicator: u64,
    /// What the program calls it.
    pub tag: i64,
    /// How long it is.
    pub bytes: u64,
}

impl Record for Message {
    const STREAM: KnownStream = KnownStream::Messages;

    fn put(&self, words: &mut Vec<u64>) -> u16 {
        words.extend([
            self.direction as u64,
            u64::from(self.peer),
            self.communicator,
            self.tag as u64,
            self.bytes,
        ]);
        1
    }

    fn read(kind: u16, fields: &mut Fields<'_>) -> Result<Message, Unreadable> {
        if kind != 1 {
            return Err(Unreadable::Kind);
        }
        Ok(Message {
            direction: fields.one_of(MessageDirection::from_u64)?,
            peer: fields.number()?,
            communicator: fields.word()?,
            tag: fields.word()? as i64,
            bytes: fields.word()?,
        })
    }
}
