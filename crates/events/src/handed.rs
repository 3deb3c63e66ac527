//! Raw words of one thread as they are handed over in the observed process: never packed.

use rustc_hash::FxHashMap;

use crate::clock::Clock;
use crate::codec::{meaningful, payload_words};
use crate::expand::{RecordKind, keep_time};
use crate::paths::OwnedPath;
use crate::tables::Tables;
use unspool_container::Order;

/// Whole records that were handed over together.
#[derive(Debug)]
pub(crate) struct Handed {
    words: Vec<u64>,
    /// For each record, which of [`Kinds`] it is.
    kinds: Vec<u32>,
    next_word: usize,
    next_record: usize,
    /// The thread's time before the first record.
    pub(crate) start_time: u64,
    /// The thread's time after the last.
    pub(crate) end_time: u64,
}

impl Handed {
    /// How many words it has.
    pub(crate) fn words(&self) -> usize {
        self.words.len()
    }

    /// The next record: its kind and its words.
    pub(crate) fn next_record(&mut self) -> Option<(u32, &[u64])> {
        let kind = *self.kinds.get(self.next_record)?;
        let start = self.next_word + 1;
        let end = start + payload_words(self.words[self.next_word]);
        self.next_record += 1;
        self.next_word = end;
        Some((kind, &self.words[start..end]))
    }
}

/// What the records of a thread are, by their headers, and the thread's time after all that was
/// handed over.
#[derive(Debug)]
pub(crate) struct Kinds {
    all: Vec<RecordKind<OwnedPath>>,
    by_header: FxHashMap<u64, u32>,
    /// Of which path ids `by_header` knows the meaning.
    generation: u64,
    clock: Clock,
}

impl Kinds {
    /// Of a thread of which nothing has come.
    pub(crate) fn new(order: Order) -> Kinds {
        Kinds {
            all: Vec::new(),
            by_header: FxHashMap::default(),
            generation: 0,
            clock: Clock::new(order, 0),
        }
    }

    /// What a record is.
    pub(crate) fn get(&self, kind: u32) -> &RecordKind<OwnedPath> {
        &self.all[kind as usize]
    }

    /// Takes whole records, whose path ids are of this generation. Words behind the last whole
    /// record are left out, and counted in the second result.
    pub(crate) fn take(
        &mut self,
        words: Vec<u64>,
        generation: u64,
        tables: &Tables,
    ) -> (Handed, usize) {
        if generation != self.generation {
            self.generation = generation;
            self.by_header.clear();
        }
        let start_time = self.clock.time();
        let mut kinds = Vec::new();
        let mut at = 0;
        while let Some(&header) = words.get(at) {
            let end = at + 1 + payload_words(header);
            let Some(payload) = words.get(at + 1..end) else {
                break;
            };
            let kind = self.kind_of(meaningful(header), tables);
            keep_time(&self.all[kind as usize], payload, &mut self.clock);
            kinds.push(kind);
            at = end;
        }
        let rest = words.len() - at;
        let handed = Handed {
            words,
            kinds,
            next_word: 0,
            next_record: 0,
            start_time,
            end_time: self.clock.time(),
        };
        (handed, rest)
    }

    fn kind_of(&mut self, header: u64, tables: &Tables) -> u32 {
        if let Some(&kind) = self.by_header.get(&header) {
            return kind;
        }
        let kind = self.all.len() as u32;
        let paths = tables.paths.of(self.generation);
        let meaning = RecordKind::new(header, paths, &tables.streams).into_owned();
        self.all.push(meaning);
        self.by_header.insert(header, kind);
        kind
    }
}
