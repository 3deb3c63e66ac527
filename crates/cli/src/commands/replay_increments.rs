//! `unspool replay-increments`

use unspool_analyses::{IncrementReplay, IncrementReport};

use super::opened;
use super::standard_output::print_result;
use crate::arguments::ReplayIncrementsArguments;
use crate::exit_status;
use crate::failure::{Failure, warn};

/// The version of the JSON form.
const SCHEMA_VERSION: u32 = 1;

/// Recounts what each thread saw of a counter.
pub(crate) fn replay(typed: &ReplayIncrementsArguments) -> Result<u8, Failure> {
    let trace = opened::open(&typed.input)?;
    let mut replay = IncrementReplay::new(typed.address, typed.start);
    let problems = trace.merged().deliver(&mut replay);
    let report = replay.finish();
    let damage = opened::report_problems(trace.problems(), &problems);
    if report.overlapping_accesses > 0 {
        warn(format_args!(
            "{} accesses touch the counter without starting at its address",
            report.overlapping_accesses
        ));
    }
    let text = if typed.json {
        as_json(&report)?
    } else {
        as_text(&report)
    };
    print_result(text.as_bytes())?;
    if report.threads.is_empty() {
        warn(format_args!(
            "no access to {:#x} was recorded",
            typed.address
        ));
        return Ok(exit_status::ANSWER_IS_NO);
    }
    Ok(damage)
}

fn as_json(report: &IncrementReport) -> Result<String, Failure> {
    let mut value = serde_json::to_value(report)?;
    value["schema"] = "unspool-increments".into();
    value["version"] = SCHEMA_VERSION.into();
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

/// One line for each thread, tab-separated, in order of thread.
fn as_text(report: &IncrementReport) -> String {
    let mut text = "thread\tregistered\tincrements\teven\tfailed\treads\n".to_owned();
    for thread in &report.threads {
        let registered = thread
            .registered_number
            .map_or_else(|| "-".to_owned(), |number| number.to_string());
        text += &format!(
            "{}\t{registered}\t{}\t{}\t{}\t{}\n",
            thread.thread, thread.increments, thread.even_values, thread.failed_swaps, thread.reads,
        );
    }
    text += &format!("final value\t{}\n", report.final_value);
    text
}
