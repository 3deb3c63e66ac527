//! When modules came and went, found without reading what else happened.

use super::Trace;
use super::contents::read_chunk;
use super::index::IndexEntry;
use crate::codec::distinct_headers;
use crate::event::{Event, KnownStream, Mapping};
use crate::handed::Kinds;
use crate::id::ThreadId;
use crate::raw::{Header, SpecialKind};
use crate::sink::Sink;
use crate::streams::{EventKind, Streams};
use crate::thread_decoder::ThreadDecoder;

impl Trace {
    /// The events of modules that were loaded and unloaded, with their times, thread by thread.
    ///
    /// Reads the whole file where events are everywhere in it, but unpacks only those chunks that
    /// have such events. What cannot be read is left out: those who read the chunks tell of it.
    #[must_use]
    pub fn module_events(&self) -> Vec<(u64, Mapping)> {
        let mut found = Found::default();
        for info in self.threads() {
            let chunks = self.chunks_of(info.thread).iter();
            for entry in chunks.filter(|entry| entry.header.counts.events > 0) {
                self.find_module_events(info.thread, entry, &mut found);
            }
        }
        found.events
    }

    fn find_module_events(&self, thread: ThreadId, entry: &IndexEntry, found: &mut Found) {
        let Ok((header, payload)) = read_chunk(self.file(), entry.offset) else {
            return;
        };
        if !distinct_headers(&payload, header.counts.words).is_ok_and(|all| {
            let mut all = all.into_iter();
            all.any(|header| is_of_module(header, &self.tables().streams))
        }) {
            return;
        }
        let order = self.header().order;
        let mut decoder = ThreadDecoder::new(thread, order, header.sequence);
        decoder.load(&header, &payload, self.tables());
        let kinds = Kinds::new(order);
        while decoder.fill(&kinds, false) {
            while decoder.deliver(None, found).is_some() {}
        }
    }
}

/// Whether records with this header are events of modules.
fn is_of_module(header: u64, streams: &Streams) -> bool {
    match Header::decode(header) {
        Header::Special {
            kind: Some(SpecialKind::Event),
            argument,
            ..
        } => match streams.event_kind(argument) {
            EventKind::Of(KnownStream::Mappings, kind) => Mapping::is_of_module(kind),
            _ => false,
        },
        _ => false,
    }
}

/// Keeps the events of modules.
#[derive(Debug, Default)]
struct Found {
    events: Vec<(u64, Mapping)>,
}

impl Sink for Found {
    fn event(&mut self, _: ThreadId, time: u64, event: &Event) {
        if let Event::Mapping(
            mapping @ (Mapping::ModuleLoad { .. } | Mapping::ModuleUnload { .. }),
        ) = event
        {
            self.events.push((time, *mapping));
        }
    }
}
