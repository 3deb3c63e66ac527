//! What the user is told at the end.

use std::sync::atomic::Ordering;
use std::time::Duration;

use unspool_events::{Summary, WriteError};

use crate::native_run::{Cost, now_ns, processor_time_ns};
use crate::plan::{Run, TraceOutput, TracePlan};
use crate::run_totals::RunTotals;
use crate::selection::{AskedFunctions, unselected};
use crate::tracer::Tracer;
use unspool_engine::client::Ending;
use unspool_engine::process::Process;

/// Puts the last words into the trace, and tells the user on standard error what the run has
/// recorded if this is its end.
pub(crate) fn conclude(tracer: &Tracer, process: &Process, ending: Ending) {
    let recording = &tracer.recording;
    let cost = recording.cost();
    // A native run includes what the program becomes; this trace does not.
    let is_whole_run = matches!(ending, Ending::Death(_)) && !recording.is_child();
    let native = native(&recording.plan).filter(|_| is_whole_run);
    let result = recording.finish(measurements(tracer, process, cost, native));
    conclude_receiver(tracer);
    let is_whole = result
        .as_ref()
        .is_ok_and(|summary| summary.dropped_words == 0);
    if !is_whole || end_reached(tracer).is_some() {
        tracer.is_short.store(true, Ordering::Relaxed);
    }
    let ends_run = recording.is_first_process() && ending != Ending::ObservedProgram;
    let run = ends_run.then(|| Recorded::by_run(tracer, process, result.as_ref().ok(), cost));
    if run.as_ref().is_some_and(Recorded::is_short) {
        tracer.is_short.store(true, Ordering::Relaxed);
    }
    report(tracer, result, run.as_ref());
}

/// Tells the user what came of an analysis in this process, if there was one.
fn conclude_receiver(tracer: &Tracer) {
    let Some(verdict) = tracer.recording.sink().verdict() else {
        return;
    };
    unspool_kernel::diagnostics::say(verdict.text.trim_end());
    let wanted = verdict.status.map_or(0, |status| u32::from(status) + 1);
    tracer.wanted_status.store(wanted, Ordering::Relaxed);
    let yields = verdict.yields_to_failure;
    tracer.status_yields.store(yields, Ordering::Relaxed);
}

/// The status with which the process ends whose program ends with `status`. Only the process that
/// the user has started says that not everything was recorded, for itself and for all others:
/// what another one ends with is what the program that waits for it expects.
pub(crate) fn final_status(tracer: &Tracer, status: i32) -> i32 {
    if !tracer.recording.is_first_process() {
        return status;
    }
    let is_short = tracer.is_short.load(Ordering::Relaxed);
    match tracer.wanted_status.load(Ordering::Relaxed) {
        _ if tracer.recording.plan.strict && is_short => {
            unspool_kernel::diagnostics::ENGINE_FAILURE
        }
        0 => status,
        _ if status != 0 && tracer.status_yields.load(Ordering::Relaxed) => status,
        wanted => wanted.cast_signed() - 1,
    }
}

/// What a native run of the program cost, if one was made.
fn native(plan: &TracePlan) -> Option<Cost> {
    let run = &plan.run;
    (run.native_wall_ns != 0).then(|| Cost {
        processor: Duration::from_nanos(run.native_processor_ns),
        wall: Duration::from_nanos(run.native_wall_ns),
    })
}

/// What the run has cost so far.
fn cost_of_run(run: &Run) -> Cost {
    let since = |now: u64, start: u64| Duration::from_nanos(now.saturating_sub(start));
    Cost {
        processor: since(processor_time_ns(), run.processor_before_ns),
        wall: since(now_ns(), run.started_ns),
    }
}

/// The name and the number of what has brought the recording to its end.
fn end_reached(tracer: &Tracer) -> Option<(&'static str, u64)> {
    let buffer_words = tracer.recording.plan.buffer;
    tracer.end.measurement(&tracer.ceilings, buffer_words)
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
        ("buffer_bytes", tracer.recording.buffers.most()),
        ("processor_ns", nanoseconds(cost.processor)),
        ("wall_ns", nanoseconds(cost.wall)),
    ];
    let times = [
        (
            "path_ids_begun_anew",
            u64::from(tracer.recording.path_ids.generation()),
        ),
        ("epochs_begun_anew", tracer.ownership.epochs_begun_anew()),
    ];
    measurements.extend(times.into_iter().filter(|&(_, times)| times != 0));
    measurements.extend(end_reached(tracer));
    if let Some(native) = native {
        measurements.push(("native_processor_ns", nanoseconds(native.processor)));
        measurements.push(("native_wall_ns", nanoseconds(native.wall)));
    }
    measurements
}

