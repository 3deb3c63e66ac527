//! What was found, by the pair of places, and what may still explain it.
//!
//! By which words threads synchronise is learnt while they run: a lock may have been released by a
//! plain store before anybody took it with a locked instruction. So where a plain load reads what a
//! plain store of another thread has left, and nothing orders the two, the order that it would make
//! is kept (a *late edge*). At the end the words are known, and races are dropped that are on such
//! words, or between accesses that late edges order.

use rustc_hash::{FxHashMap, FxHashSet};
use unspool_events::ThreadId;

use super::cell::{Bytes, Record};
use super::clock::{Epoch, VectorClock};
use super::sites::SiteId;
use super::words::Words;

/// Pairs of places that are kept.
const PAIRS_KEPT: usize = 1 << 14;
/// Occurrences of one pair that are kept, to be explained or shown.
const EXAMPLES_KEPT: usize = 16;
/// Late edges of one word that are kept.
const EDGES_OF_A_WORD: u32 = 1 << 10;
/// Late edges that are kept.
const EDGES_KEPT: usize = 1 << 18;

/// A place, and what is done there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Side {
    pub(super) site: SiteId,
    pub(super) is_write: bool,
}

/// One time that two accesses met.
#[derive(Debug, Clone)]
pub(super) struct Example {
    pub(super) cell: u64,
    /// The bytes that both accessed.
    pub(super) bytes: Bytes,
    pub(super) first_thread: ThreadId,
    pub(super) second_thread: ThreadId,
    /// When the second came, in the trace's order.
    pub(super) time: u64,
    first: Epoch,
    /// What came before the second.
    second: VectorClock,
    moment: Moment,
}

/// When something was seen: how often all was begun anew before, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Moment {
    pub(super) generation: u32,
    pub(super) number: u64,
}

/// Two accesses that nothing orders.
#[derive(Debug)]
pub(super) struct Meeting<'a> {
    pub(super) cell: u64,
    pub(super) first: Record,
    pub(super) first_thread: ThreadId,
    pub(super) second: Record,
    pub(super) second_thread: ThreadId,
    pub(super) clock: &'a VectorClock,
    pub(super) time: u64,
    pub(super) moment: Moment,
}

/// The occurrences of a pair.
#[derive(Debug, Clone, Default)]
pub(super) struct Pair {
    pub(super) count: u64,
    pub(super) examples: Vec<Example>,
    /// Which access was counted last: it may meet the other in several cells.
    last: Option<Moment>,
}

/// What a plain load would have learnt of a plain store, if they were atomic.
#[derive(Debug)]
struct LateEdge {
    cell: u64,
    bytes: Bytes,
    sites: [SiteId; 2],
    /// What the storing thread knew.
    from: VectorClock,
    to: Epoch,
    moment: Moment,
}

/// All that was found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pairs: FxHashMap<(Side, Side), Pair>,
    edges: Vec<LateEdge>,
    known_edges: FxHashSet<(u64, Epoch, Epoch)>,
    edges_of_words: FxHashMap<u64, u32>,
    /// Occurrences of pairs that are not kept.
    pub(super) beyond: u64,
}

impl Findings {
    /// Two accesses have met.
    pub(super) fn add(&mut self, meeting: &Meeting) {
        let side = |record: Record| Side {
            site: record.site(),
            is_write: record.is_write(),
        };
        let key = (side(meeting.first), side(meeting.second));
        if self.pairs.len() >= PAIRS_KEPT && !self.pairs.contains_key(&key) {
            self.beyond += 1;
            return;
        }
        let pair = self.pairs.entry(key).or_default();
        if pair.last == Some(meeting.moment) {
            return;
        }
        pair.last = Some(meeting.moment);
        pair.count += 1;
        if pair.examples.len() < EXAMPLES_KEPT {
            pair.examples.push(Example {
                cell: meeting.cell,
                bytes: meeting.first.bytes() & meeting.second.bytes(),
                first_thread: meeting.first_thread,
                second_thread: meeting.second_thread,
                time: meeting.time,
                first: meeting.first.epoch,
                second: meeting.clock.clone(),
                moment: meeting.moment,
            });
        }
    }

