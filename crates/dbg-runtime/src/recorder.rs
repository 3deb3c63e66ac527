//! What each thread adds up, and the trace that it becomes.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError, TryLockError};
use std::time::Duration;

use unspool_openmp_record::original::{self, Interval, Item, Statistics, ThreadTrace, trace_name};
use unspool_preload::clock::{self, now};

use crate::strings::{Meaning, RUN, meaning_of};

/// Recorders of all threads, which are never freed. Each is its thread's, but another may
/// end the process, and write all traces, while it works.
pub(crate) type All = Vec<&'static Mutex<Recorder>>;

static ALL: Mutex<All> = Mutex::new(Vec::new());

/// Whether this is a child of the program's first process.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

thread_local! {
    static CURRENT: Cell<Option<&'static Mutex<Recorder>>> = const { Cell::new(None) };
}

/// Recorders of all threads.
pub(crate) fn all() -> MutexGuard<'static, All> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts anew, in a child: what was recorded before is its parent's to write.
pub(crate) fn forget(all: &mut All) {
    all.clear();
    CURRENT.set(None);
    IS_CHILD.store(true, Ordering::Relaxed);
}

/// A thread.
#[derive(Debug)]
pub(crate) struct Recorder {
    thread: u64,
    is_master: bool,
    /// What happened in each interval; the first is what is outside intervals.
    scopes: Vec<IntervalTotals>,
    /// The intervals that the thread is in, and when it entered them.
    inside: Vec<(usize, u64)>,
    open: Vec<OpenEvent>,
    held: Vec<(String, OpenEvent)>,
    /// What strings mean, of those that have been asked for.
    meanings: Vec<Option<Meaning>>,
}

/// An interval in its context.
#[derive(Debug, Default)]
struct IntervalTotals {
    handle: u32,
    begin: u64,
    duration: u64,
    longest: u64,
    count: u64,
    inner: Vec<usize>,
    events: Vec<EventTotals>,
    /// Where in `events` the event of a handle is, behind which there is nothing yet; of small
    /// handles, which are those of a program's own strings.
    places: Vec<u32>,
}

/// An event within one interval. Times are ticks of the clock.
#[derive(Debug, Default)]
struct EventTotals {
    handle: u32,
    begin: u64,
    count: u64,
    /// The sum and the longest of durations, of waits, and of synchronisation.
    times: [(u64, u64); 3],
}

impl IntervalTotals {
    /// What there is of an event, which may be new.
    fn event(&mut self, handle: u32) -> &mut EventTotals {
        const SMALL: usize = 1 << 16;
        const NONE: u32 = u32::MAX;
        let known = match self.places.get(handle as usize) {
            Some(&place) if place != NONE => Some(place as usize),
            _ if (handle as usize) < SMALL => None,
            _ => self.events.iter().position(|event| event.handle == handle),
        };
        let place = known.unwrap_or_else(|| {
            let place = self.events.len();
            if (handle as usize) < SMALL {
                let length = self.places.len().max(handle as usize + 1);
                self.places.resize(length, NONE);
                self.places[handle as usize] = place as u32;
            }
            self.events.push(EventTotals {
                handle,
                ..EventTotals::default()
            });
            place
        });
        &mut self.events[place]
    }
}

/// An event that has not ended.
#[derive(Debug, Clone, Copy)]
struct OpenEvent {
    handle: u32,
    before: Option<u64>,
    begin: Option<u64>,
    end: Option<u64>,
    /// How long the thread has executed tasks since the event began.
    in_tasks: u64,
    /// How long the thread had executed tasks when the event ended, before synchronisation.
    in_tasks_at_end: u64,
}

/// The calling thread's recorder.
pub(crate) fn current() -> MutexGuard<'static, Recorder> {
    let recorder = CURRENT.get().unwrap_or_else(start);
    recorder.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cold]
fn start() -> &'static Mutex<Recorder> {
    start_clock();
    // SAFETY: these only return numbers.
    let (thread, process) = unsafe { (libc::gettid(), libc::getpid()) };
    let new: &'static Mutex<Recorder> = Box::leak(Box::new(Mutex::new(Recorder {
        thread: thread as u64,
        is_master: thread == process && !IS_CHILD.load(Ordering::Relaxed),
        scopes: vec![IntervalTotals::default()],
        inside: Vec::new(),
        open: Vec::new(),
        held: Vec::new(),
        meanings: Vec::new(),
    })));
    CURRENT.set(Some(new));
    all().push(new);
    new
}

/// Starts to count time, if that has not happened: when the program calls `dbg_init`, or first
/// anything.
pub(crate) fn start_clock() {
    static START: Once = Once::new();
    START.call_once(clock::note_start);
}

impl Recorder {
    /// The thread is about to come to an event.
    pub(crate) fn before(&mut self, handle: u32) {
        self.open.push(OpenEvent {
            handle,
            before: Some(now()),
            begin: None,
            end: None,
            in_tasks: 0,
            in_tasks_at_end: 0,
        });
    }

