//! An analysis in the process that it is about: no file, and the same [`Sink`] as over one.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use unspool_container::stream::StreamNumber;
use unspool_container::{Order, TraceHeader};

use crate::access::Access;
use crate::event::Event;
use crate::executions::Executions;
use crate::file::Summary;
use crate::id::ThreadId;
use crate::merge::Merge;
use crate::modules::{Measurement, Module, TracedFunction};
use crate::problem::{Problem, WriteError};
use crate::record_sink::{RecordSink, ThreadRecords, Verdict};
use crate::sink::Sink;
use crate::superblock::Superblock;

/// So many words may wait before all threads are asked where they are, and those that are ahead for
/// patience: 64 MiB.
const CROWD_WORDS: usize = 1 << 23;

/// Gives what threads hand over to a sink, merged in the order (time, thread, position), as far as
/// every thread has come.
///
/// There is no thread of its own: the one that hands something over has the sink take what is
/// settled by that, while others that hand over wait. So a program is held back to the pace of the
/// analysis. What waits for threads that are behind is kept in raw words; the observer keeps the
/// threads' times close, which bounds it (see [`RecordSink::is_crowded`]). Where a thread's time does
/// not advance all the same, the analysis ends before the program, and says so. In an order that says
/// nothing between threads nobody is waited for.
///
/// At the end the sink gets all that is left, and [`Conclusion::conclude`] makes of it what the user
/// is told. For a process that is killed there is what was noted last of what had been found.
pub struct LiveAnalysis<Analysis> {
    shared: Arc<Shared<Analysis>>,
}

struct Shared<Analysis> {
    /// What is defined, and not known to the merge yet: it may be at work when code is translated.
    defined: Mutex<Defined>,
    superblock_count: AtomicU64,
    /// So many words may wait.
    most_waiting: usize,
    /// Whether threads wait for one another.
    is_ordered: bool,
    state: Mutex<State<Analysis>>,
    /// What is said if the process is killed. No thread of the program's takes this lock.
    last_words: Mutex<Arc<str>>,
}

#[derive(Debug, Default)]
struct Defined {
    generation: u64,
    superblocks: Vec<(u64, Superblock)>,
    modules: Vec<Module>,
    functions: Vec<TracedFunction>,
}

/// What becomes of an analysis: what is said at its end, and, until then, in case there is none.
pub trait Conclusion<Analysis>: Send {
    /// What the user is told at the end.
    fn conclude(&mut self, analysis: Analysis, seen: &Seen) -> Verdict;

    /// What the user is told where the process is killed before anything more is found, in whole
    /// lines.
    fn so_far(&mut self, analysis: &Analysis, seen: &Seen) -> String;
}

type BoxedConclusion<Analysis> = Box<dyn Conclusion<Analysis>>;

struct State<Analysis> {
    merge: Merge,
    /// None once it was concluded.
    analysis: Option<(Counting<Analysis>, BoxedConclusion<Analysis>)>,
    summary: Summary,
    verdict: Option<Verdict>,
    /// Accesses and events that had been given when it was noted last what had been found.
    noted: Option<(u64, u64)>,
}

/// What is known of a run, beside what its analysis has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The totals of what was given to it.
    pub summary: Summary,
    /// What could not be understood.
    pub problems: Vec<Problem>,
}

impl<Analysis: Sink + Send + 'static> LiveAnalysis<Analysis> {
    /// Of the run that the header is about. `most_waiting` is how many bytes of records may wait for
    /// threads that are behind before the analysis ends.
    pub fn new(
        header: &TraceHeader,
        most_waiting: u64,
        analysis: Analysis,
        mut conclusion: impl Conclusion<Analysis> + 'static,
    ) -> LiveAnalysis<Analysis> {
        let nothing = Seen {
            summary: Summary::default(),
            problems: Vec::new(),
        };
        let last_words = conclusion.so_far(&analysis, &nothing);
        let counting = Counting {
            analysis,
            accesses: 0,
            events: 0,
        };
        let state = State {
            merge: Merge::new(header.order),
            analysis: Some((counting, Box::new(conclusion))),
            summary: Summary::default(),
            verdict: None,
            noted: None,
        };
        let shared = Shared {
            defined: Mutex::default(),
            superblock_count: AtomicU64::new(0),
            most_waiting: (most_waiting / 8) as usize,
            is_ordered: header.order != Order::None,
            state: Mutex::new(state),
            last_words: Mutex::new(last_words.into()),
        };
        LiveAnalysis {
            shared: Arc::new(shared),
        }
    }
}

