//! What was found, by the pair of places, and what may still explain it.
//!
//! By which words threads synchronise is learnt while they run: a lock may have been released by a
//! plain store before anybody took it with a locked instruction. So where a plain load reads what a
//! plain store of another thread has left, and nothing orders the two, the order that it would make
//! is kept (a *late edge*). At the end the words are known, and races are dropped that are on such
//! words, or between accesses that late edges order.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use unspool_events::ThreadId;

use super::atomicity::Suspect;
use super::cell::{Bytes, Record};
use super::clock::{Epoch, Slot, VectorClock};
use super::sites::{SiteId, Sites};
use super::threads::HeldLocks;
use super::words::Words;
use crate::heap::BlockId;

/// Pairs of places that are kept.
const PAIRS_KEPT: usize = 1 << 14;
/// Pairs of the same two places that are told apart by the calls that led there: what comes by others
/// is counted with the first.
const PATHS_KEPT: u32 = 64;
/// Occurrences of one pair that are kept, to be explained or shown: so many of the first, and as many
/// of the last.
const EXAMPLES_KEPT: usize = 8;

/// A place, and what is done there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    pub(super) circumstances: Circumstances,
}

/// What else is told of two accesses that have met.
#[derive(Debug, Clone)]
pub(super) struct Circumstances {
    /// The block of the heap that has the first byte that both accessed.
    pub(super) block: Option<BlockId>,
    /// The locks that each thread held, if that is known.
    pub(super) locks: [Option<HeldLocks>; 2],
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

impl Meeting<'_> {
    pub(super) fn suspect(&self) -> Suspect {
        Suspect {
            sites: [self.first.site(), self.second.site()],
            cell: self.cell,
            bytes: self.first.bytes() & self.second.bytes(),
        }
    }
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
    suspect: Suspect,
    /// What the storing thread knew.
    from: VectorClock,
    to: Epoch,
    moment: Moment,
}

/// The last edge from the stores of an epoch to some bytes into a thread.
#[derive(Debug, Clone, Copy)]
struct LastEdge {
    number: usize,
    /// Whether that epoch had ended: what its stores tell is all in the edge.
    is_final: bool,
}

/// All that was found.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pairs: FxHashMap<(Side, Side), Pair>,
    /// The first of the pairs that are the same but for the calls that led there, and how many these are.
    same_places: FxHashMap<(Side, Side), ((Side, Side), u32)>,
    edges: Vec<LateEdge>,
    bytes_of_edges: usize,
    most_bytes_of_edges: usize,
    /// The last edge from the stores of an epoch to these bytes into a thread.
    last_edges: FxHashMap<(u64, Bytes, Epoch, Slot), LastEdge>,
    /// When the first late edge came that is not kept: what comes behind it may be explained by it.
    pub(super) complete_until: Option<Moment>,
    /// Occurrences of pairs that are not kept.
    pub(super) beyond: u64,
}

impl LateEdge {
    /// What one takes besides its clock, with its entry among the last ones and room to grow.
    const BYTES: usize =
        2 * size_of::<LateEdge>() + 2 * size_of::<((u64, Bytes, Epoch, Slot), LastEdge)>();
}

impl Findings {
    /// Late edges are kept as long as they take no more than so many bytes.
    pub(super) fn new(most_bytes_of_edges: usize) -> Findings {
        Findings {
            most_bytes_of_edges,
            ..Findings::default()
        }
    }

    /// Two accesses have met. The circumstances are asked for where this is kept.
    pub(super) fn add(
        &mut self,
        meeting: &Meeting,
        sites: &Sites,
        circumstances: impl FnOnce() -> Circumstances,
    ) {
        let side = |record: Record| Side {
            site: record.site(),
            is_write: record.is_write(),
        };
        let key = (side(meeting.first), side(meeting.second));
        let key = self.as_kept(key, sites);
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
        let example = Example {
            cell: meeting.cell,
            bytes: meeting.first.bytes() & meeting.second.bytes(),
            first_thread: meeting.first_thread,
            second_thread: meeting.second_thread,
            time: meeting.time,
            first: meeting.first.epoch,
            second: meeting.clock.clone(),
            moment: meeting.moment,
            circumstances: circumstances(),
        };
        if pair.examples.len() == 2 * EXAMPLES_KEPT {
            pair.examples.remove(EXAMPLES_KEPT);
        }
        pair.examples.push(example);
    }

