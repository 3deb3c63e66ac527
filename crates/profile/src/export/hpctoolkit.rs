//! HPCToolkit's database, version 4, for hpcviewer and Hatchet: calling contexts, and sparse values of all
//! threads by thread and by context, which readers find without reading the rest.
//!
//! ```text
//! contexts        from call paths to a tree of functions, lines and instructions
//! values          what each thread spent in each context, and in those below
//! meta            meta.db: metrics, names and the tree
//! blocks          profile.db and cct.db: the values, by thread and by context
//! trace           trace.db: when each thread was where
//! layout          how numbers, texts and sections stand in such files
//! ```
//!
//! Source: `doc/FORMATS.md` and `doc/METRICS.yaml` of HPCToolkit.

mod blocks;
mod contexts;
mod layout;
mod meta;
mod trace;
mod values;

use unspool_profile_record::{Recording, Sample, Source};

use self::contexts::{Contexts, Threads};
use self::values::Values;
use crate::named_paths::NamedPaths;

/// What was sampled, and the samples of it.
struct Measured<'a> {
    metric: Metric,
    samples: &'a [Sample],
}

/// What values are of.
struct Metric {
    /// HPCToolkit's name where it has one.
    name: String,
    description: String,
    /// By what a sample's weight is divided.
    unit: f64,
}

/// A file of the database, by its path in it.
pub type DatabaseFile = (&'static str, Vec<u8>);

/// The files of a database of all that a recording has: time, waits, and events, each a metric.
#[must_use]
pub fn hpctoolkit(paths: &NamedPaths<'_>) -> Vec<DatabaseFile> {
    let recording = paths.recording;
    let waits: Vec<Sample> = recording
        .waits
        .iter()
        .flatten()
        .filter(|wait| !wait.is_preempted)
        .map(|wait| wait.sample)
        .collect();
    let measured = measured(recording, &waits);
    let mut contexts = Contexts::new(paths);
    let threads = Threads::new(paths);
    let mut values = Values::default();
    for (metric, measured) in measured.iter().enumerate() {
        for sample in measured.samples {
            let thread = threads.number((sample.pid, sample.tid));
            let context = contexts.of(sample);
            let weight = sample.weight as f64 / measured.metric.unit;
            values.add(thread, metric, context, weight);
        }
    }
    let values = values.propagated(&contexts, measured.len());
    let metrics: Vec<&Metric> = measured.iter().map(|it| &it.metric).collect();
    let trace = trace::file(recording, &threads, &mut contexts);
    vec![
        ("meta.db", meta::file(paths, &metrics, &contexts)),
        ("profile.db", blocks::by_thread(&values, &threads)),
        ("cct.db", blocks::by_context(&values, contexts.len())),
        ("trace.db", trace),
        ("metrics/default.yaml", metrics_file(&metrics).into_bytes()),
    ]
}

fn measured<'a>(recording: &'a Recording, waits: &'a [Sample]) -> Vec<Measured<'a>> {
    let source = recording.settings.map(|settings| settings.source);
    let time = |name: &str, description: &str, samples| Measured {
        metric: Metric {
            name: name.to_owned(),
            description: description.to_owned(),
            unit: 1e9,
        },
        samples,
    };
    const WAITS: (&str, &str) = (
        "BLOCKTIME (sec)",
        "Time in which threads waited, in seconds.",
    );
    let mut all = Vec::new();
    if recording.sampled_event.is_none() {
        all.push(match source {
            Some(Source::WallTimers) => time(
                "REALTIME (sec)",
                "Time in which threads ran or waited, in seconds.",
                &recording.samples,
            ),
            Some(Source::KernelWaits) => time(WAITS.0, WAITS.1, &recording.samples),
            _ => time(
                "CPUTIME (sec)",
                "CPU time of threads, in seconds.",
                &recording.samples,
            ),
        });
    }
    if recording.waits.is_some() && source != Some(Source::KernelWaits) {
        all.push(time(WAITS.0, WAITS.1, waits));
    }
    all.extend(recording.events.values().map(|recorded| Measured {
        metric: Metric {
            name: recorded.event.name.clone(),
            description: format!("How often {} happened.", recorded.event.name),
            unit: 1.0,
        },
        samples: &recorded.samples,
    }));
    all
}

/// How metrics are presented: sums over threads, with what was called and without.
fn metrics_file(metrics: &[&Metric]) -> String {
    let mut text = String::from("version: 0\ninputs:\n");
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    for (number, metric) in metrics.iter().enumerate() {
        let name = quoted(&metric.name);
        for scope in ["execution", "function"] {
            text.push_str(&format!(
                "  - &metric{number}-{scope}\n    metric: {name}\n    scope: {scope}\n    formula: $$\n    \
                 combine: sum\n"
            ));
        }
    }
    text.push_str("roots:\n");
    for (number, metric) in metrics.iter().enumerate() {
        let (name, description) = (quoted(&metric.name), quoted(&metric.description));
        text.push_str(&format!(
            "  - name: {name}\n    description: {description}\n    variants:\n      Sum:\n        \
             render: [number, percent]\n        formula:\n          inclusive:\n            standard: \
             *metric{number}-execution\n          exclusive:\n            standard: \
             *metric{number}-function\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests;
