//! What the user is told at the end.

use unspool_events::{Summary, WriteError};

use super::{Tracer, lock};
use crate::process::Process;

/// Says on standard error what was recorded.
pub(super) fn report(tracer: &Tracer, result: Result<Summary, WriteError>) {
    match result {
        Err(error) => {
            let mut text = format!("unspool: error: the trace is not complete: {error}");
            let mut source = std::error::Error::source(&error);
            while let Some(cause) = source {
                text.push_str(&format!("\nunspool:   caused by: {cause}"));
                source = cause.source();
            }
            crate::finish::say(&text);
        }
        // What a child says could end up in a pipe that the program reads.
        Ok(summary) if tracer.plan.summary && !tracer.is_child() => {
            crate::finish::say(&describe(tracer, &summary))
        }
        Ok(summary) if summary.dropped_words != 0 => {
            crate::finish::say(&format!(
                "unspool: {} words of the trace were dropped",
                summary.dropped_words
            ));
        }
        Ok(_) => {}
    }
}

fn describe(tracer: &Tracer, summary: &Summary) -> String {
    let wall = lock(&tracer.started).elapsed().as_secs_f64();
    let processor = processor_seconds();
    let threads = Process::get()
        .next_thread
        .load(std::sync::atomic::Ordering::Relaxed);
    let mut text = format!(
        "unspool: process {}: {threads} thread{}, order {}",
        std::process::id(),
        if threads == 1 { "" } else { "s" },
        tracer.plan.order.name()
    );
    if tracer.plan.output.is_some() {
        let per_access = summary.file_bytes as f64 / (summary.accesses.max(1)) as f64;
        text.push_str(&format!(
            ", {} accesses by {} of {} instructions, {} bytes ({per_access:.3} an access)",
            summary.accesses, summary.instructions, summary.executed, summary.file_bytes
        ));
    } else {
        text.push_str(&format!(", {} words of trace discarded", summary.raw_words));
    }
    text.push_str(&format!("; {wall:.2} s, processor time {processor:.2} s"));
    if summary.dropped_words != 0 {
        text.push_str(&format!("; {} words DROPPED", summary.dropped_words));
    }
    text
}

fn processor_seconds() -> f64 {
    // SAFETY: all fields are integers.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is writable.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