    /// A barrier comes: what is being shared is done.
    pub(crate) fn before_barrier(&mut self, handle: u32) {
        let now = now();
        let is_running = |open: &&mut OpenEvent| open.before.is_some() && open.end.is_none();
        if let Some(open) = self.open.last_mut().filter(is_running) {
            (open.end, open.in_tasks_at_end) = (Some(now), open.in_tasks);
        }
        self.before(handle);
    }

    /// The event itself begins.
    pub(crate) fn begin(&mut self, handle: u32) {
        let now = now();
        let waiting = self
            .open
            .last_mut()
            .filter(|open| open.handle == handle && open.begin.is_none());
        match waiting {
            Some(open) => open.begin = Some(now),
            None => self.open.push(OpenEvent {
                handle,
                before: None,
                begin: Some(now),
                end: None,
                in_tasks: 0,
                in_tasks_at_end: 0,
            }),
        }
    }

    /// The event itself ends; what follows is synchronisation, if anything does.
    pub(crate) fn end(&mut self, handle: u32) {
        let now = now();
        let Some(index) = self.open.iter().rposition(|open| open.handle == handle) else {
            return;
        };
        self.open.truncate(index + 1);
        let open = &mut self.open[index];
        (open.end, open.in_tasks_at_end) = (Some(now), open.in_tasks);
        if self.open[index].before.is_none() {
            self.after(handle);
        }
    }

    /// A task ends. Where the thread waits for something, this was no waiting.
    pub(crate) fn end_task(&mut self, handle: u32) {
        let is_it = |open: &OpenEvent| open.handle == handle && open.before.is_none();
        let Some(index) = self.open.iter().rposition(is_it) else {
            return;
        };
        let open = self.open[index];
        let took = open.begin.map_or(0, |begin| now().saturating_sub(begin));
        // A task within this task has been taken off already.
        let own = took.saturating_sub(open.in_tasks);
        self.end(handle);
        for outer in &mut self.open[..index] {
            outer.in_tasks += own;
        }
    }

    /// The thread has left the event.
    pub(crate) fn after(&mut self, handle: u32) {
        let now = now();
        let Some(index) = self.open.iter().rposition(|open| open.handle == handle) else {
            return;
        };
        let open = self.open[index];
        self.open.truncate(index);
        self.add(open, now);
    }

    /// The thread has left a barrier: all its time was waiting.
    pub(crate) fn after_barrier(&mut self, handle: u32) {
        let now = now();
        let Some(index) = self.open.iter().rposition(|open| open.handle == handle) else {
            return;
        };
        let open = self.open[index];
        self.open.truncate(index);
        let waited = (now - open.before.unwrap_or(now)).saturating_sub(open.in_tasks);
        self.count(handle, open.before.unwrap_or(now), [waited, waited, 0]);
    }

    fn add(&mut self, open: OpenEvent, now: u64) {
        let begin = open.begin.or(open.before).unwrap_or(now);
        let end = open.end.unwrap_or(now);
        let waited = begin - open.before.unwrap_or(begin).min(begin);
        let (in_tasks, after) = match (self.meaning(open.handle), open.end) {
            (Meaning::Shared, None) => (open.in_tasks, 0),
            (Meaning::Shared, Some(_)) => {
                (open.in_tasks_at_end, open.in_tasks - open.in_tasks_at_end)
            }
            _ => (0, 0),
        };
        let duration = end.saturating_sub(begin).saturating_sub(in_tasks);
        let synchronisation = now.saturating_sub(end).saturating_sub(after);
        self.count(open.handle, begin, [duration, waited, synchronisation]);
    }

    /// What the string of a handle means.
    fn meaning(&mut self, handle: u32) -> Meaning {
        let index = handle as usize;
        if let Some(Some(known)) = self.meanings.get(index) {
            return known.clone();
        }
        let (meaning, is_known) = match meaning_of(handle) {
            Some(meaning) => (meaning, true),
            // It may be registered later. Handles of other programs can be any number.
            None => (Meaning::Event, false),
        };
        if is_known {
            if self.meanings.len() <= index {
                self.meanings.resize(index + 1, None);
            }
            self.meanings[index] = Some(meaning.clone());
        }
        meaning
    }

    fn count(&mut self, handle: u32, begin: u64, times: [u64; 3]) {
        let scope = self.inside.last().map_or(0, |(scope, _)| *scope);
        let event = self.scopes[scope].event(handle);
        event.begin = begin;
        event.count += 1;
        for ((sum, longest), time) in event.times.iter_mut().zip(times) {
            *sum += time;
            *longest = time.max(*longest);
        }
    }

    /// A call begins: of a function, around an interval, or of a lock's functions. Returns the
    /// interval's name.
    pub(crate) fn before_call(&mut self, handle: u32) -> Option<String> {
        match self.meaning(handle) {
            Meaning::Interval(_) => return self.enter_interval(handle),
            Meaning::UnsetLock(name) => {
                if let Some(index) = self.held.iter().rposition(|(held, _)| *held == name) {
                    let (_, open) = self.held.remove(index);
                    self.add(open, now());
                }
            }
            Meaning::Event | Meaning::Shared | Meaning::SetLock(_) => self.before(handle),
        }
        None
    }

