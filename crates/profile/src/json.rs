//! The profile for programs.

use serde_json::{Value, json};
use unspool_profile_record::Source;

use crate::metric_values::Known;
use crate::profile::Profile;

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

    /// The profile as JSON, with times in seconds. `calling_contexts` names functions and callers
    /// by their places in the lists.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let functions = self.functions.iter().map(|function| {
            json!({
                "name": function.name,
                "image": function.image,
                "self": seconds(function.self_weight),
                "total": seconds(function.total_weight),
                "self_of_threads": {
                    "mean": function.spread.mean / 1e9,
                    "min": seconds(function.spread.least),
                    "max": seconds(function.spread.most),
                    "standard_deviation": function.spread.deviation / 1e9,
                },
                "metrics": self.metrics_of(Known::of(function)),
            })
        });
        let contexts = self.tree.nodes().iter().map(|node| {
            json!({
                "function": node.function.0,
                "parent": node.parent,
                "self": seconds(node.self_weight),
                "total": seconds(node.total_weight),
                "metrics": self.metrics_of(Known {
                    self_weight: node.self_weight,
                    total_weight: node.total_weight,
                    spread: None,
                }),
            })
        });
        let lines = self.lines.iter().map(|line| {
            json!({
                "function": line.function.0,
                "line": line.line,
                "self": seconds(line.self_weight),
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
                "self": seconds(one.self_weight),
                "total": seconds(one.total_weight),
                "metrics": self.metrics_of(Known {
                    self_weight: one.self_weight,
                    total_weight: one.total_weight,
                    spread: None,
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
                "self": seconds(thread.self_weight),
            })
        });
        let metrics = self.metrics.iter();
        let metrics = metrics.map(|it| json!({"name": it.name(), "formula": it.formula()}));
        let quality = &self.quality;
        json!({
            "schema": "unspool-profile/1",
            "command": self.command,
            "period": self.settings.map(|settings| seconds(settings.period_ns)),
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
            "longest": seconds(self.heaviest),
            "lost": self.lost,
            "total": seconds(self.total_weight),
            "window": self.window.map(|window| json!({
                "from": seconds(window.from_ns),
                "until": window.until_ns.map(seconds),
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
