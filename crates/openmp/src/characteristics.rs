//! Where the time of all threads went: productive, lost, and to what.
//!
//! Definitions are those of the DVM system's analyser and its OpenMP successors: total time
//! is execution time times threads, and all of it is productive, lost or idle. What a thread
//! does between being forked and the join is measured; what remains of the execution time
//! it had no part in the work, which is insufficient parallelism, as is work that every
//! thread of a region repeats.

#[cfg(test)]
mod tests;

use serde::Serialize;
use unspool_openmp_record::ConstructKind;

use crate::recording::{Construct, Process, Share};

/// Why time is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LossClass {
    /// The thread had no part in the work: serial parts, and regions with fewer threads.
    SerialPart,
    /// The thread repeated what others did: work in a region outside worksharing constructs.
    Duplicated,
    /// Waiting at the end of a worksharing construct or of a region.
    Desynchronisation,
    /// Waiting at a barrier that the program asks for.
    Barrier,
    /// Waiting for a critical construct or an atomic update.
    Critical,
    /// Waiting for a lock.
    Lock,
    /// Waiting for one's turn in an ordered construct.
    Ordered,
    /// Waiting for tasks.
    Tasks,
    /// From a region's fork until the thread started.
    Startup,
    /// The runtime's own work to hand out the parts of loops and sections.
    Scheduling,
    /// The runtime's own work to create tasks.
    Tasking,
    /// Combining what a reduction has of each thread.
    Reduction,
    /// Waiting for a target device.
    Target,
    /// In MPI.
    Communication,
    /// In what starts MPI and ends it, which is no communication of the program's.
    Launch,
    /// Ready to run, or waiting for a thread that was, without a processor to run on.
    Processor,
}

impl LossClass {
    /// Every class.
    pub const ALL: &[LossClass] = &[
        LossClass::SerialPart,
        LossClass::Duplicated,
        LossClass::Desynchronisation,
        LossClass::Barrier,
        LossClass::Critical,
        LossClass::Lock,
        LossClass::Ordered,
        LossClass::Tasks,
        LossClass::Startup,
        LossClass::Scheduling,
        LossClass::Tasking,
        LossClass::Reduction,
        LossClass::Target,
        LossClass::Communication,
        LossClass::Launch,
        LossClass::Processor,
    ];

    /// The words for it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            LossClass::SerialPart => "serial parts",
            LossClass::Duplicated => "duplicated work",
            LossClass::Desynchronisation => "desynchronisation",
            LossClass::Barrier => "barriers",
            LossClass::Critical => "criticals",
            LossClass::Lock => "locks",
            LossClass::Ordered => "ordered",
            LossClass::Tasks => "waiting for tasks",
            LossClass::Startup => "starting threads",
            LossClass::Scheduling => "scheduling of loops",
            LossClass::Tasking => "creation of tasks",
            LossClass::Reduction => "reductions",
            LossClass::Target => "target regions",
            LossClass::Communication => "communication",
            LossClass::Launch => "starting and ending MPI",
            LossClass::Processor => "waiting for a processor",
        }
    }

    /// The class of what a thread waits for in a construct: within it, and before its block or at its
    /// end.
    pub(crate) fn of_waits(one: &Construct) -> (Option<LossClass>, Option<LossClass>) {
        let own = match one.kind {
            ConstructKind::ImplicitBarrier | ConstructKind::Flush => {
                Some(LossClass::Desynchronisation)
            }
            ConstructKind::Barrier => Some(LossClass::Barrier),
            ConstructKind::TaskWait | ConstructKind::TaskGroup => Some(LossClass::Tasks),
            ConstructKind::Target => Some(LossClass::Target),
            ConstructKind::Mpi if one.starts_or_ends_mpi() => Some(LossClass::Launch),
            ConstructKind::Mpi => Some(LossClass::Communication),
            _ => None,
        };
        let before = match one.kind {
            ConstructKind::Parallel => Some(LossClass::Desynchronisation),
            ConstructKind::Critical | ConstructKind::Atomic => Some(LossClass::Critical),
            ConstructKind::Lock => Some(LossClass::Lock),
            ConstructKind::Ordered => Some(LossClass::Ordered),
            _ => None,
        };
        (own, before)
    }
}

