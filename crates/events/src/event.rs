//! What happens in a program besides memory accesses: one module for each stream, with what its
//! records are, and how they are words.

mod call_order;
mod instructions;
mod known;
mod losses;
mod mappings;
mod memory_effects;
mod processes;
mod spans;
mod synchronisation;
mod system_calls;
mod tags;
mod threads;
mod words;

pub use call_order::{CallOrder, Carries, call_order};
pub use instructions::InstructionEvent;
pub use known::KnownStream;
pub(crate) use known::StreamSet;
pub use losses::Loss;
pub use mappings::Mapping;
pub use memory_effects::MemoryEffect;
pub use processes::ProcessEvent;
pub use spans::{Dependence, Span};
pub use synchronisation::{SyncOperation, Synchronisation};
pub use system_calls::SystemCall;
pub(crate) use tags::stream_of_tag;
pub use threads::ThreadEvent;
pub use words::EventError;

use crate::raw::{SpecialKind, special_header};
use words::{Fields, Record, Unreadable};

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($record:ty),)*) => {
        /// Something that happened in one thread, at one time: a record of one of the streams.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum Event {
            $($(#[$doc])* $name($record),)*
        }

        $(impl From<$record> for Event {
            fn from(record: $record) -> Event {
                Event::$name(record)
            }
        })*

        impl Event {
            /// Whose record it is.
            #[must_use]
            pub fn stream(&self) -> KnownStream {
                match self {
                    $(Event::$name(_) => <$record>::STREAM,)*
                }
            }

            fn put(&self, words: &mut Vec<u64>) -> u16 {
                match self {
                    $(Event::$name(record) => record.put(words),)*
                }
            }

            fn read(stream: KnownStream, kind: u16, fields: &mut Fields<'_>) -> Result<Event, Unreadable> {
                $(if stream == <$record>::STREAM {
                    return <$record>::read(kind, fields).map(Event::$name);
                })*
                Err(Unreadable::Kind)
            }
        }
    };
}

events! {
    /// A thread comes, goes, or says who it is.
    Thread(ThreadEvent),
    /// Threads synchronised.
    Synchronisation(Synchronisation),
    /// A system call begins or ends.
    SystemCall(SystemCall),
    /// The kernel read or wrote the program's memory.
    MemoryEffect(MemoryEffect),
    /// What is mapped where changed.
    Mapping(Mapping),
    /// The thread enters or leaves something.
    Span(Span),
    /// An instruction did something that is no access.
    Instruction(InstructionEvent),
    /// The process forks, or becomes another program.
    Process(ProcessEvent),
    /// Records were lost.
    Loss(Loss),
}

impl Event {
    /// Appends the complete record of the event: header and words. Texts longer than 4096
    /// bytes are cut.
    pub fn encode(&self, words: &mut Vec<u64>) {
        let start = words.len();
        words.push(0);
        let kind = self.put(words);
        let argument = u64::from(self.stream().number().0) << 16 | u64::from(kind);
        words[start] = special_header(SpecialKind::Event, argument, words.len() - start - 1);
    }

    /// The event of this kind in a stream, with these words. More words than the event needs are
    /// ignored.
    ///
    /// # Errors
    /// If there is no such event.
    pub fn decode(stream: KnownStream, kind: u16, words: &[u64]) -> Result<Event, EventError> {
        let name = stream.name();
        Event::read(stream, kind, &mut Fields::new(words)).map_err(|why| match why {
            Unreadable::Kind => EventError::UnknownKind { stream: name, kind },
            Unreadable::Words => EventError::Damaged { stream: name, kind },
        })
    }
}

#[cfg(test)]
mod tests;
