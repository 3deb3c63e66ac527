//! Call paths as the source has them, where the runtime of OpenMP has threads of its own execute parts of it.
//!
//! A thread of the team begins in the runtime, which calls the function that the compiler has made of a region.
//! The thread that has come to the region calls it, too, from where the region stands in the source: that is
//! where the team's work belongs. Of several such places, which call the same function, it is the one where
//! that thread was seen last: it waits for the others at the region's end. Where it begins, the others may be
//! seen first, by a sample or two. Frames of the runtime between functions of the program are left
//! out; those at the end of a path, in which it waits or divides the work, stay.
//!
//! Threads that execute tasks are treated alike: a task's function is called below the place where it is executed
//! by a thread that came there by the source.

use rustc_hash::{FxHashMap, FxHashSet};
use unspool_profile_record::{Node, Recording, Sample, StepCertainty};

use crate::named_paths::NamedPaths;

/// Files of runtimes, as their names begin, and functions where they are linked statically.
const RUNTIMES: [&str; 3] = ["libgomp", "libomp.", "libiomp5"];
const OF_RUNTIMES: [&str; 3] = ["GOMP_", "gomp_", "__kmp"];
/// The same of what threads begin in.
const LIBRARIES: [&str; 3] = ["libc.", "libpthread", "ld-linux"];
const OF_LIBRARIES: [&str; 5] = ["clone", "__clone", "clone3", "__clone3", "start_thread"];

/// Regions within regions that are followed.
const MOST_NESTED: usize = 8;

/// A frame on a path, with the node that it is of.
#[derive(Debug, Clone, Copy)]
struct Step {
    node: u32,
    frame: u32,
    certainty: StepCertainty,
}

/// Where a function is called over the runtime, at times.
#[derive(Debug, Default)]
struct Places {
    /// By the process and the function: when, and the node of the last frame of the program before.
    of_functions: FxHashMap<(u32, u32), Vec<(u64, u32)>>,
    /// How soon behind is just then.
    just_then_ns: u64,
}

struct Frames<'a> {
    recording: &'a Recording,
    of_runtime: FxHashSet<u32>,
    of_libraries: FxHashSet<u32>,
    /// A number for the function of each frame.
    functions: FxHashMap<u32, u32>,
}

impl NamedPaths<'_> {
    /// The recording with paths as the source has them; none where the runtime is on none of them.
    #[must_use]
    pub fn source_paths(&self) -> Option<Recording> {
        let frames = Frames::of(self);
        if frames.of_runtime.is_empty() {
            return None;
        }
        let places = Places::of(&frames);
        let mut nodes = FxHashMap::default();
        let mut changed = self.recording.clone();
        changed.nodes.clear();
        let waits = changed.waits.iter_mut().flatten();
        let events = changed.events.values_mut();
        let others = waits.map(|wait| &mut wait.sample);
        let others = others.chain(events.flat_map(|event| &mut event.samples));
        for sample in changed.samples.iter_mut().chain(others) {
            let Some(node) = sample.node.take() else {
                continue;
            };
            for step in frames.source_path(&places, (node, sample.pid), sample.time_ns, 0) {
                let key = (sample.node, step.frame, step.certainty);
                let next = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
                let number = *nodes.entry(key).or_insert(next);
                changed.nodes.entry(number).or_insert(Node {
                    number,
                    parent: sample.node,
                    frame: step.frame,
                    certainty: step.certainty,
                });
                sample.node = Some(number);
            }
        }
        Some(changed)
    }

    /// Whether a runtime may be on paths: whether its library is there, or all may be one file.
    #[must_use]
    pub fn may_have_regions(recording: &Recording) -> bool {
        let mut files = recording.images.values().map(|image| file_of(&image.path));
        let has = |starts: &[&str]| files.clone().any(|file| begins(file, starts));
        has(&RUNTIMES) || !has(&["ld-linux", "ld-2"]) && files.any(|file| !file.is_empty())
    }
}

fn file_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

fn begins(text: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| text.starts_with(start))
}

