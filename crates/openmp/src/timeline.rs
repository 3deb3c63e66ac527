//! The time line, for Perfetto and Chrome: the trace event format's JSON.
//!
//! Each passage of a thread through a construct is a slice, with what it waited before the construct's
//! block as a slice within. Arrows (flow events) lead from who forks a region to the threads that join
//! in, and from who comes last to a barrier to those who waited for it.
//!
//! Source of the format: "Trace Event Format", Google.

mod passages;

use std::cmp::Reverse;
use std::io::{self, Write};

use serde_json::{Value, json};

use crate::characteristics::LossClass;
use crate::recording::{Construct, Process, Recording, Span};
use passages::Arrow;

/// What a time line has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeline {
    /// All single passages of the recording.
    pub passages: usize,
    /// Those that are not in the time line: the shortest.
    pub left_out: usize,
}

/// Writes single passages, the longest if there are more than so many: one track for each thread of
/// each process.
///
/// # Errors
/// If the output cannot be written.
pub fn write_timeline(
    recording: &Recording,
    most_passages: usize,
    output: &mut impl Write,
) -> io::Result<Timeline> {
    let processes = recording.processes.iter();
    let earliest = processes.map(|process| process.start_ns).min().unwrap_or(0);
    let kept = longest(recording, most_passages);
    output.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    let mut track = Track {
        output,
        separator: "",
        flows: 0,
    };
    for (process, kept) in recording.processes.iter().zip(&kept) {
        track.names(process)?;
        let offset_ns = process.start_ns - earliest;
        for (span, _) in process.spans.iter().zip(kept).filter(|(_, kept)| **kept) {
            track.passage(process, span, offset_ns)?;
        }
        for arrow in passages::arrows(process) {
            if kept[arrow.reason] {
                track.arrow(process, &arrow, offset_ns)?;
            }
        }
    }
    let passages = kept.iter().map(Vec::len).sum();
    let left_out = kept.iter().flatten().filter(|kept| !**kept).count();
    let about = json!({"passages": passages, "passages_left_out": left_out});
    write!(output, "\n],\"otherData\":{about}}}\n")?;
    Ok(Timeline { passages, left_out })
}

/// Which passages of each process are among the longest.
fn longest(recording: &Recording, most_passages: usize) -> Vec<Vec<bool>> {
    let processes = &recording.processes;
    let mut kept: Vec<Vec<bool>> = processes
        .iter()
        .map(|it| vec![true; it.spans.len()])
        .collect();
    let mut all: Vec<(u64, usize, usize)> = Vec::new();
    for (number, process) in processes.iter().enumerate() {
        let spans = process.spans.iter().enumerate();
        all.extend(spans.map(|(place, span)| (span.duration_ns(), number, place)));
    }
    if all.len() > most_passages {
        all.select_nth_unstable_by_key(most_passages, |it| Reverse(it.0));
        for (_, number, place) in &all[most_passages..] {
            kept[*number][*place] = false;
        }
    }
    kept
}

/// Writes events.
struct Track<'a, W> {
    output: &'a mut W,
    separator: &'static str,
    /// Arrows until now, which are their numbers.
    flows: u64,
}

impl<W: Write> Track<'_, W> {
    fn write(&mut self, event: &Value) -> io::Result<()> {
        write!(self.output, "{}{event}", self.separator)?;
        self.separator = ",\n";
        Ok(())
    }

    fn names(&mut self, process: &Process) -> io::Result<()> {
        let id = process.process;
        let name = match process.rank {
            Some(rank) => format!("rank {rank}"),
            None => process.arguments.first().cloned().unwrap_or_default(),
        };
        self.write(&json!({"ph": "M", "name": "process_name", "pid": id, "args": {"name": name}}))?;
        for thread in 0..process.threads {
            let name = format!("thread {thread}");
            self.write(
                &json!({"ph": "M", "name": "thread_name", "pid": id, "tid": thread, "args": {"name": name}}),
            )?;
        }
        Ok(())
    }

    fn passage(&mut self, process: &Process, span: &Span, offset_ns: u64) -> io::Result<()> {
        let Some(one) = process.constructs.get(span.construct) else {
            return Ok(());
        };
        let (within, before) = LossClass::of_waits(one);
        let name = format!("{} {}", one.kind.word(), one.location.short());
        let slice = |begin_ns: u64, ns: u64, name: &str, class: Option<LossClass>| {
            json!({
                "ph": "X",
                "pid": process.process,
                "tid": span.thread,
                "ts": microseconds(begin_ns.saturating_add(offset_ns)),
                "dur": microseconds(ns),
                "name": name,
                "cat": class.map_or("work", LossClass::words),
            })
        };
        let mut event = slice(span.begin_ns, span.duration_ns(), &name, within);
        event["args"] = arguments(one, span);
        self.write(&event)?;
        let waited_ns = span.wait_ns.min(span.duration_ns());
        match before {
            Some(class) if waits_before(one) && waited_ns > 0 => {
                let name = format!("waits for {name}");
                self.write(&slice(span.begin_ns, waited_ns, &name, Some(class)))
            }
            _ => Ok(()),
        }
    }

    fn arrow(&mut self, process: &Process, arrow: &Arrow, offset_ns: u64) -> io::Result<()> {
        let id = self.flows;
        self.flows += 1;
        for (phase, (thread, ns)) in [("s", arrow.from), ("f", arrow.to)] {
            let mut event = json!({
                "ph": phase,
                "id": id,
                "pid": process.process,
                "tid": thread,
                "ts": microseconds(ns.saturating_add(offset_ns)),
                "name": arrow.name,
                "cat": "flow",
            });
            if phase == "f" {
                // What it leads to is the slice around its time, and not the next one.
                event["bp"] = json!("e");
            }
            self.write(&event)?;
        }
        Ok(())
    }
}

impl Span {
    fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.begin_ns)
    }
}

/// Whether what was waited lies before the construct's block.
fn waits_before(one: &Construct) -> bool {
    use unspool_openmp_record::ConstructKind::{Atomic, Critical, Lock, Ordered};
    matches!(one.kind, Critical | Atomic | Lock | Ordered)
}

/// What is known of a passage beside its times.
fn arguments(one: &Construct, span: &Span) -> Value {
    let place = &one.location;
    let mut arguments = json!({
        "file": place.file,
        "line": place.line,
        "function": place.function,
        "waited_us": microseconds(span.wait_ns),
    });
    if let Some(name) = &one.name {
        arguments["name"] = json!(name);
    }
    if one.team > 0 {
        arguments["team"] = json!(one.team);
    }
    let calls = one.call_path.iter();
    let calls: Vec<String> = calls.map(|call| call.short()).collect();
    if !calls.is_empty() {
        arguments["called_from"] = json!(calls);
    }
    arguments
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

#[cfg(test)]
mod tests;
