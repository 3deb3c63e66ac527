//! The times of functions, call paths, lines and threads.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use unspool_profile_record::{Counted, Ending, Recording, Regions, Settings, Source, Wait, Window};

use crate::call_tree::{CallTree, FunctionId};
use crate::event_values::EventValues;
use crate::loop_times::LoopTime;
use crate::metric::Metric;
use crate::named_paths::NamedPaths;
use crate::quality::Quality;
use crate::unit::Unit;

/// When threads could have gone on and had no processor.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Preempted {
    /// How often.
    pub times: u64,
    /// For how long, all together.
    pub ns: u64,
}

impl Preempted {
    fn of(waits: &[Wait]) -> Preempted {
        let preempted = waits.iter().filter(|wait| wait.is_preempted);
        preempted.fold(Preempted::default(), |sum, wait| Preempted {
            times: sum.times + 1,
            ns: sum.ns.saturating_add(wait.sample.weight),
        })
    }
}

/// A function and its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Function {
    /// Its name, or where it is.
    pub name: String,
    /// The file that it is in; empty where none is known.
    pub image: String,
    /// The time in it.
    pub self_weight: u64,
    /// The time in it and in what it called.
    pub total_weight: u64,
    /// How the time in it is spread over all threads that were sampled.
    pub spread: Spread,
}

/// How time is spread over threads, of which some may have none.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spread {
    /// The time of the average thread.
    pub mean: f64,
    /// Of the one with the least.
    pub least: u64,
    /// Of the one with the most.
    pub most: u64,
    /// The standard deviation, of the threads as all that there are.
    pub deviation: f64,
}

impl Spread {
    /// That of the times of those threads that have any, of so many threads.
    fn of(times: &[u64], threads: usize) -> Spread {
        let count = threads.max(times.len()).max(1);
        let idle = count - times.len();
        let mean = times.iter().map(|&ns| ns as f64).sum::<f64>() / count as f64;
        let square = |ns: f64| (ns - mean) * (ns - mean);
        let squares: f64 = times.iter().map(|&ns| square(ns as f64)).sum();
        let least = times.iter().copied().min().unwrap_or(0);
        Spread {
            mean,
            least: if idle == 0 { least } else { 0 },
            most: times.iter().copied().max().unwrap_or(0),
            deviation: ((squares + idle as f64 * square(0.0)) / count as f64).sqrt(),
        }
    }
}

/// A line of the source and the time that was spent there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineTime {
    /// Its function.
    pub function: FunctionId,
    /// File and line.
    pub line: String,
    /// The time.
    pub self_weight: u64,
}

/// A thread and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadTime {
    /// Its process.
    pub pid: u32,
    /// The rank of its process, if that is one of an MPI job.
    pub rank: Option<u32>,
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// How often it was found running.
    pub samples: u64,
    /// What this stands for.
    pub self_weight: u64,
}

/// Where the time of a run went.
#[derive(Debug, Clone)]
pub struct Profile {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What weights are counted in.
    pub unit: Unit,
    /// How samples were taken, if the recording says so.
    pub settings: Option<Settings>,
    /// How the run ended, if the recording goes so far.
    pub ending: Option<Ending>,
    /// What timers inside the program have counted, if they took the samples.
    pub counted: Option<Counted>,
    /// The part of the run that samples are of; none where that is all of it.
    pub window: Option<Window>,
    /// What of the run was in regions of interest, if samples are of these only.
    pub regions: Option<Regions>,
    /// Samples, and how many more were lost.
    pub samples: u64,
    /// How often threads had to leave their processors to others though they could have gone on, and for how
    /// long; none where that was not recorded.
    pub preempted: Option<Preempted>,
    /// The longest time that one sample stands for.
    pub heaviest: u64,
    /// Samples that could not be taken in.
    pub lost: u64,
    /// What the samples stand for: time, or events.
    pub total_weight: u64,
    /// All functions, in no order that means anything.
    pub functions: Vec<Function>,
    /// Who called whom, from above.
    pub tree: CallTree,
    /// Lines, those with the most time first.
    pub lines: Vec<LineTime>,
    /// [The loops](NamedPaths::loop_times) of the functions on paths, for who shows them; none at first.
    pub loops: Vec<LoopTime>,
    /// What is computed of functions, call paths and loops, for who shows them; none at first.
    pub metrics: Vec<Metric>,
    /// What metrics know of what else was sampled.
    pub(crate) event_values: Vec<EventValues>,
    /// Threads, by process and number.
    pub threads: Vec<ThreadTime>,
    /// How well call paths are known.
    pub quality: Quality,
    /// What could not be read.
    pub problems: Vec<String>,
}

