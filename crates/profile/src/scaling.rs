//! What is lost when a program runs on more threads? Two runs of it, compared by calling context.
//!
//! Strong scaling: the runs do the same work, so all threads together should take the same time.
//! Weak scaling: each thread does the same work, so the time should grow as the number of threads. What the
//! larger run takes beyond that is the loss of a context, with what was called there.
//!
//! Source: C. Coarfa, J. Mellor-Crummey, N. Froyd, Y. Dotsenko, "Scalability Analysis of SPMD Codes Using
//! Expectations", ICS 2007.

mod json;
mod text;

use rustc_hash::FxHashMap;

use crate::call_tree::{CallTree, FunctionId};
use crate::profile::{Function, Profile};
use crate::unit::Unit;

/// What is expected of the larger run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expectation {
    /// It does the same work.
    Strong,
    /// Each of its threads does the same work.
    Weak,
}

/// How large a run was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSize {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The threads that were sampled.
    pub threads: usize,
    /// The ranks of an MPI job among their processes.
    pub ranks: usize,
    /// The time of all threads.
    pub total_weight: u64,
}

/// The times of one function or context in both runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BothTimes {
    /// In the smaller run: in it alone, and with what was called.
    pub base: [u64; 2],
    /// In the larger one.
    pub run: [u64; 2],
}

/// A function called along one path, in either run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The function.
    pub function: FunctionId,
    /// The place of its caller in the list, which is before its own.
    pub parent: Option<usize>,
    /// Its times.
    pub times: BothTimes,
}

/// Two runs, compared.
#[derive(Debug, Clone)]
pub struct Scaling {
    /// What is expected.
    pub expectation: Expectation,
    /// What weights are counted in.
    pub unit: Unit,
    /// The smaller run.
    pub base: RunSize,
    /// The larger one.
    pub run: RunSize,
    /// The name of each function, and its file.
    pub functions: Vec<(String, String)>,
    /// The times of each function.
    pub times: Vec<BothTimes>,
    /// All contexts, from above.
    pub contexts: Vec<Context>,
    /// The same from below: functions, and who called them.
    pub callers: Vec<Context>,
}

/// Self time is the first of two.
const OWN: usize = 0;
/// Time with what was called, the second.
const ALL: usize = 1;

impl Scaling {
    /// Compares a run with a smaller one.
    #[must_use]
    pub fn new(expectation: Expectation, base: &Profile, run: &Profile) -> Scaling {
        let mut merging = Merging::default();
        let numbers = [base, run].map(|profile| merging.functions(profile));
        let mut times = vec![BothTimes::default(); merging.functions.len()];
        for (is_run, (profile, numbers)) in [base, run].into_iter().zip(&numbers).enumerate() {
            for (function, number) in profile.functions.iter().zip(numbers) {
                let sums = times[number.0].of(is_run == 1);
                sums[OWN] = sums[OWN].saturating_add(function.self_weight);
                sums[ALL] = sums[ALL].saturating_add(function.total_weight);
            }
        }
        let contexts = merged([&base.tree, &run.tree], &numbers);
        let callers = merged([&base.tree.callers(), &run.tree.callers()], &numbers);
        Scaling {
            expectation,
            unit: run.unit.clone(),
            base: RunSize::of(base),
            run: RunSize::of(run),
            functions: merging.functions,
            times,
            contexts,
            callers,
        }
    }

    /// What is lost of those weights; less than nothing where the larger run took less
    /// than expected. `with_callees`: also in what was called.
    #[must_use]
    pub fn loss(&self, times: &BothTimes, with_callees: bool) -> f64 {
        let which = if with_callees { ALL } else { OWN };
        times.run[which] as f64 - times.base[which] as f64 * self.growth()
    }

    /// What is lost in all.
    #[must_use]
    pub fn total_loss(&self) -> f64 {
        self.run.total_weight as f64 - self.base.total_weight as f64 * self.growth()
    }

    /// By how much the time of all threads is expected to grow.
    fn growth(&self) -> f64 {
        match self.expectation {
            Expectation::Strong => 1.0,
            Expectation::Weak => self.run.units() / self.base.units(),
        }
    }

    /// A part of the larger run's time.
    #[must_use]
    pub fn share(&self, ns: f64) -> f64 {
        ns / self.run.total_weight.max(1) as f64
    }
}

impl BothTimes {
    fn of(&mut self, is_run: bool) -> &mut [u64; 2] {
        match is_run {
            true => &mut self.run,
            false => &mut self.base,
        }
    }
}

impl RunSize {
    fn of(profile: &Profile) -> RunSize {
        let ranks = profile.threads.iter().filter_map(|thread| thread.rank);
        let ranks: std::collections::BTreeSet<u32> = ranks.collect();
        RunSize {
            command: profile.command.clone(),
            threads: profile.threads.len(),
            ranks: ranks.len(),
            total_weight: profile.total_weight,
        }
    }

    /// What the work grows with: ranks of an MPI job, which may have threads that only help, or threads.
    fn units(&self) -> f64 {
        let units = if self.ranks > 0 {
            self.ranks
        } else {
            self.threads
        };
        units.max(1) as f64
    }
}

/// The functions of both runs: the same if name and file are, wherever the file lies.
#[derive(Default)]
struct Merging {
    functions: Vec<(String, String)>,
    numbers: FxHashMap<(String, String), FunctionId>,
}

impl Merging {
    fn functions(&mut self, profile: &Profile) -> Vec<FunctionId> {
        let functions = profile.functions.iter();
        functions.map(|function| self.function(function)).collect()
    }

    fn function(&mut self, function: &Function) -> FunctionId {
        let file = function.image.rsplit('/').next().unwrap_or_default();
        let key = (function.name.clone(), file.to_owned());
        let next = FunctionId(self.functions.len());
        let number = *self.numbers.entry(key.clone()).or_insert(next);
        if number == next {
            self.functions.push(key);
        }
        number
    }
}

/// Both trees in one.
fn merged(trees: [&CallTree; 2], numbers: &[Vec<FunctionId>; 2]) -> Vec<Context> {
    let mut tree = CallTree::default();
    let mut times: Vec<BothTimes> = Vec::new();
    for (is_run, (one, numbers)) in trees.into_iter().zip(numbers).enumerate() {
        let mut places: Vec<usize> = Vec::with_capacity(one.nodes().len());
        for node in one.nodes() {
            let parent = node.parent.map(|parent| places[parent]);
            let place = tree.place(parent, numbers[node.function.0]);
            places.push(place);
            times.resize(tree.nodes().len(), BothTimes::default());
            let sums = times[place].of(is_run == 1);
            sums[OWN] = sums[OWN].saturating_add(node.self_weight);
            // A function that two names of one run stand for may be its own caller now.
            if parent != Some(place) {
                sums[ALL] = sums[ALL].saturating_add(node.total_weight);
            }
        }
    }
    let nodes = tree.nodes().iter().zip(times);
    nodes
        .map(|(node, times)| Context {
            function: node.function,
            parent: node.parent,
            times,
        })
        .collect()
}

#[cfg(test)]
mod tests;