impl<'a> Frames<'a> {
    fn of(paths: &NamedPaths<'a>) -> Frames<'a> {
        let recording = paths.recording;
        let mut frames = Frames {
            recording,
            of_runtime: FxHashSet::default(),
            of_libraries: FxHashSet::default(),
            functions: FxHashMap::default(),
        };
        let mut numbers: FxHashMap<(&str, &str), u32> = FxHashMap::default();
        for &number in recording.frames.keys() {
            let named = paths.frame(number);
            let file = file_of(&named.image);
            let function = named.functions.first().map_or("", String::as_str);
            if begins(file, &RUNTIMES) || begins(function, &OF_RUNTIMES) {
                frames.of_runtime.insert(number);
            } else if begins(file, &LIBRARIES) || OF_LIBRARIES.contains(&function) {
                frames.of_libraries.insert(number);
            }
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            let id = *numbers.entry((&named.image, function)).or_insert(next);
            frames.functions.insert(number, id);
        }
        frames
    }

    /// A path, the outermost frame first.
    fn path(&self, node: u32) -> Vec<Step> {
        let mut path = Vec::new();
        let mut next = Some(node);
        while let Some(node) = next.and_then(|number| self.recording.nodes.get(&number)) {
            path.push(Step {
                node: node.number,
                frame: node.frame,
                certainty: node.certainty,
            });
            next = node.parent;
        }
        path.reverse();
        path
    }

    /// The places of the first frames of the program behind frames of the runtime, and of the first of those.
    fn calls(&self, path: &[Step]) -> Vec<(usize, usize)> {
        let is_runtime = |step: &Step| self.of_runtime.contains(&step.frame);
        let mut calls = Vec::new();
        let mut begin = None;
        for (place, step) in path.iter().enumerate() {
            match (is_runtime(step), begin) {
                (true, None) => begin = Some(place),
                (false, Some(first)) => {
                    calls.push((first, place));
                    begin = None;
                }
                _ => {}
            }
        }
        calls
    }

    /// Whether the frames before the runtime are those in which threads begin.
    fn begins_in_runtime(&self, before: &[Step]) -> bool {
        let mut before = before.iter();
        before.all(|step| self.of_libraries.contains(&step.frame))
    }

    fn source_path(
        &self,
        places: &Places,
        (node, pid): (u32, u32),
        time_ns: u64,
        depth: usize,
    ) -> Vec<Step> {
        let path = self.path(node);
        let calls = self.calls(&path);
        let Some(&(first, called)) = calls.first() else {
            return path;
        };
        // What cannot be believed is shown as it was found.
        if path
            .iter()
            .any(|step| step.certainty == StepCertainty::Wrong)
        {
            return path;
        }
        let mut source = Vec::new();
        let mut kept_from = 0;
        if self.begins_in_runtime(&path[..first]) {
            let function = self.functions[&path[called].frame];
            let place = places.of_time((pid, function), time_ns);
            let Some((at_ns, place)) = place.filter(|_| depth < MOST_NESTED) else {
                return path;
            };
            source = self.source_path(places, (place, pid), at_ns, depth + 1);
            kept_from = called;
        }
        let is_left_out = |place: usize| {
            let mut within = calls.iter();
            within.any(|&(first, called)| (first..called).contains(&place))
        };
        let kept = (kept_from..path.len()).filter(|&place| !is_left_out(place));
        source.extend(kept.map(|place| path[place]));
        source
    }
}

impl Places {
    fn of(frames: &Frames<'_>) -> Places {
        let settings = frames.recording.settings;
        let period_ns = settings.map_or(1_000_000, |it| it.period_ns);
        let mut places = Places {
            just_then_ns: period_ns.saturating_mul(2),
            ..Places::default()
        };
        let mut known: FxHashMap<u32, Vec<(u32, u32)>> = FxHashMap::default();
        let recording = frames.recording;
        let waits = recording.waits.iter().flatten().map(|wait| &wait.sample);
        let events = recording.events.values().flat_map(|event| &event.samples);
        for sample in recording.samples.iter().chain(waits).chain(events) {
            let Sample { pid, time_ns, .. } = *sample;
            let Some(node) = sample.node else { continue };
            let calls = known.entry(node).or_insert_with(|| {
                let path = frames.path(node);
                let calls = frames.calls(&path).into_iter();
                let by_source =
                    calls.filter(|&(first, _)| !frames.begins_in_runtime(&path[..first]));
                by_source
                    .map(|(first, called)| {
                        let function = frames.functions[&path[called].frame];
                        (function, path[first - 1].node)
                    })
                    .collect()
            });
            for &(function, place) in calls.iter() {
                let of_function = places.of_functions.entry((pid, function)).or_default();
                of_function.push((time_ns, place));
            }
        }
        for of_function in places.of_functions.values_mut() {
            of_function.sort_unstable();
        }
        places
    }