/// The class of what the runtime itself does in a construct of this kind.
fn of_runtime_work(kind: ConstructKind) -> LossClass {
    match kind {
        ConstructKind::TaskCreation => LossClass::Tasking,
        ConstructKind::Reduction => LossClass::Reduction,
        _ => LossClass::Scheduling,
    }
}

/// Lost time by class, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses([u64; LossClass::ALL.len()]);

impl Losses {
    /// What was lost for this reason.
    #[must_use]
    pub fn get(&self, class: LossClass) -> u64 {
        self.0[class as usize]
    }

    /// Adds what was lost for this reason.
    pub(crate) fn add(&mut self, class: LossClass, ns: u64) {
        self.0[class as usize] = self.0[class as usize].saturating_add(ns);
    }

    /// Adds other losses.
    pub(crate) fn add_all(&mut self, other: &Losses) {
        for class in LossClass::ALL {
            self.add(*class, other.get(*class));
        }
    }

    /// All of it.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.iter().fold(0, |sum, ns| sum.saturating_add(*ns))
    }
}

/// Lost time by the four classes of the profiler ompP (K. Fürlinger, M. Gerndt, 2006), in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Overheads {
    /// Waiting for threads that have more to do.
    pub imbalance_ns: u64,
    /// Waiting for what only one thread may do, for tasks, for devices and other processes, and for a
    /// processor.
    pub synchronisation_ns: u64,
    /// Doing nothing, or what others do as well.
    pub limited_parallelism_ns: u64,
    /// Starting threads and giving them work.
    pub thread_management_ns: u64,
}

impl Overheads {
    /// Losses by these classes: each belongs to one of them.
    #[must_use]
    pub fn of(losses: &Losses) -> Overheads {
        let mut overheads = Overheads::default();
        for class in LossClass::ALL {
            let sum = match class {
                LossClass::Desynchronisation => &mut overheads.imbalance_ns,
                LossClass::SerialPart | LossClass::Duplicated => {
                    &mut overheads.limited_parallelism_ns
                }
                LossClass::Startup
                | LossClass::Scheduling
                | LossClass::Tasking
                | LossClass::Reduction => &mut overheads.thread_management_ns,
                LossClass::Barrier
                | LossClass::Critical
                | LossClass::Lock
                | LossClass::Ordered
                | LossClass::Tasks
                | LossClass::Target
                | LossClass::Communication
                | LossClass::Launch
                | LossClass::Processor => &mut overheads.synchronisation_ns,
            };
            *sum = sum.saturating_add(losses.get(*class));
        }
        overheads
    }
}

/// One thread's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadCharacteristics {
    /// The thread's place.
    pub thread: usize,
    /// What advanced the program.
    pub productive_ns: u64,
    /// When the process had ended and others of the job had not.
    pub idle_ns: u64,
    /// What was lost.
    pub losses: Losses,
}

/// The time of all threads, in a program or a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Characteristics {
    /// How long it took.
    pub execution_ns: u64,
    /// How many threads there were.
    pub processors: usize,
    /// Each thread's time; each adds up to the execution time.
    pub threads: Vec<ThreadCharacteristics>,
}

