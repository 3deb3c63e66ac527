//! The format of speedscope.
//!
//! Source: <https://github.com/jlfwong/speedscope/wiki/Importing-from-custom-sources> and
//! `file-format-schema.json`.

use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use unspool_profile_record::Recording;

use super::named_paths::{NamedPaths, Step, by_thread, thread_name};
use super::title;

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
}

/// A profile for each thread: its call paths in the order of time, with the time that each stands
/// for.
#[must_use]
pub fn speedscope(recording: &Recording) -> Value {
    let paths = NamedPaths::new(recording);
    let mut frames = Frames::default();
    let mut profiles = Vec::new();
    for (thread, samples) in by_thread(recording) {
        let mut stacks = Vec::new();
        let mut weights = Vec::new();
        let mut total = 0_u64;
        for sample in samples {
            let innermost = paths.frames(sample);
            let steps = innermost.into_iter().flat_map(|frame| paths.steps(frame));
            let mut stack: Vec<usize> = steps.map(|step| frames.number(step)).collect();
            if stack.is_empty() {
                stack.push(frames.number(Step {
                    name: "[unknown]",
                    image: "",
                    line: None,
                }));
            }
            stack.reverse();
            stacks.push(stack);
            weights.push(sample.weight_ns);
            total = total.saturating_add(sample.weight_ns);
        }
        let name = thread_name(recording, thread);
        profiles.push(json!({
            "type": "sampled",
            "name": format!("{name} (process {}, thread {})", thread.0, thread.1),
            "unit": "nanoseconds",
            "startValue": 0,
            "endValue": total,
            "samples": stacks,
            "weights": weights,
        }));
    }
    json!({
        "$schema": SCHEMA,
        "exporter": concat!("unspool ", env!("CARGO_PKG_VERSION")),
        "name": title(recording),
        "activeProfileIndex": 0,
        "shared": { "frames": frames.all },
        "profiles": profiles,
    })
}