    /// A call has ended. Returns whether it was an interval.
    pub(crate) fn after_call(&mut self, handle: u32) -> bool {
        match self.meaning(handle) {
            Meaning::Interval(_) => return self.leave_interval(handle),
            Meaning::SetLock(name) => {
                if let Some(index) = self.open.iter().rposition(|open| open.handle == handle) {
                    let mut open = self.open[index];
                    self.open.truncate(index);
                    open.begin = Some(now());
                    self.held.push((name, open));
                }
            }
            Meaning::UnsetLock(_) => {}
            Meaning::Event | Meaning::Shared => self.after(handle),
        }
        false
    }

    /// The thread enters an interval. Returns its name, if it is known.
    pub(crate) fn enter_interval(&mut self, handle: u32) -> Option<String> {
        let outer = self.inside.last().map_or(0, |(scope, _)| *scope);
        let inner = &self.scopes[outer].inner;
        let known = inner
            .iter()
            .copied()
            .find(|scope| self.scopes[*scope].handle == handle);
        let scope = known.unwrap_or_else(|| {
            self.scopes.push(IntervalTotals {
                handle,
                ..IntervalTotals::default()
            });
            let new = self.scopes.len() - 1;
            self.scopes[outer].inner.push(new);
            new
        });
        let now = now();
        self.scopes[scope].begin = now;
        self.inside.push((scope, now));
        match self.meaning(handle) {
            Meaning::Interval(name) => Some(name),
            _ => None,
        }
    }

    /// The thread leaves an interval, and those in it that it has not left. Returns whether the
    /// string is one of an interval.
    pub(crate) fn leave_interval(&mut self, handle: u32) -> bool {
        let is_interval = matches!(self.meaning(handle), Meaning::Interval(_));
        let of_handle = |(scope, _): &(usize, u64)| self.scopes[*scope].handle == handle;
        let Some(depth) = self.inside.iter().rposition(of_handle) else {
            return is_interval;
        };
        let now = now();
        for (scope, begin) in self.inside.split_off(depth) {
            let scope = &mut self.scopes[scope];
            scope.duration += now - begin;
            scope.longest = scope.longest.max(now - begin);
            scope.count += 1;
        }
        is_interval
    }

    fn trace(&self) -> ThreadTrace {
        ThreadTrace {
            thread: self.thread,
            is_master: self.is_master,
            is_whole: false,
            items: self.items(&self.scopes[0], &TimeScale::now()),
        }
    }

    /// What happened in an interval, as the trace has it.
    fn items(&self, scope: &IntervalTotals, scale: &TimeScale) -> Vec<Item> {
        let inner = scope.inner.iter().map(|inner| &self.scopes[*inner]);
        let intervals = inner.map(|inner| {
            Item::Interval(Interval {
                number: 0,
                handle: u64::from(inner.handle),
                begin: scale.moment(inner.begin),
                duration: scale.span(inner.duration),
                count: inner.count,
                longest: scale.span(inner.longest),
                items: self.items(inner, scale),
            })
        });
        let events = scope.events.iter().map(|event| {
            let [duration, wait, synchronisation] = event.times.map(|(sum, longest)| Statistics {
                sum: scale.span(sum),
                longest: scale.span(longest),
            });
            Item::Event(original::Event {
                number: 0,
                handle: u64::from(event.handle),
                begin: scale.moment(event.begin),
                count: event.count,
                duration,
                wait,
                synchronisation,
            })
        });
        intervals.chain(events).collect()
    }
}

/// What ticks of the clock are as milliseconds, which traces have.
struct TimeScale {
    start: u64,
    a_tick: f64,
}

impl TimeScale {
    /// As both clocks have run until now.
    fn now() -> TimeScale {
        TimeScale {
            start: clock::start().0,
            a_tick: 1e-6 / clock::ticks_a_nanosecond(now(), clock::monotonic_ns()),
        }
    }

    /// So many ticks.
    fn span(&self, ticks: u64) -> f64 {
        ticks as f64 * self.a_tick
    }

    /// How long after the start a moment was.
    fn moment(&self, ticks: u64) -> f64 {
        self.span(ticks.saturating_sub(self.start))
    }
}

/// Writes the traces of all threads.
pub(crate) fn write_traces() {
    // What a program does after it has said that it is done is not written again.
    for recorder in std::mem::take(&mut *all()) {
        let Some(recorder) = wait_for(recorder) else {
            eprintln!("unspool: the trace of a thread that does not stop is missing");
            continue;
        };
        let path = trace_name(RUN, recorder.thread);
        if let Err(error) = std::fs::write(&path, recorder.trace().to_text()) {
            eprintln!("unspool: cannot write {path}: {error}");
        }
    }
}

/// A recorder, as soon as its thread lets go of it. That is at once, unless a signal handler
/// ends the process in the middle of an event of the same thread's: then it is never.
fn wait_for(recorder: &'static Mutex<Recorder>) -> Option<MutexGuard<'static, Recorder>> {
    for _ in 0..1000 {
        match recorder.try_lock() {
            Ok(recorder) => return Some(recorder),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    None
}
