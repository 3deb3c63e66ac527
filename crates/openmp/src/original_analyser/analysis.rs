//! The original's characteristics, from the traces of all threads.
//!
//! The program's structure is that of the master's trace; what happened in other threads
//! alone counts too. Total = execution × threads; lost = insufficient parallelism + desync +
//! waits at barriers, locks, criticals and ordered blocks; productive = total − idle − lost.
//! Where the original's text and its sample differ, lost time is the sum over threads, as in
//! the sample.

use std::collections::BTreeMap;

use unspool_openmp_record::original::{ContextString, ContextStrings, Event, Item, ThreadTrace};

use super::selection::{Path, Selected, Selection};

/// The characteristics. Times are in the traces' unit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Analysis {
    /// The threads, the master first.
    pub threads: Vec<u64>,
    /// How long the analysed part took in the master.
    pub execution: f64,
    /// When processors had nothing to do with the analysed intervals: 0 for one of them.
    pub idle: f64,
    /// Work that all threads do.
    pub insufficient_parallelism: f64,
    /// Waits at the end of worksharing constructs, and at flushes.
    pub desynchronisation: f64,
    /// Waits at barriers, locks, criticals and ordered blocks.
    pub waits: f64,
    /// The largest loss in one thread.
    pub lost_in_one_thread: f64,
    /// Synchronisation points, those that cost most first.
    pub points: Vec<Point>,
}

/// A synchronisation point.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Its event in the master's trace, or in that of the thread that is given.
    pub event: Event,
    /// The thread, if it is not the master's.
    pub thread: Option<u64>,
    /// What it is: `barrier`, `critical`, `ordered`, `flush` or `lock`.
    pub instance: String,
    /// The source file, its first and last line.
    pub source: (String, u64, u64),
    /// The threads that came there, and the numbers of the event in their traces.
    pub threads: Vec<(u64, usize)>,
    /// What was lost there in all threads.
    pub lost: f64,
}

/// What kind of event it is, as far as the figures need to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Parallel,
    Worksharing,
    /// Work that one thread does, in a construct or while it waits.
    Task,
    Barrier,
    /// A barrier at the end of a worksharing construct.
    EndOfWorksharing,
    /// Waits before its block.
    Block,
    Flush,
    Other,
}

impl Analysis {
    /// Analyses traces.
    #[must_use]
    pub fn new(
        traces: &[ThreadTrace],
        strings: &ContextStrings,
        selection: &Selection,
    ) -> Analysis {
        let Some(master) = selection.master(traces) else {
            return Analysis::default();
        };
        let mut others: Vec<&ThreadTrace> = traces
            .iter()
            .filter(|trace| trace.thread != master.thread)
            .collect();
        others.sort_by_key(|trace| trace.thread);
        let shared = worksharing(traces, strings);
        let selected = Selected::new(master, selection);
        let mut sums = Sums::default();
        let mut all = vec![master];
        all.extend(others);
        for trace in &all {
            sums.start_thread();
            selected.walk(
                &trace.items,
                &mut Vec::new(),
                selected.takes_all(),
                &mut |path, event| {
                    sums.add(
                        trace.thread,
                        path,
                        event,
                        strings.of_handle(event.handle),
                        &shared,
                    );
                },
            );
        }
        let lost = sums.by_thread.iter().map(ThreadSums::lost);
        Analysis {
            threads: all.iter().map(|trace| trace.thread).collect(),
            execution: selected.execution,
            idle: 0.0,
            insufficient_parallelism: sums.insufficient_parallelism(),
            desynchronisation: sums.by_thread.iter().map(|one| one.desynchronisation).sum(),
            waits: sums.by_thread.iter().map(|one| one.waits).sum(),
            lost_in_one_thread: lost.fold(0.0, f64::max),
            points: sums.points(master.thread),
        }
    }

    /// Execution time times threads.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.execution * self.threads.len() as f64
    }

    /// All that is lost.
    #[must_use]
    pub fn lost(&self) -> f64 {
        self.insufficient_parallelism + self.desynchronisation + self.waits
    }

    /// What remains of the total.
    #[must_use]
    pub fn productive(&self) -> f64 {
        self.total() - self.idle - self.lost()
    }

    /// The productive part of the total.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        match self.total() {
            total if total > 0.0 => self.productive() / total,
            _ => 1.0,
        }
    }
}

#[derive(Default)]
struct ThreadSums {
    parallel: f64,
    shared: f64,
    synchronising: f64,
    desynchronisation: f64,
    waits: f64,
}

impl ThreadSums {
    /// Time within regions, outside worksharing constructs and synchronisation.
    fn duplicated(&self) -> f64 {
        (self.parallel - self.shared - self.synchronising).max(0.0)
    }

    fn lost(&self) -> f64 {
        self.duplicated() + self.desynchronisation + self.waits
    }
}

#[derive(Default)]
struct Sums {
    by_thread: Vec<ThreadSums>,
    points: BTreeMap<Path, Point>,
}