    /// A plain load has read what a plain store left; `writer` is what the storing thread knows.
    pub(super) fn add_late_edge(&mut self, meeting: &Meeting, writer: &VectorClock) {
        let (first, second) = (meeting.first, meeting.second);
        let of_word = self.edges_of_words.entry(meeting.cell).or_default();
        let is_full = *of_word >= EDGES_OF_A_WORD || self.edges.len() >= EDGES_KEPT;
        let key = (meeting.cell, first.epoch, second.epoch);
        if is_full || !self.known_edges.insert(key) {
            return;
        }
        *of_word += 1;
        let mut from = writer.clone();
        // Of what the storing thread has done, only that epoch.
        from.set(first.epoch.slot(), first.epoch.clock());
        self.edges.push(LateEdge {
            cell: meeting.cell,
            bytes: first.bytes() & second.bytes(),
            sites: [first.site(), second.site()],
            from,
            to: second.epoch,
            moment: meeting.moment,
        });
    }

    /// The pairs of which something is left, now that these words are known, with the occurrences
    /// that are. `is_atomic` says whether a site, or what is at an address, is atomic by what the
    /// source says.
    pub(super) fn unexplained(
        &self,
        words: &Words,
        mut is_atomic: impl FnMut([SiteId; 2], u64) -> bool,
    ) -> Vec<((Side, Side), Pair)> {
        let mut atomic_words: FxHashMap<u64, Bytes> = FxHashMap::default();
        let met = self.pairs.iter().flat_map(|((first, second), pair)| {
            let sites = [first.site, second.site];
            pair.examples
                .iter()
                .map(move |example| (sites, example.cell, example.bytes))
        });
        let read = self
            .edges
            .iter()
            .map(|edge| (edge.sites, edge.cell, edge.bytes));
        for (sites, cell, bytes) in met.chain(read) {
            let known = atomic_words
                .get(&cell)
                .is_some_and(|known| known & bytes == bytes);
            if !known && is_atomic(sites, cell + u64::from(bytes.trailing_zeros())) {
                *atomic_words.entry(cell).or_default() |= bytes;
            }
        }
        let is_word = |cell, bytes| {
            let atomic = atomic_words.get(&cell);
            words.were_any(cell, bytes) || atomic.is_some_and(|atomic| atomic & bytes != 0)
        };
        let edges = self.edges.iter();
        let edges: Vec<&LateEdge> = edges
            .filter(|edge| is_word(edge.cell, edge.bytes))
            .collect();
        let pairs = self.pairs.iter().filter_map(|(sides, pair)| {
            let left = pair.unexplained(|example| {
                is_word(example.cell, example.bytes) || example.is_ordered_by(&edges)
            });
            left.map(|left| (*sides, left))
        });
        pairs.collect()
    }

    pub(super) fn bytes(&self) -> usize {
        self.edges.len() * size_of::<LateEdge>() * 2
            + self.pairs.len() * EXAMPLES_KEPT * size_of::<Example>()
    }
}

impl Pair {
    /// What is left, if anything is.
    fn unexplained(&self, is_explained: impl Fn(&Example) -> bool) -> Option<Pair> {
        let examples = self.examples.iter();
        let left = examples.filter(|example| !is_explained(example));
        let examples: Vec<Example> = left.cloned().collect();
        // What is not kept cannot be explained, and is counted as what is kept.
        let explained = (self.examples.len() - examples.len()) as u64;
        let is_left = !examples.is_empty();
        is_left.then(|| Pair {
            count: self.count - explained,
            examples,
            last: None,
        })
    }
}

impl Example {
    /// Whether the first access came before the second by these edges.
    fn is_ordered_by(&self, edges: &[&LateEdge]) -> bool {
        let edges = edges.iter().filter(|edge| {
            edge.moment.generation == self.moment.generation
                && edge.moment.number < self.moment.number
        });
        let mut rest: Vec<&LateEdge> = edges.copied().collect();
        let mut known = self.second.clone();
        loop {
            let before = rest.len();
            rest.retain(|edge| {
                let is_known = known.covers(edge.to);
                if is_known {
                    known.join(&edge.from);
                }
                !is_known
            });
            if known.covers(self.first) {
                return true;
            }
            if rest.len() == before {
                return false;
            }
        }
    }
}