impl Profile {
    /// Adds a recording up.
    #[must_use]
    pub fn new(paths: &NamedPaths<'_>) -> Profile {
        let recording = paths.recording;
        let mut building = Building {
            recording,
            paths,
            functions: Vec::new(),
            ids: FxHashMap::default(),
            named: FxHashMap::default(),
            places: FxHashMap::default(),
            tree: CallTree::default(),
        };
        let mut lines: FxHashMap<(FunctionId, String), u64> = FxHashMap::default();
        let mut threads: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
        let mut by_thread: BTreeMap<(FunctionId, u32, u32), u64> = BTreeMap::new();
        let (mut total_weight, mut heaviest) = (0_u64, 0);
        for sample in &recording.samples {
            let weight = sample.weight;
            total_weight = total_weight.saturating_add(weight);
            heaviest = weight.max(heaviest);
            let (samples, ns) = threads.entry((sample.pid, sample.tid)).or_default();
            (*samples, *ns) = (*samples + 1, ns.saturating_add(weight));
            let place = match sample.node {
                Some(node) => building.place(node),
                None => building.unknown(),
            };
            building.tree.spend(place, weight);
            let function = building.tree.nodes()[place].function;
            let key = (function, sample.pid, sample.tid);
            let spent = by_thread.entry(key).or_default();
            *spent = spent.saturating_add(weight);
            if let Some(line) = sample.node.and_then(|node| building.line(node)) {
                let spent = lines.entry((function, line)).or_default();
                *spent = spent.saturating_add(weight);
            }
        }
        let Building {
            mut functions,
            mut tree,
            ..
        } = building;
        tree.sum_up();
        let totals = tree.totals(functions.len());
        for (function, total_weight) in functions.iter_mut().zip(totals) {
            function.total_weight = total_weight;
        }
        for node in tree.nodes() {
            let self_weight = &mut functions[node.function.0].self_weight;
            *self_weight = self_weight.saturating_add(node.self_weight);
        }
        let mut times = vec![Vec::new(); functions.len()];
        for ((function, ..), ns) in by_thread {
            times[function.0].push(ns);
        }
        for (function, times) in functions.iter_mut().zip(times) {
            function.spread = Spread::of(&times, threads.len());
        }
        Profile {
            command: paths.command(),
            unit: Unit::of(recording),
            settings: recording.settings,
            ending: recording.ending,
            counted: recording.counted,
            window: recording.window,
            regions: recording.regions,
            samples: recording.samples.len() as u64,
            preempted: recording.waits.as_deref().map(Preempted::of),
            heaviest,
            lost: recording.lost,
            total_weight,
            functions,
            tree,
            lines: sorted(lines),
            loops: Vec::new(),
            metrics: Vec::new(),
            event_values: Vec::new(),
            threads: named_threads(paths, threads),
            quality: Quality::of(recording),
            problems: [&recording.problems[..], &paths.names.problems()].concat(),
        }
    }

    /// The ending, where the system has counted CPU time: whoever reads what others have recorded is not
    /// told that.
    #[must_use]
    pub fn counted_by_system(&self) -> Option<Ending> {
        let source = self.settings.map(|settings| settings.source);
        self.ending.filter(|_| source != Some(Source::PerfRecord))
    }

    /// Functions, those with the most time in themselves first.
    #[must_use]
    pub fn by_self(&self) -> Vec<&Function> {
        let mut functions: Vec<&Function> = self.functions.iter().collect();
        functions.sort_by(|one, other| {
            let key = |function: &Function| (function.self_weight, function.total_weight);
            key(other)
                .cmp(&key(one))
                .then_with(|| one.name.cmp(&other.name))
        });
        functions
    }
}

