//! The readable trace, in the original's layout.

use std::fmt::Write;

use unspool_openmp_record::original::{
    ContextString, ContextStrings, Event, Interval, Item, ThreadTrace,
};

use super::protocol::Figure;
use super::selection::Selection;

/// A thread's trace as text. With `only`, that event alone.
#[must_use]
pub fn readable_trace(
    trace: &ThreadTrace,
    strings: &ContextStrings,
    selection: &Selection,
    only: Option<usize>,
) -> String {
    let mut writer = Writer {
        text: String::new(),
        strings,
        selection,
        only,
    };
    writer.items(&trace.items, selection.intervals.is_empty());
    writer.text
}

struct Writer<'a> {
    text: String,
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
                    let taken = taken || self.selection.intervals.contains(&one.number);
                    let shown = taken && self.only.is_none_or(|only| only == one.number);
                    if shown {
                        self.interval(one, "begins");
                    }
                    self.items(&one.items, taken);
                    if shown {
                        self.interval(one, "ends");
                    }
                }
                Item::Event(one) => {
                    let left_out = self.selection.no_events.contains(&one.number);
                    if taken && !left_out && self.only.is_none_or(|only| only == one.number) {
                        self.event(one);
                    }
                }
            }
        }
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
            " counter={} dtime={}",
            one.count,
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
            if name == "dtime" || figures.sum > 0.0 {
                let _ = write!(
                    self.text,
                    " {name}={} avg{name}={} max{name}={}",
                    Figure(figures.sum),
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
