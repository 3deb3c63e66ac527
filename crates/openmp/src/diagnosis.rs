//! What is wrong with a program, in plain words.

use unspool_openmp_record::ConstructKind;

use crate::characteristics::{Characteristics, LossClass};
use crate::points::SynchronisationPoint;
use crate::recording::{Construct, Process};

mod imbalance;

/// What costs less than this part of the execution time is not worth a sentence.
const WORTH_SAYING: f64 = 0.005;

/// Findings, what costs most first: how many seconds could be saved, and a sentence.
pub(crate) fn of_process(
    process: &Process,
    characteristics: &Characteristics,
    points: &[SynchronisationPoint],
) -> Vec<(f64, String)> {
    let mut findings = Vec::new();
    if process
        .constructs
        .iter()
        .all(|one| one.kind != ConstructKind::Parallel)
    {
        return findings;
    }
    findings.extend(serial_part(process));
    for (index, one) in process.constructs.iter().enumerate() {
        findings.extend(imbalance::of_work(process, index, one));
        findings.extend(repeated_work(one));
        findings.extend(one_worker(one));
    }
    findings.extend(points.iter().filter_map(imbalance::that_alternates));
    findings.extend(points.iter().filter_map(|point| contention(process, point)));
    findings.extend(startup(process, characteristics));
    findings.extend(oversubscription(process));
    let least = characteristics.execution_ns as f64 * WORTH_SAYING / 1e9;
    findings.retain(|(seconds, _)| *seconds >= least);
    findings.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    findings
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn repeated_work(one: &Construct) -> Option<(f64, String)> {
    if one.kind != ConstructKind::Parallel || one.team < 2 {
        return None;
    }
    let most = one.shares.iter().map(|share| share.own_ns).max()?;
    let sum: u64 = one.shares.iter().map(|share| share.own_ns).sum();
    let saved = seconds(most) * (1.0 - 1.0 / one.team as f64);
    if sum < most.saturating_mul(2) {
        return None;
    }
    let sentence = format!(
        "all {} threads of the region at {} do the same work outside worksharing constructs, {:.3} s each; \
         dividing it would save up to {saved:.3} s",
        one.team,
        one.location.short(),
        seconds(most)
    );
    Some((saved, sentence))
}

/// A block that one thread executes while the others wait.
fn one_worker(one: &Construct) -> Option<(f64, String)> {
    if one.kind != ConstructKind::Single {
        return None;
    }
    let spent: u64 = one.shares.iter().map(|share| share.own_ns).sum();
    let sentence = format!(
        "one thread executes the single block at {} for {:.3} s while others wait; \
         if their work does not depend on it, nowait lets them go on",
        one.location.short(),
        seconds(spent)
    );
    Some((seconds(spent), sentence))
}

fn serial_part(process: &Process) -> Option<(f64, String)> {
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

fn contention(process: &Process, point: &SynchronisationPoint) -> Option<(f64, String)> {
    let place = point.location.short();
    let waited = seconds(point.wait_ns);
    let saved = waited / process.threads.max(1) as f64;
    let advice = match point.class {
        LossClass::Critical => {
            "shorten the block, or collect per thread (reduction) and combine once"
        }
        LossClass::Lock => "hold the lock for less time, or use several locks",
        LossClass::Ordered => "move what needs no order out of the ordered block",
        LossClass::Barrier => {
            "see whether the threads really must meet there, or share the work before it more evenly"
        }
        LossClass::Tasks => {
            "create more or smaller tasks, so that waiting threads find some to execute"
        }
        LossClass::Target => "let the host work meanwhile (nowait)",
        LossClass::Communication => "overlap communication with computation, or communicate less",
        _ => return None,
    };
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

fn startup(process: &Process, characteristics: &Characteristics) -> Option<(f64, String)> {
    let lost = seconds(characteristics.losses().get(LossClass::Startup));
    let regions = process
        .constructs
        .iter()
        .filter(|one| one.kind == ConstructKind::Parallel);
    let forks: u64 = regions
        .flat_map(|one| &one.shares)
        .filter(|share| share.forked)
        .map(|share| share.count)
        .sum();
    let saved = lost / process.threads.max(1) as f64;
    let sentence = format!(
        "starting threads costs {lost:.3} s in {forks} parallel regions; fewer, larger regions would cost less"
    );
    Some((saved, sentence))
}

fn oversubscription(process: &Process) -> Option<(f64, String)> {
    let (threads, processors) = (process.threads, process.processors);
    (processors > 0 && threads > processors).then(|| {
        let sentence = format!(
            "{threads} threads share {processors} processors: times include waiting for a processor"
        );
        (f64::INFINITY, sentence)
    })
}
