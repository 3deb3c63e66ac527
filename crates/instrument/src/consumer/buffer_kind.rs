//! What is known of a buffer: what is in it, and what gets it.

use std::io;
use std::panic::Location;

use super::{Consume, PAGE};

/// What gets a batch: what the tool keeps for the thread, the address of the first entry, and how
/// many there are. It runs in the thread that made them, on the engine's stack, and must return.
pub type Deliver = extern "C" fn(*mut (), *const u8, usize);

/// What gets the batches of a buffer.
#[derive(Debug, Clone, Copy)]
pub enum Receiver {
    /// A function, which looks at the entries where they are.
    Function(Deliver),
    /// A thread of its own, whose batches they are. At most so many can be there at one time.
    Consumer {
        /// What that thread calls.
        consume: Consume,
        /// The most batches that are handed over and not given back.
        most_filled: usize,
    },
}

/// What is known of a buffer.
#[derive(Debug, Clone, Copy)]
pub struct BufferKind {
    /// The most entries of a batch; it can be some more, since a page is not divided.
    pub entries: usize,
    /// Bytes of an entry: a multiple of its alignment, which is 8 at most.
    pub entry_size: usize,
    /// What gets the batches.
    pub receiver: Receiver,
    /// Whether a batch ends at each system call of its thread.
    pub at_system_calls: bool,
    /// Where the tool makes it.
    pub made_at: &'static Location<'static>,
}

impl BufferKind {
    pub(crate) fn consumer(&self) -> Option<(Consume, usize)> {
        match self.receiver {
            Receiver::Function(_) => None,
            Receiver::Consumer {
                consume,
                most_filled,
            } => Some((consume, most_filled)),
        }
    }

    /// Bytes of a thread's part of it.
    pub(crate) fn part_size(&self) -> usize {
        (self.entries * self.entry_size).next_multiple_of(PAGE as usize)
    }

    /// That there is no memory for a thread's part of it.
    pub(crate) fn lacks_memory(&self, error: &io::Error) -> String {
        format!(
            "no memory for a thread's buffer of {} bytes, which the tool makes at {}: {error}\nhelp: have the tool make it smaller",
            self.part_size(),
            self.made_at
        )
    }
}