impl<Analysis: Sink> Shared<Analysis> {
    /// Has what was defined known, before records that need it.
    fn learn(&self, state: &mut State<Analysis>) {
        let mut defined = lock(&self.defined);
        let superblocks = std::mem::take(&mut defined.superblocks);
        let modules = std::mem::take(&mut defined.modules);
        let functions = std::mem::take(&mut defined.functions);
        drop(defined);
        for (generation, superblock) in &superblocks {
            state.merge.tables.paths.add(*generation).add(superblock);
        }
        if let Some((sink, _)) = &mut state.analysis {
            modules.iter().for_each(|module| sink.module(module));
            functions
                .iter()
                .for_each(|function| sink.function(function));
        }
    }

    /// Takes records of a thread, and returns the time that it has reached.
    fn take(&self, thread: ThreadId, words: &[u64], generation: u64) -> u64 {
        let mut state = lock(&self.state);
        self.learn(&mut state);
        let State {
            merge,
            analysis,
            summary,
            ..
        } = &mut *state;
        let Some((sink, _)) = analysis else {
            summary.dropped_words += words.len() as u64;
            return 0;
        };
        summary.raw_words += words.len() as u64;
        let time = merge.take_words(thread, words.to_vec(), generation);
        self.deliver(merge, thread, sink);
        if merge.waiting_words() > self.most_waiting {
            self.give_up(&mut state);
        }
        time
    }

    /// Gives what is settled by what a thread has brought.
    fn deliver(&self, merge: &mut Merge, thread: ThreadId, sink: &mut Counting<Analysis>) {
        match self.is_ordered {
            true => merge.deliver(sink),
            false => merge.deliver_thread(thread, sink),
        }
    }

    /// Concludes the analysis before the process ends: too much waits.
    fn give_up(&self, state: &mut State<Analysis>) {
        let Some((thread, time)) = state.merge.last_thread() else {
            return;
        };
        let (mut problems, lost) = state.merge.give_up();
        state.summary.dropped_words += lost;
        problems.push(Problem::TooMuchWaits {
            thread,
            time,
            bytes: lost * 8,
        });
        self.conclude(state, problems);
    }

    /// Has the analysis answer, unless it has.
    fn conclude(&self, state: &mut State<Analysis>, problems: Vec<Problem>) {
        let Some((sink, mut conclusion)) = state.analysis.take() else {
            return;
        };
        let summary = self.summary(state, &sink);
        state.summary = summary;
        let seen = Seen { summary, problems };
        state.verdict = Some(conclusion.conclude(sink.analysis, &seen));
    }

    fn finish_thread(&self, thread: ThreadId) {
        let mut state = lock(&self.state);
        self.learn(&mut state);
        let State {
            merge,
            analysis,
            summary,
            ..
        } = &mut *state;
        if let Some((sink, _)) = analysis {
            summary.threads += 1;
            merge.finish_thread(thread);
            self.deliver(merge, thread, sink);
        }
    }

    fn finish(&self) -> Summary {
        let mut state = lock(&self.state);
        self.learn(&mut state);
        let State {
            merge, analysis, ..
        } = &mut *state;
        if let Some((sink, _)) = analysis {
            let problems = merge.finish(sink);
            self.conclude(&mut state, problems);
        }
        state.summary
    }

    /// The totals of what an analysis was given.
    fn summary(&self, state: &State<Analysis>, sink: &Counting<Analysis>) -> Summary {
        Summary {
            accesses: sink.accesses,
            events: sink.events,
            superblocks: self.superblock_count.load(Ordering::Relaxed),
            ..state.summary
        }
    }

    /// Has it said what was found so far, if that is more than at the last time.
    fn note_findings(&self) {
        let Some(mut state) = self.try_state() else {
            return;
        };
        let Some((sink, mut conclusion)) = state.analysis.take() else {
            return;
        };
        let given = Some((sink.accesses, sink.events));
        if state.noted != given {
            state.noted = given;
            let seen = Seen {
                summary: self.summary(&state, &sink),
                problems: state.merge.problems().to_vec(),
            };
            let words = conclusion.so_far(&sink.analysis, &seen);
            *lock(&self.last_words) = words.into();
        }
        state.analysis = Some((sink, conclusion));
    }

    /// The state, if it can be had within a moment: whoever has it may have been killed.
    fn try_state(&self) -> Option<MutexGuard<'_, State<Analysis>>> {
        const TRIES: usize = 50;
        const BETWEEN_TRIES: Duration = Duration::from_millis(1);
        for _ in 0..TRIES {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(state)) => return Some(state.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_TRIES),
            }
        }
        None
    }
}

