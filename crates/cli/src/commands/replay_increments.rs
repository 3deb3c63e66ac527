//! `unspool replay-increments`

use unspool_analyses::{IncrementReplay, IncrementReport};
use unspool_events::{Seen, TraceHeader};
use unspool_tracer::Receiver;

use super::live::{self, Answer, FollowedFunctions};
use super::standard_output::print_result;
use super::{followed, opened};
use crate::arguments::ReplayIncrementsArguments;
use crate::exit_status;
use crate::failure::{Failure, warn};
use crate::plan::LivePlan;

/// The version of the JSON form.
const SCHEMA_VERSION: u32 = 1;

/// Recounts what each thread saw of a counter.
pub(crate) fn replay(typed: &ReplayIncrementsArguments) -> Result<u8, Failure> {
    let Some(input) = &typed.input else {
        return replay_live(typed);
    };
    let mut replay = IncrementReplay::new(typed.address, typed.start);
    let damage = match typed.follow {
        true => {
            let delivered = followed::open(input)?.deliver(&mut replay);
            opened::report_problems(&delivered.problems, &[])
        }
        false => {
            let trace = opened::open(input)?;
            let problems = trace.merged().deliver(&mut replay);
            if !trace.is_complete() {
                followed::mention_rest(input);
            }
            opened::report_problems(trace.problems(), &problems)
        }
    };
    let report = replay.finish();
    remarks(&report).into_iter().for_each(warn);
    let Answer { text, status, .. } = answer(&report, typed, damage)?;
    print_result(text.as_bytes())?;
    Ok(status)
}

/// Recounts while a program runs.
fn replay_live(typed: &ReplayIncrementsArguments) -> Result<u8, Failure> {
    match (LivePlan::new(&typed.live)?, receiver(typed.clone())?) {
        (Some(plan), Some(receiver)) => {
            live::run(&plan, false, FollowedFunctions::default(), receiver)
        }
        _ => Err(Failure::new("there is neither a trace nor a program")),
    }
}

/// What recounts in the processes of a run, if a program is to be run.
pub(super) fn receiver(typed: ReplayIncrementsArguments) -> Result<Option<Receiver>, Failure> {
    let Some(plan) = LivePlan::new(&typed.live)? else {
        return Ok(None);
    };
    Ok(Some(live::receiver(plan, typed)))
}

impl live::Question for ReplayIncrementsArguments {
    type Analysis = IncrementReplay;

    fn begin(&self) -> IncrementReplay {
        IncrementReplay::new(self.address, self.start)
    }

    fn answer(
        &self,
        replay: IncrementReplay,
        seen: &Seen,
        _: &TraceHeader,
    ) -> Result<Answer, Failure> {
        remarked_answer(&replay.finish(), self, live::damage(seen))
    }

    fn so_far(
        &self,
        replay: &IncrementReplay,
        _: &Seen,
        _: &TraceHeader,
    ) -> Result<Answer, Failure> {
        let report = replay.clone().finish();
        remarked_answer(&report, self, exit_status::INPUT_DAMAGED)
    }
}

/// The answer, with what is odd about it.
fn remarked_answer(
    report: &IncrementReport,
    typed: &ReplayIncrementsArguments,
    damage: u8,
) -> Result<Answer, Failure> {
    let mut answer = answer(report, typed, damage)?;
    if !typed.json {
        for remark in remarks(report) {
            answer.text += &format!("warning: {remark}\n");
        }
    }
    Ok(answer)
}

/// What is said, and the exit status; `damage` is that of the records.
fn answer(
    report: &IncrementReport,
    typed: &ReplayIncrementsArguments,
    damage: u8,
) -> Result<Answer, Failure> {
    let text = match typed.json {
        true => as_json(report)?,
        false => as_text(report),
    };
    let status = match report.threads.is_empty() {
        true => exit_status::ANSWER_IS_NO,
        false => damage,
    };
    Ok(Answer {
        text,
        status,
        yields_to_failure: false,
    })
}

/// What is odd about a report.
fn remarks(report: &IncrementReport) -> Vec<String> {
    let mut remarks = Vec::new();
    if report.overlapping_accesses > 0 {
        remarks.push(format!(
            "{} accesses touch the counter without starting at its address",
            report.overlapping_accesses
        ));
    }
    if report.threads.is_empty() {
        remarks.push(format!("no access to {:#x} was recorded", report.address));
    }
    remarks
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
