//! A comparison for programs.

use serde_json::{Value, json};

use super::{BothTimes, Context, Expectation, RunSize, Scaling};

impl Scaling {
    /// The comparison as JSON, with times in seconds. Contexts name functions and callers by their
    /// places in the lists.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let functions = self.functions.iter().zip(&self.times);
        let functions = functions.map(|((name, image), times)| {
            let mut function = self.times_to_json(times);
            function["name"] = json!(name);
            function["image"] = json!(image);
            function
        });
        json!({
            "schema": "unspool-profile-scaling/1",
            "scaling": match self.expectation {
                Expectation::Strong => "strong",
                Expectation::Weak => "weak",
            },
            "base": size(&self.base),
            "run": size(&self.run),
            "loss": seconds(self.total_loss()),
            "functions": functions.collect::<Vec<_>>(),
            "calling_contexts": self.contexts_to_json(&self.contexts),
            "callers": self.contexts_to_json(&self.callers),
        })
    }

    fn contexts_to_json(&self, contexts: &[Context]) -> Vec<Value> {
        let contexts = contexts.iter().map(|context| {
            let mut one = self.times_to_json(&context.times);
            one["function"] = json!(context.function.0);
            one["parent"] = json!(context.parent);
            one
        });
        contexts.collect()
    }

    fn times_to_json(&self, times: &BothTimes) -> Value {
        let both = |[own, all]: [u64; 2]| json!({"self": seconds(own as f64), "total": seconds(all as f64)});
        json!({
            "base": both(times.base),
            "run": both(times.run),
            "self_loss": seconds(self.loss(times, false)),
            "total_loss": seconds(self.loss(times, true)),
        })
    }
}

fn size(run: &RunSize) -> Value {
    json!({
        "command": run.command,
        "threads": run.threads,
        "ranks": run.ranks,
        "total": seconds(run.total_weight as f64),
    })
}

fn seconds(ns: f64) -> f64 {
    ns / 1e9
}
