//! The time line, for Perfetto and Chrome: the trace event format's JSON.

use std::io::{self, Write};

use serde_json::json;

use crate::characteristics::LossClass;
use crate::recording::Recording;

/// Writes all single passages: one track for each thread of each process.
///
/// # Errors
/// If the output cannot be written.
pub fn write_timeline(recording: &Recording, output: &mut impl Write) -> io::Result<()> {
    let earliest = recording
        .processes
        .iter()
        .map(|process| process.start_ns)
        .min()
        .unwrap_or(0);
    output.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    let mut separator = "";
    let mut write = |output: &mut dyn Write, event: serde_json::Value| -> io::Result<()> {
        write!(output, "{separator}{event}")?;
        separator = ",\n";
        Ok(())
    };
    for process in &recording.processes {
        let id = process.process;
        let name = match process.rank {
            Some(rank) => format!("rank {rank}"),
            None => process.arguments.first().cloned().unwrap_or_default(),
        };
        write(
            output,
            json!({"ph": "M", "name": "process_name", "pid": id, "args": {"name": name}}),
        )?;
        for thread in 0..process.threads {
            let name = format!("thread {thread}");
            write(
                output,
                json!({"ph": "M", "name": "thread_name", "pid": id, "tid": thread, "args": {"name": name}}),
            )?;
        }
        let offset = process.start_ns - earliest;
        let microseconds = |ns: u64| (ns + offset) as f64 / 1000.0;
        for span in &process.spans {
            let one = &process.constructs[span.construct];
            let (own_class, wait_class) = LossClass::of_waits(one);
            let lost = own_class.or(wait_class).map_or("work", LossClass::words);
            let mut event = json!({
                "ph": "X",
                "pid": id,
                "tid": span.thread,
                "ts": microseconds(span.begin_ns),
                "dur": span.end_ns.saturating_sub(span.begin_ns) as f64 / 1000.0,
                "name": format!("{} {}", one.kind.word(), one.location.short()),
                "cat": lost,
            });
            if span.wait_ns > 0 {
                event["args"] = json!({"waited_us": span.wait_ns as f64 / 1000.0});
            }
            write(output, event)?;
        }
    }
    output.write_all(b"\n]}\n")
}
