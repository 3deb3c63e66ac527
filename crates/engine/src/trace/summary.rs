//! What the user is told at the end.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_events::{Measurement, Summary, WriteError};

use super::Tracer;
use crate::native_run::Cost;
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
        let seconds = self.meter.lock().cost().wall.as_secs_f64();
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

impl Tracer {
    /// A trace buffer has been mapped.
    pub(super) fn buffer_mapped(&self, bytes: u64) {
        let now = self.buffer_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.most_buffer_bytes.fetch_max(now, Ordering::Relaxed);
    }

    /// A trace buffer has been unmapped.
    pub(super) fn buffer_unmapped(&self, bytes: u64) {
        self.buffer_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Puts the last words into the trace, and tells the user on standard error what it holds.
pub(super) fn conclude(tracer: &Tracer, process: &Process, becomes_another_program: bool) {
    let cost = tracer.meter.lock().cost();
    // A native run includes what the program becomes; this trace does not.
    let native = tracer
        .native
        .filter(|_| !becomes_another_program && !tracer.is_child());
    let result = {
        let writer = tracer.writer.lock();
        for (name, value) in measurements(tracer, process, cost, native) {
            writer.add_measurement(&Measurement {
                name: name.to_owned(),
                value,
            });
        }
        writer.finish()
    };
    let is_whole = result
        .as_ref()
        .is_ok_and(|summary| summary.dropped_words == 0);
    if !is_whole || tracer.end_reached().is_some() {
        tracer.is_short.store(true, Ordering::Relaxed);
    }
    report(tracer, result, cost, native);
}

/// The status with which the process ends whose program ends with `status`.
pub(crate) fn final_status(process: &Process, status: i32) -> i32 {
    let is_short = |tracer: &&Tracer| tracer.plan.strict && tracer.is_short.load(Ordering::Relaxed);
    match process.trace.as_ref().filter(is_short) {
        Some(_) => crate::finish::ENGINE_FAILURE,
        None => status,
    }
}

fn measurements(
    tracer: &Tracer,
    process: &Process,
    cost: Cost,
    native: Option<Cost>,
) -> Vec<(&'static str, u64)> {
    let nanoseconds = |time: std::time::Duration| time.as_nanos() as u64;
    let code = process.code();
    let mut measurements = vec![
        ("translated_code_bytes", code.cache.translated_bytes),
        ("code_cache_flushes", code.cache.flushes),
        (
            "buffer_bytes",
            tracer.most_buffer_bytes.load(Ordering::Relaxed),
        ),
        ("processor_ns", nanoseconds(cost.processor)),
        ("wall_ns", nanoseconds(cost.wall)),
    ];
    let times = [
        (
            "path_ids_begun_anew",
            u64::from(tracer.generation.load(Ordering::Relaxed)),
        ),
        ("epochs_begun_anew", tracer.epochs_begun_anew()),
    ];
    measurements.extend(times.into_iter().filter(|&(_, times)| times != 0));
    measurements.extend(tracer.end_reached());
    if let Some(native) = native {
        measurements.push(("native_processor_ns", nanoseconds(native.processor)));
        measurements.push(("native_wall_ns", nanoseconds(native.wall)));
    }
    measurements
}

/// Says on standard error what was recorded.
fn report(tracer: &Tracer, result: Result<Summary, WriteError>, cost: Cost, native: Option<Cost>) {
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
            crate::finish::say(&describe(tracer, &summary, cost, native))
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

fn describe(tracer: &Tracer, summary: &Summary, cost: Cost, native: Option<Cost>) -> String {
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
    text.push_str(&describe_cost(cost, native, tracer.native.is_some()));
    if summary.dropped_words != 0 {
        text.push_str(&format!("; {} words DROPPED", summary.dropped_words));
    } else {
        text.push_str("; nothing dropped");
    }
    text
}

fn describe_cost(cost: Cost, native: Option<Cost>, was_run: bool) -> String {
    let wall = cost.wall.as_secs_f64();
    let processor = cost.processor.as_secs_f64();
    let time = format!("; {wall:.2} s, ");
    match native.map(|native| native.processor.as_secs_f64()) {
        Some(native) if native > 0.0 => format!(
            "{time}slowdown {:.1} ({processor:.2} s of processor time, {native:.2} s natively)",
            processor / native
        ),
        Some(_) => format!(
            "{time}processor time {processor:.2} s (too little natively to tell the slowdown)"
        ),
        None if was_run => format!(
            "{time}processor time {processor:.2} s (slowdown unknown: the program became another one)"
        ),
        None => format!(
            "{time}processor time {processor:.2} s (slowdown: --measure-slowdown runs it natively first)"
        ),
    }
}
