//! The format of speedscope.
//!
//! Source: <https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources> and
//! `file-format-schema.json`.

use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use unspool_profile_record::Sample;

use crate::named_paths::{NamedPaths, Step};

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// The frames that all threads share.
#[derive(Default)]
struct Frames {
    numbers: FxHashMap<(String, String, u32), usize>,
    all: Vec<Value>,
}

impl Frames {
    fn number(&mut self, step: Step<'_>) -> usize {
        let (file, line) = match step.line {
            Some(line) => (line.file.as_str(), line.line),
            None => (step.image, 0),
        };
        let key = (step.name.to_owned(), file.to_owned(), line);
        let next = self.all.len();
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            let mut frame = json!({ "name": step.name });
            if !file.is_empty() {
                frame["file"] = file.into();
            }
            if line > 0 {
                frame["line"] = line.into();
            }
            self.all.push(frame);
        }
        number
    }

    /// The numbers of a sample's functions, outermost first.
    fn stack(&mut self, paths: &NamedPaths<'_>, sample: &Sample) -> Value {
        let innermost = paths.frames(sample).into_iter();
        let steps = innermost.flat_map(|frame| paths.steps(frame));
        let mut stack: Vec<usize> = steps.map(|step| self.number(step)).collect();
        if stack.is_empty() {
            stack.push(self.number(Step {
                name: "[unknown]",
                image: "",
                line: None,
            }));
        }
        stack.reverse();
        stack.into()
    }
}

/// A profile for each thread: its call paths in the order of time, with the time that each stands
/// for.
#[must_use]
pub fn speedscope(paths: &NamedPaths<'_>) -> Value {
    let mut frames = Frames::default();
    let mut known: FxHashMap<Option<u32>, Value> = FxHashMap::default();
    let unit = match paths.recording.sampled_event {
        None => "nanoseconds",
        Some(_) => "none",
    };
    let mut profiles = Vec::new();
    for (thread, samples) in paths.by_thread() {
        let mut stacks = Vec::new();
        let mut weights = Vec::new();
        let mut total = 0_u64;
        for sample in samples {
            let stack = known.entry(sample.node);
            let stack = stack.or_insert_with(|| frames.stack(paths, sample));
            stacks.push(stack.clone());
            weights.push(sample.weight);
            total = total.saturating_add(sample.weight);
        }
        let (name, process) = (paths.thread_name(thread), paths.process(thread.0));
        profiles.push(json!({
            "type": "sampled",
            "name": format!("{name} ({process}, thread {})", thread.1),
            "unit": unit,
            "startValue": 0,
            "endValue": total,
            "samples": stacks,
            "weights": weights,
        }));
    }
    json!({
        "$schema": SCHEMA,
        "exporter": concat!("unspool ", env!("CARGO_PKG_VERSION")),
        "name": paths.command().join(" "),
        "activeProfileIndex": 0,
        "shared": { "frames": frames.all },
        "profiles": profiles,
    })
}