/// Says on standard error what was recorded: where something went wrong, and at the end of the run.
fn report(tracer: &Tracer, result: Result<Summary, WriteError>, run: Option<&Recorded>) {
    tracer.recording.progress_line.clear();
    match &result {
        Err(error) => {
            let mut text = format!("unspool: error: the trace is not complete: {error}");
            let mut source = std::error::Error::source(error);
            while let Some(cause) = source {
                text.push_str(&format!("\nunspool:   caused by: {cause}"));
                source = cause.source();
            }
            unspool_kernel::diagnostics::say(&text);
        }
        // What a child says could end up in a pipe that the program reads.
        Ok(summary) if summary.dropped_words != 0 && run.is_none() => {
            unspool_kernel::diagnostics::say(&format!(
                "unspool: {} words of the trace were dropped",
                summary.dropped_words
            ));
        }
        Ok(_) => {}
    }
    if let Some(run) = run
        && tracer.recording.plan.summary
        && (result.is_ok() || run.totals.traces > 1)
    {
        unspool_kernel::diagnostics::say(&describe(tracer, run));
        let accesses = run.totals.summary.accesses;
        let plan = &tracer.recording.plan;
        // Those that an analysis asks for no program has all of.
        let functions = match plan.output.has_receiver() {
            true => AskedFunctions::default(),
            false => tracer.functions.asked(),
        };
        let remarks = unselected(plan, &tracer.said, functions, run.threads, accesses);
        remarks
            .iter()
            .for_each(|text| unspool_kernel::diagnostics::say(text));
    }
}

/// What a run has recorded.
struct Recorded {
    totals: RunTotals,
    /// Threads of the first process's last program, with those that have recorded nothing.
    threads: u64,
    /// Whether there is more that nobody has counted.
    more: bool,
    cost: Cost,
}

impl Recorded {
    /// By all processes, as far as it is known; `own` is what this one's file holds, and `cost`
    /// what it took.
    fn by_run(tracer: &Tracer, process: &Process, own: Option<&Summary>, cost: Cost) -> Recorded {
        let plan = &tracer.recording.plan;
        let run = &plan.run;
        let threads = process.next_thread.load(Ordering::Relaxed);
        let output = plan.output.file();
        let gathered = output
            .filter(|path| path.is_file())
            .map(|path| RunTotals::gather(path, std::process::id(), run.started_unix_ns));
        let has_others = plan.child || tracer.has_forked();
        let are_followed = !process.plan.leave_children;
        let more = gathered.is_none() && has_others && are_followed;
        let totals = gathered.filter(|totals| totals.traces > 1);
        Recorded {
            more,
            // Programs before this one in the same process cost something too.
            cost: match plan.child {
                true => cost_of_run(run),
                false => cost,
            },
            totals: totals.unwrap_or_else(|| RunTotals {
                traces: 1,
                processes: 1,
                summary: own.copied().unwrap_or_default(),
                ..RunTotals::default()
            }),
            threads,
        }
    }

    /// Whether less was recorded than there was.
    fn is_short(&self) -> bool {
        self.totals.cut_off != 0 || self.totals.summary.dropped_words != 0
    }
}

fn describe(tracer: &Tracer, run: &Recorded) -> String {
    let RunTotals {
        traces,
        processes,
        summary,
        ..
    } = run.totals;
    let mut text = format!("unspool: process {}", std::process::id());
    if processes > 1 {
        text.push_str(&format!(" and {}", counted(processes - 1, "other")));
    }
    if traces > 1 {
        text.push_str(&format!(", {}", counted(traces, "trace")));
    }
    let threads = if traces > 1 {
        summary.threads
    } else {
        run.threads
    };
    let plan = &tracer.recording.plan;
    let order = plan.order.name();
    text.push_str(&format!(": {}, order {order}", counted(threads, "thread")));
    if let TraceOutput::Receiver(_) = plan.output {
        text.push_str(&format!(
            ", {} accesses and {} events analysed while it ran",
            summary.accesses, summary.events
        ));
    } else if plan.output.file().is_some() {
        let per_access = summary.file_bytes as f64 / (summary.accesses.max(1)) as f64;
        text.push_str(&format!(
            ", {} accesses by {} of {} instructions, {} bytes ({per_access:.3} an access)",
            summary.accesses, summary.instructions, summary.executed, summary.file_bytes
        ));
    } else {
        text.push_str(&format!(", {} words of trace discarded", summary.raw_words));
    }
    if run.more {
        text.push_str(" (of this program alone: what other processes and programs of the run recorded is not known)");
    }
    text.push_str(&describe_cost(run.cost, native(plan)));
    text.push_str(&describe_losses(&run.totals));
    text
}

fn counted(number: u64, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ => format!("{number} {noun}s"),
    }
}

fn describe_losses(totals: &RunTotals) -> String {
    let mut text = match totals.summary.dropped_words {
        0 => "; nothing dropped".to_owned(),
        words => format!("; {words} words DROPPED"),
    };
    if totals.cut_off != 0 {
        let cut = counted(totals.cut_off, "trace");
        text.push_str(&format!("; {cut} CUT OFF, by a kill or a full disk"));
    }
    if totals.still_written != 0 {
        let open = counted(totals.still_written, "trace");
        text.push_str(&format!("; {open} still being written, counted so far"));
    }
    text
}

fn describe_cost(cost: Cost, native: Option<Cost>) -> String {
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
        None => format!(
            "{time}processor time {processor:.2} s (slowdown: --measure-slowdown runs it natively first)"
        ),
    }
}
