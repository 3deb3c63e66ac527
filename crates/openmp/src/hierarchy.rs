//! POP's hierarchy of efficiencies: each is the product of those below it.
//!
//! Useful time U is computation, whoever repeats it; R is the run time without what starts MPI and ends
//! it (as TALP has it), P the threads.
//! Parallel efficiency = average U / R = load balance (average U / maximum U) times
//! communication efficiency (maximum U / R), and the latter is serialisation (maximum U /
//! useful time on the critical path) times transfer (that / R).

use serde::Serialize;
use unspool_openmp_record::ConstructKind;

use crate::characteristics::LossClass;
use crate::recording::{Construct, Process, Recording};

/// POP's factors, each between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Hierarchy {
    /// Average useful time to run time.
    pub parallel_efficiency: f64,
    /// Average useful time to the largest.
    pub load_balance: f64,
    /// The largest useful time to run time.
    pub communication_efficiency: f64,
    /// The largest useful time to the useful time on the critical path. For one process.
    pub serialisation_efficiency: Option<f64>,
    /// Useful time on the critical path to run time. For one process.
    pub transfer_efficiency: Option<f64>,
    /// In a job of several processes, what MPI alone loses.
    pub mpi_parallel_efficiency: Option<f64>,
    /// In such a job, what OpenMP loses within processes.
    pub openmp_parallel_efficiency: Option<f64>,
}

impl Hierarchy {
    /// The factors of one process.
    #[must_use]
    pub fn of_process(process: &Process) -> Hierarchy {
        let useful = useful_by_thread(process);
        let run = run_ns(process) as f64;
        let mut factors = factors(&useful, run);
        let path = critical_path_useful_ns(process) as f64;
        let largest = useful.iter().copied().fold(0.0, f64::max);
        factors.serialisation_efficiency = Some(ratio(largest, path.max(largest)));
        factors.transfer_efficiency = Some(ratio(path.max(largest), run));
        factors
    }

    /// The factors of a job: of all threads of all processes.
    #[must_use]
    pub fn of_recording(recording: &Recording) -> Hierarchy {
        if let [process] = recording.processes.as_slice() {
            return Hierarchy::of_process(process);
        }
        let run = recording.processes.iter().map(run_ns).max().unwrap_or(0) as f64;
        let useful: Vec<f64> = recording
            .processes
            .iter()
            .flat_map(useful_by_thread)
            .collect();
        let mut all = factors(&useful, run);
        // MPI alone: each process counts as busy whenever it is not in MPI.
        let outside: Vec<f64> = recording.processes.iter().map(outside_mpi_ns).collect();
        let mpi = factors(&outside, run).parallel_efficiency;
        all.mpi_parallel_efficiency = Some(mpi);
        all.openmp_parallel_efficiency = Some(ratio(all.parallel_efficiency, mpi).min(1.0));
        all
    }
}

fn factors(useful: &[f64], run: f64) -> Hierarchy {
    let sum: f64 = useful.iter().sum();
    let average = ratio_or(sum, useful.len() as f64, 0.0);
    let largest = useful.iter().copied().fold(0.0, f64::max);
    Hierarchy {
        parallel_efficiency: ratio(average, run),
        load_balance: ratio(average, largest),
        communication_efficiency: ratio(largest, run),
        serialisation_efficiency: None,
        transfer_efficiency: None,
        mpi_parallel_efficiency: None,
        openmp_parallel_efficiency: None,
    }
}

/// Of nothing, everything was useful.
fn ratio(part: f64, whole: f64) -> f64 {
    ratio_or(part, whole, 1.0)
}

fn ratio_or(part: f64, whole: f64, otherwise: f64) -> f64 {
    if whole > 0.0 { part / whole } else { otherwise }
}

fn useful_by_thread(process: &Process) -> Vec<f64> {
    let mut useful = vec![0.0; process.threads];
    for one in &process.constructs {
        if LossClass::of_waits(one).0.is_some() {
            continue;
        }
        for share in &one.shares {
            if let Some(sum) = useful.get_mut(share.thread) {
                *sum += share.own_ns as f64;
            }
        }
    }
    useful
}

/// The run time of a process, without what starts MPI and ends it.
fn run_ns(process: &Process) -> u64 {
    let launch = in_mpi(process, Construct::starts_or_ends_mpi);
    process.duration_ns.saturating_sub(launch)
}

/// The part of that in which it is not in MPI.
fn outside_mpi_ns(process: &Process) -> f64 {
    let inside = in_mpi(process, |_| true);
    process.duration_ns.saturating_sub(inside) as f64
}

/// The time in calls of MPI, of those that are meant. The thread that communicates is the first one, in
/// all usual programs.
fn in_mpi(process: &Process, is_meant: impl Fn(&Construct) -> bool) -> u64 {
    let mut inside = vec![0_u64; process.threads];
    let calls = process.constructs.iter();
    for one in calls.filter(|one| one.kind == ConstructKind::Mpi && is_meant(one)) {
        for share in &one.shares {
            if let Some(sum) = inside.get_mut(share.thread) {
                *sum = sum.saturating_add(share.total_ns);
            }
        }
    }
    inside.into_iter().max().unwrap_or(0)
}

/// Useful time on the critical path: serial parts, and between synchronisations the part of
/// the thread that arrived last. In inner regions the outer thread's own time counts.
pub(crate) fn critical_path_useful_ns(process: &Process) -> u64 {
    let mut sum: u64 = 0;
    for (index, one) in process.constructs.iter().enumerate() {
        if one.kind == ConstructKind::Serial {
            let first = one.shares.iter().find(|share| share.thread == 0);
            sum = sum.saturating_add(first.map_or(0, |share| share.own_ns));
        }
        let ends_path = matches!(
            one.kind,
            ConstructKind::Parallel | ConstructKind::Barrier | ConstructKind::ImplicitBarrier
        );
        if ends_path && level(process, index) == 1 {
            for share in &one.shares {
                sum = sum.saturating_add(share.path_ns.saturating_sub(share.path_wait_ns));
            }
        }
    }
    // Where threads that the program starts itself fork regions at the same time, what is
    // added up is more than one path.
    sum.min(process.duration_ns)
}

/// How many regions a construct is in, itself included.
pub(crate) fn level(process: &Process, index: usize) -> usize {
    let mut level = 0;
    let mut at = Some(index);
    while let Some(index) = at {
        let one = &process.constructs[index];
        level += usize::from(one.kind == ConstructKind::Parallel);
        at = one.parent;
    }
    level
}
