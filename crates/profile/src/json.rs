//! The profile for programs.

use serde_json::{Value, json};
use unspool_profile_record::{Rate, Source};

use crate::event_values::Place;
use crate::metric_values::Known;
use crate::profile::Profile;
use crate::unit::Unit;

fn source(source: Source) -> &'static str {
    match source {
        Source::Kernel => "perf",
        Source::CpuTimers => "cpu timers",
        Source::WallTimers => "wall timers",
        Source::KernelWaits => "perf waits",
        Source::PerfRecord => "perf record",
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl Profile {
    /// The values of all metrics, by their names; null where there is none.
    fn metrics_of(&self, known: Known<'_>) -> Value {
        let metrics = self.metrics.iter();
        let values = metrics.map(|it| (it.name().to_owned(), json!(self.value_of(it, known))));
        Value::Object(values.collect())
    }

    /// The profile as JSON, with times in seconds, or numbers of events. `calling_contexts` names functions and callers
    /// by their places in the lists.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let weight = |weight: u64| self.unit.number(weight as f64);
        let functions = self.functions.iter().enumerate().map(|(place, function)| {
            json!({
                "name": function.name,
                "image": function.image,
                "self": weight(function.self_weight),
                "total": weight(function.total_weight),
                "self_of_threads": {
                    "mean": self.unit.number(function.spread.mean),
                    "min": weight(function.spread.least),
                    "max": weight(function.spread.most),
                    "standard_deviation": self.unit.number(function.spread.deviation),
                },
                "metrics": self.metrics_of(Known::of(place, function)),
            })
        });
        let contexts = self.tree.nodes().iter().enumerate().map(|(place, node)| {
            json!({
                "function": node.function.0,
                "parent": node.parent,
                "self": weight(node.self_weight),
                "total": weight(node.total_weight),
                "metrics": self.metrics_of(Known {
                    self_weight: node.self_weight,
                    total_weight: node.total_weight,
                    spread: None,
                    place: Place::Context(place),
                }),
            })
        });
        let lines = self.lines.iter().map(|line| {
            json!({
                "function": line.function.0,
                "line": line.line,
                "self": weight(line.self_weight),
            })
        });
        // Those that no sample was in have nothing to say.
        let mut places = vec![None; self.loops.len()];
        let mut loops = Vec::new();
        for (place, one) in self.loops.iter().enumerate() {
            if one.total_weight == 0 {
                continue;
            }
            places[place] = Some(loops.len());
            loops.push(json!({
                "function": one.function,
                "image": one.image,
                "address": one.code.address,
                "line": one.code.line.as_ref().map(ToString::to_string),
                "parent": one.code.parent.and_then(|parent| places[parent]),
                "depth": one.code.depth,
                "irreducible": one.code.is_irreducible,
                "self": weight(one.self_weight),
                "total": weight(one.total_weight),
                "metrics": self.metrics_of(Known {
                    self_weight: one.self_weight,
                    total_weight: one.total_weight,
                    spread: None,
                    place: Place::Loop(&one.image, one.code.address),
                }),
            }));
        }
        let threads = self.threads.iter().map(|thread| {
            json!({
                "process": thread.pid,
                "rank": thread.rank,
                "thread": thread.tid,
                "name": thread.name,
                "samples": thread.samples,
                "self": weight(thread.self_weight),
            })
        });
        let metrics = self.metrics.iter();
        let metrics = metrics.map(|it| json!({"name": it.name(), "formula": it.formula()}));
        let quality = &self.quality;
        json!({
            "schema": "unspool-profile/1",
            "command": self.command,
            "event": self.unit.event(),
            "counted": match &self.unit {
                Unit::Events { counted: Some(counted), .. } => json!({
                    "events": counted.count,
                    "enabled": seconds(counted.enabled_ns),
                    "running": seconds(counted.running_ns),
                }),
                _ => Value::Null,
            },
            "period": match &self.unit {
                Unit::Time => json!(self.settings.map(|settings| seconds(settings.period_ns))),
                Unit::Events { event, .. } => match event.rate {
                    Rate::Period(period) => json!(period),
                    Rate::Frequency(_) => Value::Null,
                },
            },
            "includes_kernel": self.settings.map(|settings| settings.includes_kernel),
            "source": self.settings.map(|settings| source(settings.source)),
            "timers": self.counted.map(|counted| json!({
                "expirations": counted.expirations,
                "sampled": counted.sampled,
                "without_room": counted.without_room,
                "used": seconds(counted.used_ns),
                "threads_left_out": counted.threads_left_out,
            })),
            "samples": self.samples,
            "preempted": self.preempted.map(|preempted| json!({
                "times": preempted.times,
                "seconds": seconds(preempted.ns),
            })),
            "longest": weight(self.heaviest),
            "lost": self.lost,
            "total": weight(self.total_weight),
            "window": self.window.map(|window| json!({
                "from": seconds(window.from_ns),
                "until": window.until_ns.map(seconds),
            })),
            "regions": self.regions.map(|regions| json!({
                "entered": regions.entered,
                "seconds": seconds(regions.inside_ns),
                "lost_marks": regions.lost_marks,
                "processes_elsewhere": regions.processes_elsewhere,
            })),
            "elapsed": self.ending.map(|ending| seconds(ending.elapsed_ns)),
            "user": self.counted_by_system().map(|ending| seconds(ending.user_ns)),
            "system": self.counted_by_system().map(|ending| seconds(ending.system_ns)),
            "metrics": metrics.collect::<Vec<_>>(),
            "functions": functions.collect::<Vec<_>>(),
            "calling_contexts": contexts.collect::<Vec<_>>(),
            "lines": lines.collect::<Vec<_>>(),
            "loops": loops,
            "threads": threads.collect::<Vec<_>>(),
            "unwinds": {
                "complete": quality.complete,
                "cut_off": quality.cut_off,
                "failed": quality.failed,
                "without_stack": quality.without_stack,
            },
            "steps": {
                "confirmed": quality.confirmed,
                "probable": quality.probable,
                "wrong": quality.wrong,
            },
            "problems": self.problems,
        })
    }
}