impl Sums {
    fn start_thread(&mut self) {
        self.by_thread.push(ThreadSums::default());
    }

    fn add(
        &mut self,
        thread: u64,
        path: &Path,
        event: &Event,
        string: Option<&ContextString>,
        shared: &[Lines],
    ) {
        let Some((string, sums)) = string.zip(self.by_thread.last_mut()) else {
            return;
        };
        let role = role(string, shared);
        let duration = event.duration.sum;
        // The original's barriers have no wait of their own: all their time is waiting.
        let barrier_wait = if event.wait.sum > 0.0 {
            event.wait.sum
        } else {
            duration
        };
        let lost = match role {
            Role::Parallel => {
                sums.parallel += duration;
                return;
            }
            Role::Worksharing | Role::Task => {
                sums.shared += duration;
                return;
            }
            Role::Other => return,
            Role::Barrier => barrier_wait,
            Role::EndOfWorksharing | Role::Flush => barrier_wait,
            Role::Block => event.wait.sum,
        };
        match role {
            Role::EndOfWorksharing | Role::Flush => sums.desynchronisation += lost,
            _ => sums.waits += lost,
        }
        // Within a worksharing construct it is part of that one's time.
        let is_within = role != Role::EndOfWorksharing && is_within(string, shared);
        sums.synchronising += match role {
            _ if is_within => 0.0,
            Role::Block => duration + lost,
            _ => lost,
        };
        let point = self.points.entry(path.clone()).or_insert_with(|| Point {
            event: event.clone(),
            thread: Some(thread),
            instance: instance(string),
            source: string.lines(),
            threads: Vec::new(),
            lost: 0.0,
        });
        point.threads.push((thread, event.number));
        point.lost += lost;
    }

    /// One thread's part counts as useful.
    fn insufficient_parallelism(&self) -> f64 {
        let parts = self.by_thread.iter().map(ThreadSums::duplicated);
        let sum: f64 = parts.clone().sum();
        sum - parts.fold(0.0, f64::max)
    }

    fn points(self, master: u64) -> Vec<Point> {
        let mut points: Vec<Point> = self.points.into_values().collect();
        for point in &mut points {
            point.thread = point.thread.filter(|thread| *thread != master);
        }
        points.sort_by(|one, other| {
            other
                .lost
                .total_cmp(&one.lost)
                .then(one.event.number.cmp(&other.event.number))
        });
        points
    }
}

fn instance(string: &ContextString) -> String {
    match string.get("name1").filter(|name| name.starts_with('@')) {
        Some(name) => {
            let marks = ["@set_lock_", "@set_nested_", "@set_nested"];
            let lock = marks.iter().find_map(|mark| name.strip_prefix(mark));
            format!("lock {}", lock.unwrap_or(name))
        }
        None => string.kind().to_owned(),
    }
}

/// The file, first and last line of a construct.
type Lines = (String, u64, u64);

/// Whether an event is in the source of a worksharing construct.
fn is_within(string: &ContextString, shared: &[Lines]) -> bool {
    let (file, first, last) = string.lines();
    first > 0
        && shared
            .iter()
            .any(|outer| outer.0 == file && outer.1 <= first && last <= outer.2)
}

fn role(string: &ContextString, shared: &[Lines]) -> Role {
    match string.kind().to_ascii_lowercase().as_str() {
        "parallel" => Role::Parallel,
        "omploop" | "sections" | "single" | "workshare" => Role::Worksharing,
        // Not of the original's: work that one thread does, and waiting for it.
        "task" => Role::Task,
        "taskwait" | "taskgroup" => Role::Barrier,
        "barrier" => {
            let (file, first, _) = string.lines();
            let ends_one = |outer: &Lines| outer.0 == file && outer.2 == first;
            match shared.iter().any(ends_one) {
                true => Role::EndOfWorksharing,
                false => Role::Barrier,
            }
        }
        "critical" | "ordered" | "lock" => Role::Block,
        "flush" => Role::Flush,
        "func_call" | "function" => {
            let is_lock = string
                .get("name1")
                .is_some_and(|name| name.starts_with("@set_"));
            if is_lock { Role::Block } else { Role::Other }
        }
        _ => Role::Other,
    }
}

/// Where worksharing constructs are: a barrier at the end of one is the instrumenter's.
fn worksharing(traces: &[ThreadTrace], strings: &ContextStrings) -> Vec<Lines> {
    fn collect(items: &[Item], strings: &ContextStrings, found: &mut Vec<Lines>) {
        for item in items {
            match item {
                Item::Interval(one) => collect(&one.items, strings, found),
                Item::Event(one) => {
                    let string = strings.of_handle(one.handle);
                    if let Some(string) = string.filter(|one| role(one, &[]) == Role::Worksharing) {
                        found.push(string.lines());
                    }
                }
            }
        }
    }
    let mut found = Vec::new();
    for trace in traces {
        collect(&trace.items, strings, &mut found);
    }
    found.sort();
    found.dedup();
    found
}