impl<Analysis: Sink + Send + 'static> RecordSink for LiveAnalysis<Analysis> {
    fn define_superblock(&self, superblock: &Superblock) {
        let mut defined = lock(&self.shared.defined);
        let generation = defined.generation;
        self.shared.superblock_count.fetch_add(1, Ordering::Relaxed);
        defined.superblocks.push((generation, superblock.clone()));
    }

    fn begin_generation(&self) {
        lock(&self.shared.defined).generation += 1;
    }

    fn define_module(&self, module: &Module) {
        lock(&self.shared.defined).modules.push(module.clone());
    }

    fn define_function(&self, function: &TracedFunction) {
        lock(&self.shared.defined).functions.push(function.clone());
    }

    /// What the observer measures of its own run no analysis asks for.
    fn add_measurement(&self, _: &Measurement) {}

    fn thread(&self, thread: ThreadId) -> Box<dyn ThreadRecords> {
        let generation = lock(&self.shared.defined).generation;
        Box::new(LiveThread {
            shared: Arc::clone(&self.shared),
            thread,
            generation,
            time: 0,
        })
    }

    fn finish(&self) -> Result<Summary, WriteError> {
        Ok(self.shared.finish())
    }

    fn verdict(&self) -> Option<Verdict> {
        lock(&self.shared.state).verdict.take()
    }

    fn note_findings(&self) {
        self.shared.note_findings();
    }

    fn last_words(&self) -> Option<Arc<str>> {
        let last_words = self.shared.last_words.try_lock().ok()?;
        Some(Arc::clone(&last_words))
    }

    fn is_busy(&self) -> bool {
        matches!(self.shared.state.try_lock(), Err(TryLockError::WouldBlock))
    }

    fn is_crowded(&self) -> bool {
        lock(&self.shared.state).merge.waiting_words()
            > CROWD_WORDS.min(self.shared.most_waiting / 2)
    }
}

impl<Analysis> fmt::Debug for LiveAnalysis<Analysis> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LiveAnalysis").finish_non_exhaustive()
    }
}

/// The records of one thread, on their way to an analysis.
struct LiveThread<Analysis> {
    shared: Arc<Shared<Analysis>>,
    thread: ThreadId,
    /// Of which generation the path ids are.
    generation: u64,
    /// The time that it has reached.
    time: u64,
}

impl<Analysis: Sink + Send> ThreadRecords for LiveThread<Analysis> {
    fn append(&mut self, words: &[u64]) {
        if !words.is_empty() {
            self.time = self.shared.take(self.thread, words, self.generation);
        }
    }

    fn counted(&self) -> Option<(u64, usize)> {
        Some((self.time, 0))
    }

    fn flush(&mut self) {}

    fn enter_generation(&mut self) {
        self.generation = lock(&self.shared.defined).generation;
    }

    fn finish(self: Box<Self>) {
        self.shared.finish_thread(self.thread);
    }
}

impl<Analysis> fmt::Debug for LiveThread<Analysis> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LiveThread")
            .field("thread", &self.thread)
            .finish_non_exhaustive()
    }
}

/// Counts what an analysis gets.
struct Counting<Analysis> {
    analysis: Analysis,
    accesses: u64,
    events: u64,
}

impl<Analysis: Sink> Sink for Counting<Analysis> {
    fn module(&mut self, module: &Module) {
        self.analysis.module(module);
    }

    fn function(&mut self, function: &TracedFunction) {
        self.analysis.function(function);
    }

    fn needs_order_of_time(&self) -> bool {
        self.analysis.needs_order_of_time()
    }

    fn takes_executions(&self) -> bool {
        self.analysis.takes_executions()
    }

    fn executions(&mut self, thread: ThreadId, executions: &Executions<'_>) {
        self.accesses += executions.count_accesses();
        self.analysis.executions(thread, executions);
    }

    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        self.accesses += batch.len() as u64;
        self.analysis.accesses(thread, batch);
    }

    fn event(&mut self, thread: ThreadId, time: u64, event: &Event) {
        self.events += 1;
        self.analysis.event(thread, time, event);
    }

    fn passed_over(&mut self, thread: ThreadId, time: u64, stream: StreamNumber) {
        self.analysis.passed_over(thread, time, stream);
    }

    fn values(&mut self, thread: ThreadId, accesses: &[Access], values: &[&[u8]]) {
        self.analysis.values(thread, accesses, values);
    }
}

/// A panic elsewhere does not stop the analysis.
fn lock<Value>(mutex: &Mutex<Value>) -> MutexGuard<'_, Value> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
