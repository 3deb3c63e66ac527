//! Tasks: too small to be worth creating, or too large to be shared evenly.

use unspool_openmp_record::ConstructKind;

use super::regions::Regions;
use super::{Finding, seconds};
use crate::recording::{Construct, Process};

/// Tasks that take less are about as long as creating and handing out one takes: some hundred
/// nanoseconds to some microseconds, depending on how many threads want one at once.
const SMALL_NS: u64 = 10_000;
/// So few tasks cost nothing to create.
const FEW: u64 = 100;

/// All tasks of some constructs.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tasks {
    count: u64,
    sum_ns: u64,
    longest_ns: u64,
    /// The longest chains of tasks each of which depends on the one before, of all passages.
    chain_ns: u64,
}

impl Tasks {
    fn of<'a>(constructs: impl Iterator<Item = &'a Construct>) -> Tasks {
        let tasks = constructs.filter(|one| one.kind == ConstructKind::Task);
        let shares = tasks.flat_map(|one| &one.shares);
        shares.fold(Tasks::default(), |tasks, share| Tasks {
            count: tasks.count.saturating_add(share.count),
            sum_ns: tasks.sum_ns.saturating_add(share.own_ns),
            longest_ns: tasks.longest_ns.max(share.longest_own_ns),
            chain_ns: tasks.chain_ns.saturating_add(share.chain_ns),
        })
    }

    fn mean_ns(&self) -> u64 {
        self.sum_ns / self.count.max(1)
    }
}

/// What to do where threads wait for tasks.
pub(super) fn advice(process: &Process) -> String {
    let tasks = Tasks::of(process.constructs.iter());
    if tasks.count >= FEW && tasks.mean_ns() < SMALL_NS {
        return format!(
            "the {} tasks take {:.3} \u{b5}s each, about as long as to create and hand out one: \
             create fewer, larger ones",
            tasks.count,
            tasks.mean_ns() as f64 / 1e3
        );
    }
    "more or smaller tasks may let waiting threads find some to execute".to_owned()
}

/// A region in which threads wait because tasks depend on each other: the longest chain takes longer
/// than all tasks would if the threads shared them evenly.
pub(super) fn chained(process: &Process, regions: &Regions, index: usize) -> Option<Finding> {
    /// So much longer, as a part of that.
    const LONGER: f64 = 0.1;
    let region = &process.constructs[index];
    if region.kind != ConstructKind::Parallel || region.team < 2 {
        return None;
    }
    let tasks = Tasks::of(regions.constructs_of(process, index));
    let team = region.team as f64;
    let (all, chain) = (seconds(tasks.sum_ns), seconds(tasks.chain_ns));
    let more = chain - all / team;
    if more <= all / team * LONGER {
        return None;
    }
    let saved = more.min(regions.saves_at_most(index));
    let sentence = format!(
        "tasks of the region at {} depend on each other: the longest chain takes {chain:.3} s of the \
         {all:.3} s of all {} tasks, and no number of threads makes that shorter; dependences that \
         leave more tasks independent, or shorter tasks in the chain, may save up to {saved:.3} s",
        region.location.short(),
        tasks.count,
    );
    Some((saved, sentence))
}

/// A region in which threads wait at the end, or at a barrier, for tasks that others execute.
pub(super) fn uneven(process: &Process, regions: &Regions, index: usize) -> Option<Finding> {
    let region = &process.constructs[index];
    if region.kind != ConstructKind::Parallel || region.team < 2 {
        return None;
    }
    let within = || regions.constructs_of(process, index);
    let tasks = Tasks::of(within());
    // What is shared by other means has sentences of its own.
    let is_shared = within().any(|one| {
        let is_other = one.kind.is_worksharing() && one.kind != ConstructKind::Single;
        is_other && one.shares.iter().any(|share| share.own_ns > 0)
    });
    let saved = regions.saves_at_most(index);
    // A task at the end keeps the others waiting for as long as it takes, at most.
    if tasks.count == 0 || is_shared || seconds(tasks.longest_ns) * 2.0 < saved {
        return None;
    }
    let sentence = format!(
        "the tasks of the region at {} are executed unevenly: threads wait {:.3} s in all for the \
         last ones; the longest of {} takes {:.3} s, the mean {:.3} s; dividing long tasks, or \
         creating them first, may save up to {saved:.3} s",
        region.location.short(),
        seconds(regions.waited_ns(index)),
        tasks.count,
        seconds(tasks.longest_ns),
        seconds(tasks.mean_ns()),
    );
    Some((saved, sentence))
}