impl Characteristics {
    /// Execution time times threads.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.execution_ns.saturating_mul(self.processors as u64)
    }

    /// What advanced the program.
    #[must_use]
    pub fn productive_ns(&self) -> u64 {
        self.threads.iter().map(|thread| thread.productive_ns).sum()
    }

    /// When processes had ended and others of the job had not.
    #[must_use]
    pub fn idle_ns(&self) -> u64 {
        self.threads.iter().map(|thread| thread.idle_ns).sum()
    }

    /// What was lost, by class.
    #[must_use]
    pub fn losses(&self) -> Losses {
        let mut sum = Losses::default();
        for thread in &self.threads {
            sum.add_all(&thread.losses);
        }
        sum
    }

    /// What was lost.
    #[must_use]
    pub fn lost_ns(&self) -> u64 {
        self.losses().sum()
    }

    /// Serial parts and duplicated work.
    #[must_use]
    pub fn insufficient_parallelism_ns(&self) -> u64 {
        let losses = self.losses();
        losses.get(LossClass::SerialPart) + losses.get(LossClass::Duplicated)
    }

    /// Waiting at the end of worksharing constructs.
    #[must_use]
    pub fn desynchronisation_ns(&self) -> u64 {
        self.losses().get(LossClass::Desynchronisation)
    }

    /// The productive part of the total.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        match self.total_ns() {
            0 => 1.0,
            total => self.productive_ns() as f64 / total as f64,
        }
    }

    /// Those of a whole process.
    #[must_use]
    pub fn of_process(process: &Process) -> Characteristics {
        let all = vec![true; process.constructs.len()];
        Characteristics::of_part(process, &all, process.duration_ns)
    }

    /// Those of the constructs for which `is_part` is true, which took so long.
    pub(crate) fn of_part(
        process: &Process,
        is_part: &[bool],
        execution_ns: u64,
    ) -> Characteristics {
        let new = |thread| ThreadCharacteristics {
            thread,
            ..ThreadCharacteristics::default()
        };
        let mut threads: Vec<_> = (0..process.threads).map(new).collect();
        let mut accounted = vec![0_u64; process.threads];
        for (one, _) in process
            .constructs
            .iter()
            .zip(is_part)
            .filter(|(_, is)| **is)
        {
            add_construct(one, &mut threads, &mut accounted);
        }
        for (thread, accounted) in threads.iter_mut().zip(accounted) {
            let rest = execution_ns.saturating_sub(accounted);
            thread.losses.add(LossClass::SerialPart, rest);
            // Each thread's time is the execution time: what rounding adds is not invented.
            thread.limit_to(execution_ns);
        }
        Characteristics {
            execution_ns,
            processors: process.threads,
            threads,
        }
    }
}

impl ThreadCharacteristics {
    /// Makes losses fit, and the rest productive.
    fn limit_to(&mut self, execution_ns: u64) {
        let mut room = execution_ns;
        for class in LossClass::ALL {
            let kept = self.losses.get(*class).min(room);
            self.losses.0[*class as usize] = kept;
            room -= kept;
        }
        self.productive_ns = room;
    }
}

fn add_construct(one: &Construct, threads: &mut [ThreadCharacteristics], accounted: &mut [u64]) {
    let (own_class, wait_class) = LossClass::of_waits(one);
    let useful_thread = useful_thread(one);
    for share in &one.shares {
        let Some(thread) = threads.get_mut(share.thread) else {
            continue;
        };
        let account = &mut accounted[share.thread];
        *account = account.saturating_add(share.accounted_ns());
        if let Some(class) = own_class {
            thread.losses.add(class, share.own_ns);
        }
        if let Some(class) = wait_class {
            thread.losses.add(class, share.wait_ns);
        }
        thread.losses.add(LossClass::Startup, share.startup_ns);
        let runtime = of_runtime_work(one.kind);
        thread.losses.add(runtime, share.runtime_ns);
        let lacking = share.lacking_processor_ns();
        thread.losses.add(LossClass::Processor, lacking);
        if one.kind == ConstructKind::Parallel && Some(share.thread) != useful_thread {
            thread.losses.add(LossClass::Duplicated, share.own_ns);
        }
    }
}

/// Of the threads that do the same work in a region, the one whose work counts: that which
/// took longest over it.
fn useful_thread(one: &Construct) -> Option<usize> {
    let longest = one.shares.iter().max_by_key(|share: &&Share| share.own_ns);
    longest.map(|share| share.thread)
}
