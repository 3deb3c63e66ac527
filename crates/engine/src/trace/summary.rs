//! What the user is told at the end.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_events::{Summary, WriteError};

use super::{Tracer, lock};
use crate::process::Process;

/// What the progress line counts.
#[derive(Debug, Default)]
pub(super) struct Progress {
    words: AtomicU64,
    /// Tenths of a second since the start at which the line was last shown.
    shown: AtomicU64,
}

impl Tracer {
    /// Counts words of trace, and now and then shows how many there are.
    pub(super) fn show_progress(&self, words: usize) {
        const EVERY_TENTHS: u64 = 5;
        if !self.plan.progress || self.is_child() {
            return;
        }
        let words = self
            .progress
            .words
            .fetch_add(words as u64, Ordering::Relaxed)
            + words as u64;
        let seconds = lock(&self.started).elapsed().as_secs_f64();
        let tenths = (seconds * 10.0) as u64;
        let shown = self.progress.shown.load(Ordering::Relaxed);
        let due = tenths >= shown + EVERY_TENTHS;
        let relaxed = Ordering::Relaxed;
        if due
            && self
                .progress
                .shown
                .compare_exchange(shown, tenths, relaxed, relaxed)
                .is_ok()
        {
            let millions = words as f64 / 1e6;
            crate::finish::say_in_place(&format!(
                "unspool: {seconds:.1} s, {millions:.1} million words of trace"
            ));
        }
    }
}

/// Says on standard error what was recorded.
pub(super) fn report(tracer: &Tracer, result: Result<Summary, WriteError>) {
    if tracer.progress.shown.load(Ordering::Relaxed) != 0 {
        crate::finish::say_in_place("");
    }
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
    let threads = Process::get().next_thread.load(Ordering::Relaxed);
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
