//! Merges what threads bring while they run, in the order (time, thread, position), as far as it is
//! settled: an item is given once every thread that has started and not ended has shown a newer one.
//!
//! What waits for its time is kept as it came, packed or in raw words, so memory grows with the
//! number of threads and with how far they are apart, not with the length of the run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use unspool_container::Order;
use unspool_container::chunk::ChunkHeader;

use crate::batch::Limit;
use crate::handed::{Handed, Kinds};
use crate::id::ThreadId;
use crate::problem::Problem;
use crate::sink::{Sink, is_given_executions};
use crate::tables::Tables;
use crate::thread_decoder::ThreadDecoder;

/// What threads have brought, and how far it was given.
#[derive(Debug)]
pub(crate) struct Merge {
    order: Order,
    /// What gives records a meaning.
    pub(crate) tables: Tables,
    threads: BTreeMap<ThreadId, RunningThread>,
    /// Threads of which everything has been given.
    ended: BTreeSet<ThreadId>,
    /// The latest time that was given.
    given_time: u64,
    /// Words that were handed over and are not expanded yet.
    waiting_words: usize,
    problems: Vec<Problem>,
}

/// A thread that has started.
#[derive(Debug)]
struct RunningThread {
    decoder: ThreadDecoder,
    kinds: Kinds,
    /// What has arrived and is not expanded yet.
    portions: VecDeque<Portion>,
    /// How many words the portion had that is being given.
    open_words: usize,
    /// No item that is still to arrive is earlier than this.
    reached: u64,
    /// Whether the last portion has arrived.
    finished: bool,
    /// Whether it was noted that its items come too late.
    late: bool,
}

/// A part of what a thread has recorded.
#[derive(Debug)]
enum Portion {
    /// A chunk of a file; without payload if that is damaged.
    Packed(ChunkHeader, Option<Vec<u8>>),
    /// Words from the same process.
    Handed(Handed),
}

impl Merge {
    /// Of a run of which nothing has come.
    pub(crate) fn new(order: Order) -> Merge {
        Merge {
            order,
            tables: Tables::default(),
            threads: BTreeMap::new(),
            ended: BTreeSet::new(),
            given_time: 0,
            waiting_words: 0,
            problems: Vec::new(),
        }
    }

    /// Takes a chunk of a thread; without payload if it is damaged.
    pub(crate) fn take_chunk(&mut self, header: ChunkHeader, payload: Option<Vec<u8>>) {
        let thread = self.thread(header.thread);
        thread.reached = thread.reached.max(header.end_time);
        thread.finished |= header.last_of_thread;
        thread.portions.push_back(Portion::Packed(header, payload));
    }

    /// Takes whole records of a thread, whose path ids are of this generation. Returns the time that
    /// the thread has reached.
    pub(crate) fn take_words(&mut self, id: ThreadId, words: Vec<u64>, generation: u64) -> u64 {
        self.ended.remove(&id);
        let thread = running(&mut self.threads, id, self.order);
        let (handed, rest) = thread.kinds.take(words, generation, &self.tables);
        if rest > 0 {
            self.problems.push(Problem::BadRecord {
                thread: id,
                records: 1,
            });
        }
        self.waiting_words += handed.words();
        thread.reached = thread.reached.max(handed.end_time);
        let time = handed.end_time;
        thread.portions.push_back(Portion::Handed(handed));
        time
    }

    /// A thread will bring nothing any more.
    pub(crate) fn finish_thread(&mut self, id: ThreadId) {
        self.thread(id).finished = true;
    }

    /// Words that were handed over and wait for other threads.
    pub(crate) fn waiting_words(&self) -> usize {
        self.waiting_words
    }

    /// What could not be understood so far.
    pub(crate) fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// The thread that holds the others back, and the time that it has reached.
    pub(crate) fn last_thread(&self) -> Option<(ThreadId, u64)> {
        let step = u64::from(self.order.advances_by_itself());
        let threads = self.threads.iter();
        let places = threads.filter_map(|(id, thread)| thread.next(*id, step));
        let Reverse((_, last)) = places.max()?;
        Some((last, self.threads[&last].reached))
    }

    /// Nothing more is given: what waits is lost. Returns what could not be read, and how many words
    /// are lost, with those of portions that were given in part.
    pub(crate) fn give_up(&mut self) -> (Vec<Problem>, u64) {
        let threads = self.threads.values();
        let open = threads.filter(|thread| thread.decoder.next_time().is_some());
        let open_words: usize = open.map(|thread| thread.open_words).sum();
        let lost = std::mem::take(&mut self.waiting_words) + open_words;
        (self.end(), lost as u64)
    }

    /// Nothing will come any more: gives the rest, and returns what could not be read.
    pub(crate) fn finish(&mut self, sink: &mut impl Sink) -> Vec<Problem> {
        for thread in self.threads.values_mut() {
            thread.finished = true;
        }
        self.deliver(sink);
        self.end()
    }

    /// Forgets all threads, and returns what could not be read of them.
    fn end(&mut self) -> Vec<Problem> {
        let mut problems = std::mem::take(&mut self.problems);
        for thread in std::mem::take(&mut self.threads).into_values() {
            problems.extend(thread.decoder.into_problems());
        }
        problems.extend(self.tables.streams.problems());
        problems
    }

