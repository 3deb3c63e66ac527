//! The readable trace, in the original's layout.

use std::collections::BTreeMap;
use std::fmt::Write;

use unspool_openmp_record::original::{
    ContextString, ContextStrings, Event, Interval, Item, ThreadTrace,
};

use super::protocol::Figure;
use super::selection::{Path, Selection};

/// How long each interval and event took in all threads together.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals(BTreeMap<Path, f64>);

impl Totals {
    /// Those of a run's traces.
    #[must_use]
    pub fn of<'trace>(traces: impl IntoIterator<Item = &'trace ThreadTrace>) -> Totals {
        let mut totals = Totals::default();
        for trace in traces {
            totals.add(&trace.items, &mut Path::new());
        }
        totals
    }

    fn add(&mut self, items: &[Item], path: &mut Path) {
        for item in items {
            let (handle, duration, nested) = match item {
                Item::Interval(one) => (one.handle, one.duration, one.items.as_slice()),
                Item::Event(one) => (one.handle, one.duration.sum, &[][..]),
            };
            path.push(handle);
            *self.0.entry(path.clone()).or_default() += duration;
            self.add(nested, path);
            path.pop();
        }
    }
}

/// A thread's trace as text, with how long everything took in all threads. With `only`, that event
/// alone.
#[must_use]
pub fn readable_trace(
    trace: &ThreadTrace,
    totals: &Totals,
    strings: &ContextStrings,
    selection: &Selection,
    only: Option<usize>,
) -> String {
    let mut writer = Writer {
        text: String::new(),
        totals,
        path: Path::new(),
        strings,
        selection,
        only,
    };
    writer.items(&trace.items, selection.intervals.is_empty());
    writer.text
}

struct Writer<'a> {
    text: String,
    totals: &'a Totals,
    /// The interval or event that is written, and the intervals around it.
    path: Path,
    strings: &'a ContextStrings,
    selection: &'a Selection,
    only: Option<usize>,
}

impl Writer<'_> {
    fn items(&mut self, items: &[Item], taken: bool) {
        for item in items {
            match item {
                Item::Interval(one) if self.selection.no_intervals.contains(&one.number) => {}
                Item::Interval(one) => {
                    self.path.push(one.handle);
                    let taken = taken || self.selection.intervals.contains(&one.number);
                    let shown = taken && self.only.is_none_or(|only| only == one.number);
                    if shown {
                        self.interval(one, "begins");
                    }
                    self.items(&one.items, taken);
                    if shown {
                        self.interval(one, "ends");
                    }
                    self.path.pop();
                }
                Item::Event(one) => {
                    let left_out = self.selection.no_events.contains(&one.number);
                    if taken && !left_out && self.only.is_none_or(|only| only == one.number) {
                        self.path.push(one.handle);
                        self.event(one);
                        self.path.pop();
                    }
                }
            }
        }
    }

    /// How long what is written took in all threads; in this one it took so long.
    fn in_all_threads(&self, own: f64) -> f64 {
        self.totals.0.get(&self.path).copied().unwrap_or(own)
    }

    fn interval(&mut self, one: &Interval, verb: &str) {
        let string = self.strings.of_handle(one.handle);
        let name = string.and_then(|string| string.get("name1")).unwrap_or("");
        let source = source(string);
        // Writing to a string cannot fail.
        let _ = write!(
            self.text,
            "{} user interval {verb} {name} {source}",
            one.number
        );
        let _ = write!(
            self.text,
            " counter={} dtime={}({})",
            one.count,
            Figure(self.in_all_threads(one.duration)),
            Figure(one.duration)
        );
        if one.count > 1 {
            let average = Figure(one.duration / one.count as f64);
            let _ = write!(
                self.text,
                " avgdtime={average} maxdtime={}",
                Figure(one.longest)
            );
        }
        self.text.push('\n');
    }

    fn event(&mut self, one: &Event) {
        let string = self.strings.of_handle(one.handle);
        let kind = kind(string);
        let _ = write!(self.text, "{} {kind}", one.number);
        if let Some(name) = string.and_then(|string| string.get("name1")) {
            let _ = write!(self.text, " {name}");
        }
        let average = |sum: f64| Figure(sum / one.count.max(1) as f64);
        let _ = write!(self.text, " {} counter={}", source(string), one.count);
        for (name, figures) in [
            ("dtime", one.duration),
            ("wtime", one.wait),
            ("stime", one.synchronisation),
        ] {
            let sum = match name {
                "dtime" => {
                    let all = Figure(self.in_all_threads(figures.sum));
                    format!("{all}({})", Figure(figures.sum))
                }
                _ => Figure(figures.sum).to_string(),
            };
            if name == "dtime" || figures.sum > 0.0 {
                let _ = write!(
                    self.text,
                    " {name}={sum} avg{name}={} max{name}={}",
                    average(figures.sum),
                    Figure(figures.longest)
                );
            }
        }
        self.text.push('\n');
    }
}

/// The words for an event's type.
fn kind(string: Option<&ContextString>) -> String {
    let Some(string) = string else {
        return "unknown event".to_owned();
    };
    let words = match string.kind() {
        "omploop" => "omp loop",
        "sect_ev" => "section",
        "seqloop" => "sequential loop",
        "func_call" => "function call",
        "function" => "function body",
        "" => "unknown event",
        other => other,
    };
    words.to_owned()
}

fn source(string: Option<&ContextString>) -> String {
    let (file, first, last) = string.map(ContextString::lines).unwrap_or_default();
    format!("src={file}({first}:{last})")
}
