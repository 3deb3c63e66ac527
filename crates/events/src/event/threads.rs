//! The stream `threads`.

use super::KnownStream;
use super::words::{Fields, Record, Unreadable, put_text};
use crate::id::ThreadId;

/// A thread comes, goes, or says who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ThreadEvent {
    /// The thread begins. First event of every thread.
    Start {
        /// The kernel's thread id.
        os_thread: u32,
        /// The thread that created it; none for the first.
        parent: Option<ThreadId>,
    },
    /// The program gave the thread a number and a name (`unspool_register_thread`).
    Registered {
        /// The program's number for the thread.
        number: i64,
        /// The program's name for the thread; may be empty.
        name: String,
    },
    /// The thread ends. Last event of every thread that ended while observed.
    End,
    /// The thread pointer (FS base) changed.
    Pointer {
        /// Its new value.
        address: u64,
        /// The most bytes that thread-local variables take below it, of the modules that are
        /// mapped at this time or may be later; none in traces that were recorded without it.
        variables: Option<u64>,
    },
    /// Control changed outside the program's own flow: a signal handler starts. The next
    /// access may follow another one than the code suggests.
    HandlerCalled {
        /// The signal.
        signal: u32,
    },
    /// The thread's clock was moved forward so that threads stay close (`--max-skew`).
    ClockMoved,
}

impl Record for ThreadEvent {
    const STREAM: KnownStream = KnownStream::Threads;

    fn put(&self, words: &mut Vec<u64>) -> u16 {
        match self {
            ThreadEvent::Start { os_thread, parent } => {
                words.push(u64::from(*os_thread));
                words.push(parent.map_or(0, |parent| u64::from(parent.0) + 1));
                1
            }
            ThreadEvent::Registered { number, name } => {
                words.push(*number as u64);
                put_text(words, name);
                2
            }
            ThreadEvent::End => 3,
            ThreadEvent::Pointer { address, variables } => {
                words.push(*address);
                words.extend(variables);
                4
            }
            ThreadEvent::HandlerCalled { signal } => {
                words.push(u64::from(*signal));
                5
            }
            ThreadEvent::ClockMoved => 6,
        }
    }

    fn read(kind: u16, fields: &mut Fields<'_>) -> Result<ThreadEvent, Unreadable> {
        Ok(match kind {
            1 => ThreadEvent::Start {
                os_thread: fields.number()?,
                parent: match fields.word()? {
                    0 => None,
                    parent => {
                        let parent = u32::try_from(parent - 1).map_err(|_| Unreadable::Words)?;
                        Some(ThreadId(parent))
                    }
                },
            },
            2 => ThreadEvent::Registered {
                number: fields.word()? as i64,
                name: fields.text()?,
            },
            3 => ThreadEvent::End,
            4 => ThreadEvent::Pointer {
                address: fields.word()?,
                variables: fields.word().ok(),
            },
            5 => ThreadEvent::HandlerCalled {
                signal: fields.number()?,
            },
            6 => ThreadEvent::ClockMoved,
            _ => return Err(Unreadable::Kind),
        })
    }
}