    /// Where the function was called when this thread executed it: where it was seen last, unless it is seen
    /// just then, and sooner, behind.
    fn of_time(&self, key: (u32, u32), time_ns: u64) -> Option<(u64, u32)> {
        let all = self.of_functions.get(&key)?;
        let behind = all.partition_point(|(time, _)| *time < time_ns);
        let next = all.get(behind).copied();
        let Some(last) = behind.checked_sub(1).map(|place| all[place]) else {
            return next;
        };
        let since = time_ns - last.0;
        let is_next = |(time, _): &(u64, u32)| time - time_ns < since.min(self.just_then_ns);
        Some(next.filter(is_next).unwrap_or(last))
    }
}

#[cfg(test)]
mod tests {
    use crate::named_paths::NamedPaths;
    use crate::profile::Profile;
    use crate::recordings::of_threads;

    const RUNTIME: &str = "libgomp.so.1";
    const START: &str = "libc.so.6";

    /// Each path with its weight, as collapsed stacks.
    fn paths(threads: &[&[(&[&str], u64)]], times: &[u64]) -> Vec<String> {
        let mut recording = of_threads(threads);
        assert_eq!(recording.samples.len(), times.len());
        for (sample, time) in recording.samples.iter_mut().zip(times) {
            // All are threads of one process.
            sample.time_ns = *time * 1_000_000;
        }
        let changed = NamedPaths::new(&recording).source_paths();
        let recording = changed.unwrap_or(recording);
        let folded = Profile::new(&NamedPaths::new(&recording)).to_folded();
        let mut lines: Vec<String> = folded.lines().map(|it| it.replace("+0x10", "")).collect();
        lines.sort();
        lines
    }

    #[test]
    fn a_teams_work_is_where_the_region_stands() {
        let threads: [&[(&[&str], u64)]; 2] = [
            &[
                (&["main", "first", RUNTIME, "region", "work"], 1),
                (&["main", "second", RUNTIME, "region"], 2),
                (&["main", "second", RUNTIME], 4),
            ],
            &[
                (&[START, RUNTIME, "region", "work"], 10),
                (&[START, RUNTIME, "region"], 20),
                (&[START, RUNTIME], 40),
            ],
        ];
        // The thread that came has seen its end of the first region long before the other one.
        let told = paths(&threads, &[100, 200, 300, 190, 201, 300]);
        let expected = [
            "libc.so.6;libgomp.so.1 40",
            "main;first;region;work 11",
            "main;second;libgomp.so.1 4",
            "main;second;region 22",
        ];
        assert_eq!(told, expected);
        // The time decides: the control.
        let told = paths(&threads, &[100, 200, 300, 250, 190, 300]);
        assert!(
            told.contains(&"main;second;region;work 10".to_owned()),
            "{told:?}"
        );
        assert!(
            told.contains(&"main;first;region 20".to_owned()),
            "{told:?}"
        );
    }

    #[test]
    fn regions_within_regions_and_what_nobody_came_to_by_the_source() {
        let threads: [&[(&[&str], u64)]; 3] = [
            &[(&["main", RUNTIME, "outer"], 1)],
            &[
                (&[START, RUNTIME, "outer", RUNTIME, "inner"], 2),
                (&[START, RUNTIME, "unknown"], 8),
            ],
            &[(&[START, RUNTIME, "inner"], 4)],
        ];
        let expected = [
            "libc.so.6;libgomp.so.1;unknown 8",
            "main;outer 1",
            "main;outer;inner 6",
        ];
        assert_eq!(paths(&threads, &[100, 110, 120, 115]), expected);
        // Just before the first sample of who came, and before there is any.
        let first: [&[(&[&str], u64)]; 2] = [
            &[
                (&["main", "one", RUNTIME, "f"], 1),
                (&["main", "two", RUNTIME, "f"], 2),
            ],
            &[(&[START, RUNTIME, "f"], 4), (&[START, RUNTIME, "f"], 8)],
        ];
        let expected = ["main;one;f 5", "main;two;f 10"];
        assert_eq!(paths(&first, &[100, 200, 99, 199]), expected);
        assert_eq!(paths(&first, &[100, 200, 90, 199]), expected);
        let expected = ["main;one;f 13", "main;two;f 2"];
        assert_eq!(paths(&first, &[100, 200, 99, 198]), expected);
        let without: [&[(&[&str], u64)]; 1] = [&[(&["main", "libother.so", "work"], 1)]];
        assert_eq!(paths(&without, &[1]), ["main;libother.so;work 1"]);
    }
}