    /// Whether a pair of these two places is among those found, in whichever order and by whichever calls.
    pub(super) fn has_places(&self, first: Side, second: Side, sites: &Sites) -> bool {
        let [first, second] = [first, second].map(|side| without_calls(side, sites));
        let has = |pair| self.same_places.contains_key(&pair);
        has((first, second)) || has((second, first))
    }

    /// The pair with which this one is counted.
    fn as_kept(&mut self, pair: (Side, Side), sites: &Sites) -> (Side, Side) {
        if self.pairs.contains_key(&pair) {
            return pair;
        }
        let places = (without_calls(pair.0, sites), without_calls(pair.1, sites));
        let (first, paths) = self.same_places.entry(places).or_insert((pair, 0));
        match *paths < PATHS_KEPT {
            true => {
                *paths += 1;
                pair
            }
            false => *first,
        }
    }

    /// A plain load has read what a plain store left; `writer` is what the storing thread knows.
    pub(super) fn add_late_edge(&mut self, meeting: &Meeting, writer: &VectorClock) {
        let suspect = meeting.suspect();
        let (first, second) = (meeting.first.epoch, meeting.second.epoch);
        let mut from = writer.clone();
        // Of what the storing thread has done, only that epoch.
        from.set(first.slot(), first.clock());
        let key = (suspect.cell, suspect.bytes, first, second.slot());
        let last = self.last_edges.get(&key);
        if last.is_some_and(|last| last.is_final || self.edges[last.number].from == from) {
            return;
        }
        self.bytes_of_edges += LateEdge::BYTES + from.bytes();
        if self.bytes_of_edges > self.most_bytes_of_edges {
            self.complete_until.get_or_insert(meeting.moment);
            return;
        }
        let last = LastEdge {
            number: self.edges.len(),
            is_final: writer.get(first.slot()) != first.clock(),
        };
        self.last_edges.insert(key, last);
        self.edges.push(LateEdge {
            suspect,
            from,
            to: second,
            moment: meeting.moment,
        });
    }

    /// What may be accesses to words that threads synchronise by.
    pub(super) fn suspects(&self) -> impl Iterator<Item = Suspect> {
        let met = self.pairs.iter().flat_map(|(sides, pair)| {
            let examples = pair.examples.iter();
            examples.map(move |example| example.suspect(sides))
        });
        let read = self.edges.iter().map(|edge| edge.suspect);
        met.chain(read)
    }

    /// The pairs of which something is left, with the occurrences that are, where the plain moves for
    /// which `is_atomic` holds are atomic, and those to words by which threads synchronise.
    pub(super) fn unexplained(
        &self,
        words: &Words,
        is_atomic: impl Fn(&Suspect) -> bool,
    ) -> BTreeMap<(Side, Side), Pair> {
        let explains =
            |suspect: &Suspect| words.were_any(suspect.cell, suspect.bytes) || is_atomic(suspect);
        let edges = self.edges.iter().filter(|edge| explains(&edge.suspect));
        let edges: Vec<&LateEdge> = edges.collect();
        let pairs = self.pairs.iter().filter_map(|(sides, pair)| {
            let left = pair.unexplained(|example| {
                explains(&example.suspect(sides)) || example.is_ordered_by(&edges)
            });
            left.map(|left| (*sides, left))
        });
        pairs.collect()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes_of_edges + self.pairs.len() * 2 * EXAMPLES_KEPT * size_of::<Example>()
    }
}

/// The same, whatever calls led there.
fn without_calls(side: Side, sites: &Sites) -> Side {
    Side {
        site: sites.without_calls(side.site),
        ..side
    }
}

impl Pair {
    /// Whether an edge that is not kept may explain what is left.
    pub(super) fn is_uncertain(&self, complete_until: Option<Moment>) -> bool {
        complete_until.is_some_and(|end| self.examples[0].moment >= end)
    }

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
    fn suspect(&self, (first, second): &(Side, Side)) -> Suspect {
        Suspect {
            sites: [first.site, second.site],
            cell: self.cell,
            bytes: self.bytes,
        }
    }

    /// Whether the first access came before the second by these edges, which are in order of time. What
    /// led to a store was learnt before it.
    fn is_ordered_by(&self, edges: &[&LateEdge]) -> bool {
        let earlier = edges.partition_point(|edge| edge.moment < self.moment);
        let mut known = self.second.clone();
        for edge in edges[..earlier].iter().rev() {
            if edge.moment.generation != self.moment.generation {
                return false;
            }
            if known.covers(edge.to) {
                known.join(&edge.from);
                if known.covers(self.first) {
                    return true;
                }
            }
        }
        false
    }
}
