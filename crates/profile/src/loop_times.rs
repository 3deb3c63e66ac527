//! The time in loops.

use std::ops::Range;

use rayon::prelude::*;
use rustc_hash::{FxHashMap, FxHashSet};
use unspool_profile_record::Frame;

use crate::named_paths::NamedPaths;
use crate::structure::{FunctionLoops, Loop};

/// A loop and its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopTime {
    /// Where it is.
    pub code: Loop,
    /// The function that has it in its code; where that was inlined, the one that it was inlined into.
    pub function: String,
    /// The file that it is in.
    pub image: String,
    /// The time in it, without loops within and what was called.
    pub self_weight: u64,
    /// The time in it with all that.
    pub total_weight: u64,
}

impl NamedPaths<'_> {
    /// The loops of all functions on paths and their times, outer ones before those within. To find them
    /// in the machine code takes some time.
    #[must_use]
    pub fn loop_times(&self) -> Vec<LoopTime> {
        times_of_loops(self)
    }
}

/// The loops of a recording.
#[derive(Default)]
struct Loops {
    /// Those of the functions on paths, outer ones before those within.
    all: Vec<Loop>,
    /// Where in the list those of a function begin, by its image and address.
    functions: FxHashMap<(u32, u64), (usize, FunctionLoops)>,
    /// The place of the innermost loop that a frame is in.
    of_frames: FxHashMap<u32, usize>,
}

impl Loops {
    fn of(paths: &NamedPaths<'_>) -> Loops {
        // In one order always, so that a recording is told in the same words whenever it is.
        let mut frames: Vec<(u32, &Frame)> = Vec::with_capacity(paths.recording.frames.len());
        frames.extend(
            paths
                .recording
                .frames
                .iter()
                .map(|(number, it)| (*number, it)),
        );
        frames.sort_unstable_by_key(|(number, _)| *number);
        let code_of = |(_, frame): &(u32, &Frame)| {
            let code = paths.names.code_of(frame)?;
            Some((frame.image?, code))
        };
        let codes: Vec<_> = frames.par_iter().map(code_of).collect();
        let mut seen = FxHashSet::default();
        let is_new = |(image, code): &&(u32, Range<u64>)| seen.insert((*image, code.start));
        let functions: Vec<_> = codes.iter().flatten().filter(is_new).collect();
        let loops_of = |&&(image, ref code): &&(u32, Range<u64>)| {
            paths.names.loops_of(image, code).unwrap_or_default()
        };
        let found: Vec<FunctionLoops> = functions.par_iter().map(loops_of).collect();
        let mut loops = Loops::default();
        for ((image, code), found) in functions.into_iter().zip(found) {
            let first = loops.all.len();
            let at_home = found.loops.iter().cloned().map(|one| Loop {
                parent: one.parent.map(|parent| first + parent),
                ..one
            });
            loops.all.extend(at_home);
            loops.functions.insert((*image, code.start), (first, found));
        }
        for ((number, frame), code) in frames.into_iter().zip(codes) {
            let place = code.and_then(|(image, code)| {
                let (first, function) = loops.functions.get(&(image, code.start))?;
                Some(first + function.at(frame.address)?)
            });
            loops.of_frames.extend(place.map(|place| (number, place)));
        }
        loops
    }
}

/// The time in each loop: of a path that leads through it several times, once.
fn times_of_loops(paths: &NamedPaths<'_>) -> Vec<LoopTime> {
    let loops = Loops::of(paths);
    let mut times: Vec<LoopTime> = loops.all.into_iter().map(of_nobody).collect();
    let mut counted_at = vec![usize::MAX; times.len()];
    for (number, sample) in paths.recording.samples.iter().enumerate() {
        for (depth, frame) in paths.frames(sample).into_iter().enumerate() {
            let innermost = loops.of_frames.get(&frame).copied();
            if let (0, Some(place)) = (depth, innermost) {
                let own = &mut times[place].self_weight;
                *own = own.saturating_add(sample.weight);
            }
            let mut around = innermost;
            while let Some(place) = around {
                if times[place].function.is_empty() {
                    let named = paths.frame(frame);
                    let outermost = named.functions.first();
                    times[place].function = outermost.cloned().unwrap_or_default();
                    times[place].image.clone_from(&named.image);
                }
                if std::mem::replace(&mut counted_at[place], number) != number {
                    let all = &mut times[place].total_weight;
                    *all = all.saturating_add(sample.weight);
                }
                around = times[place].code.parent;
            }
        }
    }
    times
}

fn of_nobody(code: Loop) -> LoopTime {
    LoopTime {
        code,
        function: String::new(),
        image: String::new(),
        self_weight: 0,
        total_weight: 0,
    }
}
