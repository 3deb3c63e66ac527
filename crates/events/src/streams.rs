//! The streams that a file declares.

use std::collections::BTreeMap;

use unspool_container::stream::{Declaration, Form, StreamNumber};

use crate::event::{KnownStream, stream_of_tag};
use crate::problem::Problem;

/// Whether the records of a stream are understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Understanding {
    /// They are.
    Known,
    /// It has a schema that is newer than the latest known one.
    NewerThan(u32),
    /// Its records are passed over: nothing here knows a stream of this name.
    Unknown,
    /// It has blocks, which whoever defines the stream understands.
    Blocks,
}

/// What an event record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// A record of this kind of a stream.
    Of(KnownStream, u16),
    /// One of a stream that is not understood.
    PassedOver(StreamNumber),
    /// Of files before streams were declared, and of none of their kinds.
    Unknown,
}

/// The declarations that were read.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    declared: BTreeMap<StreamNumber, Declaration>,
}

impl Streams {
    /// Takes declarations; a later one of the same number is the one that holds.
    pub(crate) fn declare(&mut self, all: Vec<Declaration>) {
        let numbered = all.into_iter().map(|stream| (stream.number, stream));
        self.declared.extend(numbered);
    }

    /// What is declared, by number.
    pub(crate) fn declared(&self) -> impl Iterator<Item = &Declaration> {
        self.declared.values()
    }

    /// What an event record with this argument is. A stream of the numbers that are this crate's own
    /// is that one also where its declaration was lost.
    pub(crate) fn event_kind(&self, argument: u64) -> EventKind {
        let number = StreamNumber((argument >> 16) as u16);
        let kind = argument as u16;
        if number == StreamNumber(0) {
            let (stream, kind) = match stream_of_tag(argument) {
                Some(found) => found,
                None => return EventKind::Unknown,
            };
            return EventKind::Of(stream, kind);
        }
        let stream = match self.declared.get(&number) {
            Some(declared) if understanding(declared) == Understanding::Known => {
                KnownStream::named(&declared.name)
            }
            Some(_) => None,
            None => KnownStream::ALL
                .iter()
                .copied()
                .find(|stream| stream.number() == number),
        };
        stream.map_or(EventKind::PassedOver(number), |stream| {
            EventKind::Of(stream, kind)
        })
    }

    /// Whether records of paths are understood.
    pub(crate) fn reads_accesses(&self) -> bool {
        let mut declared = self.declared.values();
        declared.all(|stream| {
            stream.name != KnownStream::Accesses.name()
                || understanding(stream) == Understanding::Known
        })
    }

    /// What cannot be read, though it should be.
    pub(crate) fn problems(&self) -> impl Iterator<Item = Problem> {
        self.declared
            .values()
            .filter_map(|stream| match understanding(stream) {
                Understanding::NewerThan(known) => Some(Problem::UnknownSchema {
                    stream: stream.name.to_string(),
                    found: stream.version,
                    known,
                }),
                _ => None,
            })
    }
}

/// Whether the records of a declared stream are understood.
pub(crate) fn understanding(stream: &Declaration) -> Understanding {
    match stream.form {
        Form::Blocks => Understanding::Blocks,
        Form::Records => match KnownStream::named(&stream.name) {
            None => Understanding::Unknown,
            Some(known) if stream.version > known.version() => {
                Understanding::NewerThan(known.version())
            }
            Some(_) => Understanding::Known,
        },
    }
}
