//! What each thread spent in each context, and in those below.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::contexts::{Contexts, GLOBAL};

/// Which contexts below one count with it. Numbers are those of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Scope {
    /// None.
    Point = 0,
    /// Those within the same function.
    Function = 1,
    /// All.
    Execution = 2,
}

impl Scope {
    pub(super) const ALL: [Scope; 3] = [Scope::Point, Scope::Function, Scope::Execution];

    /// The number of a metric with this scope.
    pub(super) fn of_metric(self, metric: usize) -> u16 {
        u16::try_from(3 * metric).unwrap_or(u16::MAX - 2) + self as u16
    }
}

/// What was measured, by thread, metric and context.
#[derive(Default)]
pub(super) struct Values(FxHashMap<(u32, usize), BTreeMap<u32, f64>>);

/// A value of a thread in a context.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Value {
    pub(super) thread: u32,
    pub(super) context: u32,
    /// Of a metric with a scope.
    pub(super) metric: u16,
    pub(super) value: f64,
}

impl Values {
    pub(super) fn add(&mut self, thread: u32, metric: usize, context: u32, weight: f64) {
        let contexts = self.0.entry((thread, metric)).or_default();
        *contexts.entry(context).or_default() += weight;
    }

    /// The values with all scopes that are not 0.
    pub(super) fn propagated(self, contexts: &Contexts<'_>, metrics: usize) -> Vec<Value> {
        let mut all = Vec::new();
        let mut measured = self.0;
        let mut keys: Vec<(u32, usize)> = measured.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            let (thread, metric) = key;
            debug_assert!(metric < metrics);
            let points = measured.remove(&key).unwrap_or_default();
            let mut waiting: BTreeMap<u32, [f64; 3]> = points
                .into_iter()
                .map(|(context, value)| (context, [value; 3]))
                .collect();
            // What is below another one has a greater number.
            while let Some((context, [point, function, execution])) = waiting.pop_last() {
                for (scope, value) in Scope::ALL.into_iter().zip([point, function, execution]) {
                    if value != 0.0 {
                        all.push(Value {
                            thread,
                            context,
                            metric: scope.of_metric(metric),
                            value,
                        });
                    }
                }
                if context == GLOBAL {
                    break;
                }
                let own = contexts.context(context);
                let parent = own.map_or(GLOBAL, |own| own.parent);
                let above = waiting.entry(parent).or_default();
                above[Scope::Execution as usize] += execution;
                if own.is_some_and(|own| own.kind.is_within()) {
                    above[Scope::Function as usize] += function;
                }
            }
        }
        all
    }
}
