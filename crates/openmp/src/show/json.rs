//! The report for other programs. Times are numbers of seconds.

use serde_json::{Value, json};

use super::seconds;
use crate::characteristics::{Characteristics, LossClass, Losses, Overheads};
use crate::location::Location;
use crate::points::SynchronisationPoint;
use crate::recording::{Construct, Others, Process, Recording, ThreadTime};
use crate::report::{Interval, ProcessReport, Report};

/// The version of the JSON form.
const SCHEMA_VERSION: u32 = 1;

impl Report {
    /// The report for other programs. The characteristics of the program stand at the top.
    #[must_use]
    pub fn to_json(&self, recording: &Recording) -> Value {
        let mut value = characteristics(&self.characteristics);
        value["schema"] = "unspool-openmp".into();
        value["version"] = SCHEMA_VERSION.into();
        value["command"] = recording.command.clone().into();
        value["hierarchy"] = json!(self.hierarchy);
        let processes = self.processes.iter().zip(&recording.processes);
        let processes: Vec<Value> = processes
            .map(|(report, process)| of_process(report, process))
            .collect();
        if let [only] = processes.as_slice() {
            for key in [
                "concurrency",
                "intervals",
                "synchronisation_points",
                "diagnosis",
                "constructs",
            ] {
                value[key] = only[key].clone();
            }
        } else {
            let intervals = processes.iter().flat_map(|process| {
                process["intervals"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .cloned()
            });
            value["intervals"] = intervals.collect();
            value["diagnosis"] = sentences(&self.diagnosis);
        }
        value["processes"] = processes.into();
        value["others"] = recording.others.as_ref().map(others).into();
        value
    }
}

/// What else ran on the machine.
fn others(others: &Others) -> Value {
    json!({
        "running": seconds(others.ran_ns),
        "most": others.most.as_ref().map(|most| json!({
            "name": most.name,
            "process": most.process,
            "running": seconds(most.ran_ns),
        })),
    })
}

/// The characteristics of a program or an interval.
fn characteristics(one: &Characteristics) -> Value {
    let losses = one.losses();
    let serial = losses.get(LossClass::SerialPart);
    let lost = one.lost_ns();
    let total = one.total_ns();
    // The original analyser counts what workers miss of serial parts as productive.
    let productive_with_serial = one.productive_ns() + serial;
    json!({
        "execution_time": seconds(one.execution_ns),
        "processors": one.processors,
        "total": seconds(total),
        "productive": seconds(one.productive_ns()),
        "idle": seconds(one.idle_ns()),
        "lost": seconds(lost),
        "insufficient_parallelism": seconds(one.insufficient_parallelism_ns()),
        "desync": seconds(one.desynchronisation_ns()),
        "efficiency": one.efficiency(),
        "losses": losses_json(&losses),
        "overheads": overheads(&losses),
        "without_serial_parts": {
            "productive": seconds(productive_with_serial),
            "lost": seconds(lost - serial),
            "insufficient_parallelism": seconds(losses.get(LossClass::Duplicated)),
            "lost_in_one_thread": seconds(most_in_one_thread(one)),
            "efficiency": if total > 0 { productive_with_serial as f64 / total as f64 } else { 1.0 },
        },
        "threads": one.threads.iter().map(|thread| json!({
            "thread": thread.thread,
            "productive": seconds(thread.productive_ns),
            "idle": seconds(thread.idle_ns),
            "lost": seconds(thread.losses.sum()),
            "losses": losses_json(&thread.losses),
        })).collect::<Vec<_>>(),
    })
}

/// The largest loss of a thread, serial parts not counted: the other reading of "lost time".
fn most_in_one_thread(one: &Characteristics) -> u64 {
    let losses = one
        .threads
        .iter()
        .map(|thread| thread.losses.sum() - thread.losses.get(LossClass::SerialPart));
    losses.max().unwrap_or(0)
}

pub(super) fn losses_json(losses: &Losses) -> Value {
    let pairs = LossClass::ALL.iter().map(|class| {
        let name = serde_json::to_value(class).ok();
        let name = name
            .and_then(|name| name.as_str().map(str::to_owned))
            .unwrap_or_default();
        (name, Value::from(seconds(losses.get(*class))))
    });
    Value::Object(pairs.collect())
}

/// ompP's four classes.
fn overheads(losses: &Losses) -> Value {
    let overheads = Overheads::of(losses);
    json!({
        "imbalance": seconds(overheads.imbalance_ns),
        "synchronisation": seconds(overheads.synchronisation_ns),
        "limited_parallelism": seconds(overheads.limited_parallelism_ns),
        "thread_management": seconds(overheads.thread_management_ns),
    })
}

fn sentences(findings: &[(f64, String)]) -> Value {
    let sentences = findings.iter().map(|(_, sentence)| sentence.clone());
    sentences.collect()
}

fn of_process(report: &ProcessReport, process: &Process) -> Value {
    let mut value = characteristics(&report.characteristics);
    value["process"] = process.process.into();
    value["rank"] = process.rank.into();
    value["arguments"] = process.arguments.clone().into();
    value["runtimes"] = process.runtimes.clone().into();
    value["available_processors"] = process.processors.into();
    value["cancelled"] = process.cancelled.into();
    value["thread_times"] = process.thread_times.iter().map(thread_time).collect();
    value["hierarchy"] = json!(report.hierarchy);
    value["critical_path_useful"] = seconds(report.critical_path_useful_ns).into();
    value["concurrency"] = match &report.concurrency_ns {
        Some(levels) => levels.iter().copied().map(seconds).collect(),
        None => Value::Null,
    };
    value["intervals"] = report.intervals.iter().map(interval).collect();
    value["synchronisation_points"] = report.points.iter().map(point).collect();
    value["diagnosis"] = sentences(&report.diagnosis);
    value["constructs"] = process.constructs.iter().map(construct).collect();
    value["problems"] = process.problems.clone().into();
    value
}

fn thread_time(one: &ThreadTime) -> Value {
    json!({
        "thread": one.thread,
        "running": seconds(one.ran_ns),
        "without_processor": seconds(one.without_ns),
        "stopped_to_wait": one.stopped,
        "preempted": one.preempted,
    })
}

fn interval(one: &Interval) -> Value {
    let mut value = characteristics(&one.characteristics);
    value["name"] = one.name.clone().into();
    value["level"] = one.level.into();
    value["count"] = one.count.into();
    value["location"] = location(&one.location);
    value
}

fn location(one: &Location) -> Value {
    json!({
        "file": one.file,
        "line": one.line,
        "function": one.function,
        "module": one.module,
        "offset": one.offset,
    })
}

fn point(one: &SynchronisationPoint) -> Value {
    json!({
        "kind": one.kind.word(),
        "name": one.name,
        "location": location(&one.location),
        "call_path": one.call_path.iter().map(location).collect::<Vec<_>>(),
        "class": one.class,
        "count": one.count,
        "wait": seconds(one.wait_ns),
        "average_wait": seconds(one.average_wait_ns()),
        "longest_wait": seconds(one.longest_wait_ns),
        "block": seconds(one.block_ns),
        "critical_path": seconds(one.critical_path_ns),
        "threads": one.threads.iter().map(|(thread, count, wait, last)| json!({
            "thread": thread, "count": count, "wait": seconds(*wait), "last_arrivals": last,
        })).collect::<Vec<_>>(),
    })
}

fn construct(one: &Construct) -> Value {
    json!({
        "kind": one.kind.word(),
        "parent": one.parent,
        "name": one.name,
        "location": location(&one.location),
        "call_path": one.call_path.iter().map(location).collect::<Vec<_>>(),
        "team": one.team,
        "schedule": one.schedule,
        "threads": one.shares.iter().map(|share| json!({
            "thread": share.thread,
            "count": share.count,
            "total": seconds(share.total_ns),
            "own": seconds(share.own_ns),
            "wait": seconds(share.wait_ns),
            "startup": seconds(share.startup_ns),
            "processor": seconds(share.lacking_processor_ns()),
            "runtime": seconds(share.runtime_ns),
            "runtime_calls": share.runtime_calls,
            "chain": seconds(share.chain_ns),
        })).collect::<Vec<_>>(),
    })
}
