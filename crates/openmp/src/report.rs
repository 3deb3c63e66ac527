//! Everything that is shown of a recording.

use rustc_hash::FxHashMap;
use unspool_openmp_record::ConstructKind;

use crate::characteristics::Characteristics;
use crate::concurrency;
use crate::diagnosis;
use crate::diagnosis::ranks::Rank;
use crate::hierarchy::{self, Hierarchy};
use crate::location::Location;
use crate::points::{self, SynchronisationPoint};
use crate::recording::{Construct, Others, Process, Recording};

/// What an interval is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Grouping {
    /// What the program marks.
    #[default]
    Interval,
    /// The regions of each function, together.
    Function,
    /// Each parallel region.
    Construct,
}

/// A part of a program with characteristics of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub location: Location,
    /// How many intervals enclose it.
    pub level: usize,
    /// How often it was entered.
    pub count: u64,
    /// Its characteristics.
    pub characteristics: Characteristics,
}

/// One process.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessReport {
    /// Its characteristics.
    pub characteristics: Characteristics,
    /// Its POP factors.
    pub hierarchy: Hierarchy,
    /// Useful time on its critical path.
    pub critical_path_useful_ns: u64,
    /// For how long how many of its threads worked at once, from none on; nothing if no single
    /// passages were recorded.
    pub concurrency_ns: Option<Vec<u64>>,
    /// Its intervals.
    pub intervals: Vec<Interval>,
    /// Its synchronisation points, those that cost most first.
    pub points: Vec<SynchronisationPoint>,
    /// What is wrong, in plain words, what costs most first: seconds, and a sentence.
    pub diagnosis: Vec<(f64, String)>,
}

/// A whole run.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Characteristics of all processes together.
    pub characteristics: Characteristics,
    /// POP factors of all processes together.
    pub hierarchy: Hierarchy,
    /// What is wrong between the ranks of an MPI job, what costs most first: seconds, and a sentence.
    pub diagnosis: Vec<(f64, String)>,
    /// Each process.
    pub processes: Vec<ProcessReport>,
}

impl Report {
    /// Draws conclusions from a recording.
    #[must_use]
    pub fn new(recording: &Recording, grouping: Grouping) -> Report {
        let processes: Vec<ProcessReport> = recording
            .processes
            .iter()
            .map(|process| process_report(process, recording.others.as_ref(), grouping))
            .collect();
        let characteristics = together(&processes);
        let ranks = processes.iter().zip(&recording.processes);
        let ranks: Vec<Rank<'_>> = ranks
            .filter_map(|(report, process)| {
                Some(Rank {
                    rank: process.rank?,
                    productive_ns: report.characteristics.productive_ns(),
                    points: &report.points,
                })
            })
            .collect();
        Report {
            diagnosis: diagnosis::ranked(diagnosis::ranks::late(&ranks), &characteristics),
            characteristics,
            hierarchy: Hierarchy::of_recording(recording),
            processes,
        }
    }
}

fn process_report(process: &Process, others: Option<&Others>, grouping: Grouping) -> ProcessReport {
    let characteristics = Characteristics::of_process(process);
    let points = points::of_process(process);
    let diagnosis = diagnosis::of_process(process, others, &characteristics, &points);
    ProcessReport {
        hierarchy: Hierarchy::of_process(process),
        concurrency_ns: concurrency::levels(process),
        critical_path_useful_ns: hierarchy::critical_path_useful_ns(process),
        intervals: intervals(process, grouping),
        points,
        diagnosis,
        characteristics,
    }
}

/// The processes of a job: those that end before the last one are idle until then.
fn together(processes: &[ProcessReport]) -> Characteristics {
    let all = processes.iter().map(|process| &process.characteristics);
    let execution_ns = all.clone().map(|one| one.execution_ns).max().unwrap_or(0);
    let mut threads = Vec::new();
    for one in all {
        for thread in &one.threads {
            let mut thread = *thread;
            thread.thread = threads.len();
            thread.idle_ns = execution_ns - one.execution_ns;
            threads.push(thread);
        }
    }
    Characteristics {
        execution_ns,
        processors: threads.len(),
        threads,
    }
}

fn intervals(process: &Process, grouping: Grouping) -> Vec<Interval> {
    let kind = match grouping {
        Grouping::Interval => ConstructKind::Interval,
        Grouping::Function | Grouping::Construct => ConstructKind::Parallel,
    };
    let mut groups: Vec<(String, usize, Vec<usize>)> = Vec::new();
    let mut known: FxHashMap<String, usize> = FxHashMap::default();
    for (index, one) in process.constructs.iter().enumerate() {
        if one.kind != kind {
            continue;
        }
        let level = enclosing(process, index)
            .filter(|outer| outer.kind == kind)
            .count();
        // An inner region belongs to the function whose region it is in.
        if grouping == Grouping::Function && level > 0 {
            continue;
        }
        let name = interval_name(one, grouping);
        let group = *known.entry(format!("{level} {name}")).or_insert_with(|| {
            groups.push((name, level, Vec::new()));
            groups.len() - 1
        });
        groups[group].2.push(index);
    }
    let mut intervals: Vec<Interval> = groups
        .into_iter()
        .map(|group| interval(process, group))
        .collect();
    if grouping != Grouping::Interval {
        intervals.sort_by_key(|one| std::cmp::Reverse(one.characteristics.lost_ns()));
    }
    intervals
}

fn interval(process: &Process, group: (String, usize, Vec<usize>)) -> Interval {
    let (name, level, members) = group;
    let mut is_part = vec![false; process.constructs.len()];
    for (index, one) in process.constructs.iter().enumerate() {
        is_part[index] = members.contains(&index) || one.parent.is_some_and(|outer| is_part[outer]);
    }
    // A thread passes its own intervals one after the other; several threads at once.
    let mut by_thread = vec![0_u64; process.threads];
    let mut count = 0;
    for one in members.iter().map(|index| &process.constructs[*index]) {
        let is_region = one.kind == ConstructKind::Parallel;
        // A region lasts as long as for the thread that forked it.
        for share in one.shares.iter().filter(|share| share.forked || !is_region) {
            let passed = share
                .total_ns
                .saturating_add(share.startup_ns)
                .saturating_add(share.wait_ns)
                .saturating_add(share.processor_wait_ns);
            by_thread[share.thread] = by_thread[share.thread].saturating_add(passed);
            count += share.count;
        }
    }
    let execution_ns = by_thread.into_iter().max().unwrap_or(0);
    Interval {
        name,
        location: process.constructs[members[0]].location.clone(),
        level,
        count,
        characteristics: Characteristics::of_part(process, &is_part, execution_ns),
    }
}

fn interval_name(one: &Construct, grouping: Grouping) -> String {
    match grouping {
        Grouping::Interval => one.name.clone().unwrap_or_else(|| one.location.short()),
        Grouping::Function => one
            .location
            .function
            .clone()
            .unwrap_or_else(|| one.location.short()),
        Grouping::Construct => format!("{} at {}", one.kind.word(), one.location.short()),
    }
}

/// The constructs around one, the innermost first.
pub(crate) fn enclosing(process: &Process, index: usize) -> impl Iterator<Item = &Construct> {
    let first = process.constructs[index].parent;
    std::iter::successors(first, |index| process.constructs[*index].parent)
        .map(|index| &process.constructs[index])
}
