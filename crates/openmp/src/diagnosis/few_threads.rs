//! Work that fewer threads do than there are, or that all of them repeat.

use unspool_openmp_record::ConstructKind;

use super::regions::Regions;
use super::{Finding, seconds};
use crate::recording::{Construct, Process};

/// A program whose parallel regions have one thread each.
pub(super) fn never_parallel(process: &Process) -> Option<Finding> {
    let regions = process
        .constructs
        .iter()
        .filter(|one| one.kind == ConstructKind::Parallel);
    let passages: u64 = regions
        .flat_map(|one| &one.shares)
        .map(|share| share.count)
        .sum();
    let sentence = format!(
        "nothing runs in parallel: all {passages} passages of parallel regions have one thread; \
         OMP_NUM_THREADS, num_threads and if clauses say how many there are"
    );
    (process.threads == 1).then_some((f64::INFINITY, sentence))
}

/// What is outside parallel regions.
pub(super) fn serial_part(process: &Process) -> Option<Finding> {
    let first = process
        .constructs
        .iter()
        .find(|one| one.kind == ConstructKind::Serial)?;
    let share = first.shares.iter().find(|share| share.thread == 0)?;
    let threads = process.threads as f64;
    let saved = seconds(share.own_ns) * (1.0 - 1.0 / threads);
    let part = share.own_ns as f64 / process.duration_ns.max(1) as f64;
    let sentence = format!(
        "{:.3} s ({:.0} % of the run) are outside parallel regions, where one thread works and {} wait; \
         made parallel, they would take up to {saved:.3} s less",
        seconds(share.own_ns),
        part * 100.0,
        process.threads - 1
    );
    (process.threads > 1).then_some((saved, sentence))
}

/// A region that one thread executes, though there are others.
pub(super) fn region_of_one(process: &Process, one: &Construct) -> Option<Finding> {
    if one.kind != ConstructKind::Parallel || one.team != 1 || process.threads < 2 {
        return None;
    }
    let share = one.shares.iter().max_by_key(|share| share.total_ns)?;
    let saved = seconds(share.total_ns) * (1.0 - 1.0 / process.threads as f64);
    let sentence = format!(
        "one thread alone executes the parallel region at {} for {:.3} s while {} have no part in \
         it; with all of them it would take up to {saved:.3} s less",
        one.location.short(),
        seconds(share.total_ns),
        process.threads - 1
    );
    Some((saved, sentence))
}

/// Work outside worksharing constructs that all threads of a region do.
pub(super) fn repeated_work(one: &Construct) -> Option<Finding> {
    if one.kind != ConstructKind::Parallel || one.team < 2 {
        return None;
    }
    let own = || one.shares.iter().map(|share| share.own_ns);
    let (most, least) = (own().max()?, own().min()?);
    // What only some threads do may be divided by the program itself.
    let is_by_all = one.shares.len() as u64 >= one.team && least.saturating_mul(2) >= most;
    let saved = seconds(most) * (1.0 - 1.0 / one.team as f64);
    let sentence = format!(
        "all {} threads of the region at {} do the same work outside worksharing constructs, {:.3} s each; \
         dividing it would save up to {saved:.3} s",
        one.team,
        one.location.short(),
        seconds(most)
    );
    is_by_all.then_some((saved, sentence))
}

/// A block that one thread executes while the others wait: they wait for no longer than it takes.
pub(super) fn one_worker(process: &Process, regions: &Regions, index: usize) -> Option<Finding> {
    let one = &process.constructs[index];
    if one.kind != ConstructKind::Single {
        return None;
    }
    let region = regions.around(index)?;
    let team = process.constructs[region].team as f64;
    let spent: u64 = one.shares.iter().map(|share| share.own_ns).sum();
    // One thread of the team does not wait.
    let waited = regions.saves_at_most(region) * team / (team - 1.0).max(1.0);
    let saved = seconds(spent).min(waited);
    let sentence = format!(
        "one thread executes the single block at {} for {:.3} s while others wait; \
         if their work does not depend on it, nowait lets them go on",
        one.location.short(),
        seconds(spent)
    );
    Some((saved, sentence))
}

/// The master block that threads wait for at a barrier in the same construct, if it is what takes
/// long: where it is, and how long it took.
pub(super) fn master_before(process: &Process, barrier: &Construct) -> Option<(String, f64)> {
    let longest = barrier.shares.iter().map(|share| share.own_ns).max()?;
    let masters = process
        .constructs
        .iter()
        .filter(|one| one.kind == ConstructKind::Master && one.parent == barrier.parent);
    let took = |one: &Construct| one.shares.iter().map(|share| share.total_ns).max();
    let (took, master) = masters
        .filter_map(|one| Some((took(one)?, one)))
        .max_by_key(|(took, _)| *took)?;
    (took.saturating_mul(2) >= longest).then(|| (master.location.short(), seconds(took)))
}
