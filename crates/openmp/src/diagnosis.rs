//! What is wrong with a program, in plain words.

use unspool_openmp_record::ConstructKind;

use crate::characteristics::{Characteristics, LossClass};
use crate::points::SynchronisationPoint;
use crate::recording::{Construct, Others, Process};
use explained::Explained;
use regions::Regions;
use regions::nested::Instances;

mod explained;
mod few_threads;
mod imbalance;
mod processors;
pub(crate) mod ranks;
mod regions;
mod runtime_work;
mod tasks;

#[cfg(test)]
mod tests;

/// How many seconds could be saved, and a sentence.
type Finding = (f64, String);

/// What costs less than this part of the execution time is not worth a sentence.
const WORTH_SAYING: f64 = 0.005;
/// Seconds that sentences would round to nothing.
const NOTHING: f64 = 0.0005;

/// Findings, what costs most first.
pub(crate) fn of_process(
    process: &Process,
    others: Option<&Others>,
    characteristics: &Characteristics,
    points: &[SynchronisationPoint],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if process
        .constructs
        .iter()
        .all(|one| one.kind != ConstructKind::Parallel)
    {
        return findings;
    }
    let regions = Regions::new(process);
    findings.extend(few_threads::never_parallel(process));
    findings.extend(few_threads::serial_part(process));
    let least = worth_saying(characteristics);
    let mut explained = Explained::nothing(process);
    let mut instances = Instances::default();
    for (index, one) in process.constructs.iter().enumerate() {
        let team = regions.team(process, index);
        let forked_by = regions
            .around(index)
            .and_then(|region| process.constructs[region].forked_by);
        for (kind, (finding, threads)) in [
            (imbalance::of_work(process, &regions, index), team),
            (
                tasks::chained(process, &regions, index)
                    .or_else(|| tasks::uneven(process, &regions, index)),
                team,
            ),
            (
                few_threads::one_worker(process, &regions, index),
                team - 1.0,
            ),
            (regions::nested::uneven(process, &regions, index), team),
        ]
        .into_iter()
        .enumerate()
        {
            // What is not said explains nothing.
            if let Some((saved, sentence)) = finding.filter(|(saved, _)| *saved >= least) {
                explained.add(&regions, index, saved * threads);
                match forked_by {
                    None => findings.push((saved, sentence)),
                    Some(thread) => instances.add(kind, &one.location, thread, (saved, sentence)),
                }
            }
        }
        findings.extend(few_threads::region_of_one(process, one));
        findings.extend(few_threads::repeated_work(one));
    }
    findings.extend(instances.findings());
    for point in points {
        let Some(left) = explained.left_of(process, &regions, point) else {
            continue;
        };
        let alternates = imbalance::that_alternates(point, left);
        let waits = contention(process, point).map(|(saved, sentence)| (saved * left, sentence));
        // The one that says why threads wait is enough, if it is about most of it.
        let why = alternates.as_ref().map_or(0.0, |(saved, _)| *saved);
        findings.extend(waits.filter(|(saved, _)| why < 0.5 * saved));
        findings.extend(alternates);
    }
    findings.extend(runtime_work::findings(process, &regions));
    findings.extend(startup(process, characteristics));
    findings.extend(processors::lacking(process, others, characteristics));
    ranked(findings, characteristics)
}

/// How many seconds a finding must save to be worth a sentence.
fn worth_saying(characteristics: &Characteristics) -> f64 {
    (characteristics.execution_ns as f64 * WORTH_SAYING / 1e9).max(NOTHING)
}

/// What is worth saying of a run, what costs most first.
pub(crate) fn ranked(
    mut findings: Vec<Finding>,
    characteristics: &Characteristics,
) -> Vec<Finding> {
    let least = worth_saying(characteristics);
    findings.retain(|(seconds, _)| *seconds >= least);
    findings.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    findings
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// What to do where threads wait.
fn advice(process: &Process, point: &SynchronisationPoint) -> Option<String> {
    let advice = match point.class {
        LossClass::Critical => {
            "shorten the block, or collect per thread (reduction) and combine once"
        }
        LossClass::Lock => "hold the lock for less time, or use several locks",
        LossClass::Ordered => "move what needs no order out of the ordered block",
        LossClass::Barrier => return Some(advice_at_barrier(process, point)),
        LossClass::Tasks => return Some(tasks::advice(process)),
        LossClass::Target => "let the host work meanwhile (nowait)",
        LossClass::Launch => "MPI starts or ends there, which is no communication of the program's",
        LossClass::Communication => "overlap communication with computation, or communicate less",
        _ => return None,
    };
    Some(advice.to_owned())
}

/// What to do where threads wait at a barrier.
fn advice_at_barrier(process: &Process, point: &SynchronisationPoint) -> String {
    let barriers = process
        .constructs
        .iter()
        .filter(|one| one.kind == point.kind && one.location == point.location);
    let masters = barriers.filter_map(|one| few_threads::master_before(process, one));
    match masters.max_by(|(_, one), (_, other)| one.total_cmp(other)) {
        Some((place, took)) => format!(
            "one thread executes the master block at {place} for {took:.3} s meanwhile: let the \
             others share its work, or do theirs before they wait"
        ),
        None => "see whether the threads really must meet there, or share the work before it more \
                 evenly"
            .to_owned(),
    }
}

fn contention(process: &Process, point: &SynchronisationPoint) -> Option<Finding> {
    let place = point.location.short();
    let waited = seconds(point.wait_ns);
    let saved = waited / process.threads.max(1) as f64;
    let advice = advice(process, point)?;
    let name = point
        .name
        .as_deref()
        .map(|name| format!(" {name}"))
        .unwrap_or_default();
    let sentence = format!(
        "threads wait {waited:.3} s in all ({} times, longest {:.3} s) at the {}{name} at {place}; {advice}",
        point.count,
        seconds(point.longest_wait_ns),
        point.kind.word()
    );
    Some((saved, sentence))
}

fn startup(process: &Process, characteristics: &Characteristics) -> Option<Finding> {
    let lost = seconds(characteristics.losses().get(LossClass::Startup));
    let regions = process
        .constructs
        .iter()
        .filter(|one| one.kind == ConstructKind::Parallel);
    let forked = regions.clone().flat_map(|one| &one.shares);
    let forks: u64 = forked
        .filter(|share| share.forked)
        .map(|share| share.count)
        .sum();
    let of_region = |one: &Construct| one.shares.iter().map(|share| share.startup_ns).sum::<u64>();
    let most = regions.max_by_key(|one| of_region(one))?;
    let place = most.location.short();
    let saved = lost / process.threads.max(1) as f64;
    let sentence = match forks {
        0 | 1 => {
            format!("starting threads costs {lost:.3} s, once, in the parallel region at {place}")
        }
        _ => format!(
            "starting threads costs {lost:.3} s in {forks} passages of parallel regions, most of it \
             ({:.3} s) in that at {place}; fewer, larger regions would cost less",
            seconds(of_region(most))
        ),
    };
    Some((saved, sentence))
}