    /// The thread with this id, which goes on, or starts now.
    fn thread(&mut self, id: ThreadId) -> &mut RunningThread {
        self.ended.remove(&id);
        running(&mut self.threads, id, self.order)
    }

    /// Gives all that a thread has brought. For an order that says nothing between threads nobody
    /// has to be waited for.
    pub(crate) fn deliver_thread(&mut self, id: ThreadId, sink: &mut impl Sink) {
        let thread = running(&mut self.threads, id, self.order);
        let is_finished = thread.finished;
        let with_executions = is_given_executions(sink);
        while thread.fill(&self.tables, &mut self.waiting_words, with_executions) {
            thread.decoder.deliver(None, sink);
        }
        if is_finished {
            self.end_thread(id);
        }
    }

    /// Gives what is settled.
    pub(crate) fn deliver(&mut self, sink: &mut impl Sink) {
        let order = self.order;
        let with_executions = is_given_executions(sink);
        let step = u64::from(order.advances_by_itself());
        let mut next: BinaryHeap<Reverse<Limit>> = BinaryHeap::new();
        next.extend(
            self.threads
                .iter()
                .filter_map(|(id, thread)| thread.next(*id, step)),
        );
        while let Some(Reverse((time, id))) = next.pop() {
            let thread = running(&mut self.threads, id, order);
            if !thread.fill(&self.tables, &mut self.waiting_words, with_executions) {
                if thread.finished {
                    self.end_thread(id);
                    continue;
                }
                // Everything else would be later than what this thread may still bring.
                break;
            }
            let limit = next.peek().map(|Reverse(limit)| *limit);
            let first = thread.decoder.next_time().unwrap_or(time);
            if limit.is_some_and(|limit| (first, id) > limit) {
                // Later than its portion promised.
                next.push(Reverse((first, id)));
                continue;
            }
            if first < self.given_time && order != Order::None && !thread.late {
                thread.late = true;
                self.problems.push(Problem::LateThread {
                    thread: id,
                    time: first,
                });
            }
            // Where the next place in the order is the same one, nothing is given in this turn.
            if limit.is_none_or(|limit| (first, id) < limit) {
                self.given_time = self.given_time.max(first);
            }
            let created = thread.decoder.deliver(limit, sink);
            if thread.decoder.next_time().is_none() {
                // What is left of its portion comes before what its queue promises.
                thread.fill(&self.tables, &mut self.waiting_words, with_executions);
            }
            match thread.next(id, step) {
                None => self.end_thread(id),
                more => next.extend(more),
            }
            let is_new =
                |child: &ThreadId| !self.threads.contains_key(child) && !self.ended.contains(child);
            if let Some(child) = created.filter(is_new) {
                let thread = running(&mut self.threads, child, order);
                thread.reached = first;
                next.extend(thread.next(child, step));
            }
        }
    }

    /// Everything of a thread has been given: what is left of it is that it was there.
    fn end_thread(&mut self, id: ThreadId) {
        if let Some(thread) = self.threads.remove(&id) {
            self.problems.extend(thread.decoder.into_problems());
            self.ended.insert(id);
        }
    }
}

/// The thread with this id, which starts now if it has not yet.
fn running(
    threads: &mut BTreeMap<ThreadId, RunningThread>,
    id: ThreadId,
    order: Order,
) -> &mut RunningThread {
    threads.entry(id).or_insert_with(|| RunningThread {
        decoder: ThreadDecoder::new(id, order, 0),
        kinds: Kinds::new(order),
        portions: VecDeque::new(),
        open_words: 0,
        reached: 0,
        finished: false,
        late: false,
    })
}

impl RunningThread {
    /// The earliest place in the order that its next item can have; none if it has ended.
    fn next(&self, id: ThreadId, step: u64) -> Option<Reverse<Limit>> {
        let bound = |time: u64| time.saturating_add(step);
        let first_portion = self.portions.front().map(|portion| match portion {
            Portion::Packed(header, _) => bound(header.start_time),
            Portion::Handed(handed) => bound(handed.start_time),
        });
        let still_to_come = (!self.finished).then(|| bound(self.reached));
        let time = self.decoder.next_time().or(first_portion).or(still_to_come);
        time.map(|time| Reverse((time, id)))
    }

    /// Expands more, if everything expanded was given. Returns whether there is more.
    fn fill(&mut self, tables: &Tables, waiting_words: &mut usize, with_executions: bool) -> bool {
        while !self.decoder.fill(&self.kinds, with_executions) {
            match self.portions.pop_front() {
                None => return false,
                Some(Portion::Packed(header, Some(payload))) => {
                    self.decoder.load(&header, &payload, tables);
                }
                Some(Portion::Packed(header, None)) => {
                    self.decoder.lose(&header, "its checksum is wrong");
                }
                Some(Portion::Handed(handed)) => {
                    *waiting_words -= handed.words();
                    self.open_words = handed.words();
                    self.decoder.load_handed(handed);
                }
            }
        }
        true
    }
}