fn sorted(lines: FxHashMap<(FunctionId, String), u64>) -> Vec<LineTime> {
    let mut lines: Vec<LineTime> = lines
        .into_iter()
        .map(|((function, line), self_weight)| LineTime {
            function,
            line,
            self_weight,
        })
        .collect();
    lines.sort_by(|one, other| {
        let by_time = other.self_weight.cmp(&one.self_weight);
        by_time.then_with(|| one.line.cmp(&other.line))
    });
    lines
}

fn named_threads(
    paths: &NamedPaths<'_>,
    threads: BTreeMap<(u32, u32), (u64, u64)>,
) -> Vec<ThreadTime> {
    threads
        .into_iter()
        .map(|((pid, tid), (samples, self_weight))| ThreadTime {
            pid,
            rank: paths.rank(pid),
            tid,
            name: paths.thread_name((pid, tid)).to_owned(),
            samples,
            self_weight,
        })
        .collect()
}

/// A profile that is being added up.
struct Building<'a> {
    recording: &'a Recording,
    paths: &'a NamedPaths<'a>,
    functions: Vec<Function>,
    ids: FxHashMap<(String, String), FunctionId>,
    /// What each frame is called.
    named: FxHashMap<u32, (Vec<FunctionId>, Option<String>)>,
    /// Where in the tree each path of the recording is.
    places: FxHashMap<u32, usize>,
    tree: CallTree,
}

impl Building<'_> {
    fn id(&mut self, name: String, image: &str) -> FunctionId {
        let next = FunctionId(self.functions.len());
        let key = (name, image.to_owned());
        if let Some(&known) = self.ids.get(&key) {
            return known;
        }
        self.functions.push(Function {
            name: key.0.clone(),
            image: key.1.clone(),
            self_weight: 0,
            total_weight: 0,
            spread: Spread::default(),
        });
        self.ids.insert(key, next);
        next
    }

    fn unknown(&mut self) -> usize {
        let function = self.id("[unknown]".to_owned(), "");
        self.tree.place(None, function)
    }

    /// Has the names of a frame at hand.
    fn name(&mut self, frame: u32) -> &(Vec<FunctionId>, Option<String>) {
        if !self.named.contains_key(&frame) {
            let named = self.paths.frame(frame);
            let line = named.line().map(ToString::to_string);
            let functions = named.functions.iter().cloned();
            let ids = functions.map(|name| self.id(name, &named.image)).collect();
            self.named.insert(frame, (ids, line));
        }
        &self.named[&frame]
    }

    /// Where in the tree a path of the recording is.
    fn place(&mut self, node: u32) -> usize {
        // From the innermost frame out to one that is placed already, and back.
        let mut missing = Vec::new();
        let mut next = Some(node);
        let mut place = None;
        while let Some(number) = next {
            if let Some(&known) = self.places.get(&number) {
                place = Some(known);
                break;
            }
            missing.push(number);
            next = self.recording.nodes[&number].parent;
        }
        for number in missing.into_iter().rev() {
            let frame = self.recording.nodes[&number].frame;
            for function in self.name(frame).0.clone() {
                place = Some(self.tree.place(place, function));
            }
            // Every frame has a name.
            let found = place.expect("a path has frames");
            self.places.insert(number, found);
        }
        place.expect("a path has frames")
    }

    /// The line at which a path ends.
    fn line(&mut self, node: u32) -> Option<String> {
        let frame = self.recording.nodes[&node].frame;
        self.name(frame).1.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recordings::of_threads;

    /// A thread that never came to a function counts as one without any time.
    #[test]
    fn times_are_spread_over_all_threads() {
        let recording = of_threads(&[&[(&["f"], 100)], &[(&["f"], 300)], &[(&["g"], 200)]]);
        let profile = Profile::new(&NamedPaths::new(&recording));
        let of = |name: &str| {
            let function = profile.functions.iter().find(|it| it.name == name);
            let spread = function.expect("a function").spread;
            (
                spread.mean,
                spread.least,
                spread.most,
                spread.deviation.round(),
            )
        };
        assert_eq!(of("f+0x10"), (400.0 / 3.0, 0, 300, 125.0));
        assert_eq!(of("g+0x10"), (200.0 / 3.0, 0, 200, 94.0));
        assert_eq!(
            Spread::of(&[5, 5], 2),
            Spread {
                mean: 5.0,
                least: 5,
                most: 5,
                deviation: 0.0
            }
        );
        assert_eq!(Spread::of(&[], 0), Spread::default());
    }
}
