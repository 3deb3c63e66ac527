//! A comparison for programs.

use serde_json::{Value, json};

use super::{BothTimes, Context, Expectation, RunSize, Scaling};

impl Scaling {
    /// The comparison as JSON, with times in seconds, or numbers of events. Contexts name functions and callers by their
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
            "event": self.unit.event(),
            "scaling": match self.expectation {
                Expectation::Strong => "strong",
                Expectation::Weak => "weak",
            },
            "base": self.size_to_json(&self.base),
            "run": self.size_to_json(&self.run),
            "loss": self.unit.number(self.total_loss()),
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
        let both = |[own, all]: [u64; 2]| json!({"self": self.unit.number(own as f64), "total": self.unit.number(all as f64)});
        json!({
            "base": both(times.base),
            "run": both(times.run),
            "self_loss": self.unit.number(self.loss(times, false)),
            "total_loss": self.unit.number(self.loss(times, true)),
        })
    }

    fn size_to_json(&self, run: &RunSize) -> Value {
        json!({
            "command": run.command,
            "threads": run.threads,
            "ranks": run.ranks,
            "total": self.unit.number(run.total_weight as f64),
        })
    }
}
