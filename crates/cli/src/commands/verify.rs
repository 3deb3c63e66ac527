//! `unspool verify`

use std::path::Path;

use unspool_analyses::ValueCheck;
use unspool_analyses::values::{Mismatch, ValueReport, Verdict};
use unspool_events::{Seen, TraceHeader};
use unspool_report::Both;
use unspool_tracer::Receiver;

use super::live::{self, Answer, FollowedFunctions};
use super::standard_output::print_result;
use super::{followed, opened};
use crate::arguments::VerifyArguments;
use crate::exit_status;
use crate::failure::Failure;
use crate::plan::LivePlan;
use crate::progress::Progress;

/// The version of the JSON form.
const SCHEMA_VERSION: u32 = 2;

/// Checks that the order of a trace, or of a program's run, explains the values in it.
pub(crate) fn verify(typed: &VerifyArguments) -> Result<u8, Failure> {
    let Some(input) = &typed.input else {
        return verify_live(typed);
    };
    let (header, report, damage) = match typed.follow {
        true => follow(input)?,
        false => read(input, typed)?,
    };
    if report.accesses_with_value == 0 && !has_values(&header) {
        let path = input.display();
        return Err(Failure::new(format!(
            "{path} holds no values, so there is nothing to check"
        ))
        .with_help("record them with unspool trace --verify"));
    }
    let Answer { text, status, .. } = answer(&report, &header, typed, damage)?;
    print_result(text.as_bytes())?;
    Ok(status)
}

/// Checks a trace as far as it is there.
fn read(input: &Path, typed: &VerifyArguments) -> Result<(TraceHeader, ValueReport, u8), Failure> {
    let trace = opened::open(input)?;
    let mut check = ValueCheck::new(&trace.threads()).with_order(trace.header().order);
    let mut progress = Progress::of_trace(&trace, typed.progress, false);
    let problems = trace.merged().deliver(&mut Both(&mut check, &mut progress));
    drop(progress);
    let report = check.finish(&problems);
    let damage = opened::report_problems(trace.problems(), &problems);
    if !trace.is_complete() {
        followed::mention_rest(input);
    }
    Ok((trace.header().clone(), report, damage))
}

/// Checks a trace while it is written.
fn follow(input: &Path) -> Result<(TraceHeader, ValueReport, u8), Failure> {
    let reader = followed::open(input)?;
    let header = reader.header().clone();
    let mut check = ValueCheck::new(&[]).with_order(header.order);
    let delivered = reader.deliver(&mut check);
    check.cut_off(&delivered.threads);
    let report = check.finish(&delivered.problems);
    let damage = opened::report_problems(&delivered.problems, &[]);
    Ok((header, report, damage))
}

/// Checks a program while it runs.
fn verify_live(typed: &VerifyArguments) -> Result<u8, Failure> {
    match (LivePlan::new(&typed.live)?, receiver(typed.clone())?) {
        (Some(plan), Some(receiver)) => {
            live::run(&plan, true, FollowedFunctions::default(), receiver)
        }
        _ => Err(Failure::new("there is neither a trace nor a program")),
    }
}

/// What checks the processes of a run, if a program is to be run.
pub(super) fn receiver(typed: VerifyArguments) -> Result<Option<Receiver>, Failure> {
    let Some(plan) = LivePlan::new(&typed.live)? else {
        return Ok(None);
    };
    Ok(Some(live::receiver(plan, typed)))
}

impl live::Question for VerifyArguments {
    type Analysis = ValueCheck;

    fn begin(&self) -> ValueCheck {
        ValueCheck::new(&[]).with_order(self.live.order.into())
    }

    fn answer(
        &self,
        check: ValueCheck,
        seen: &Seen,
        header: &TraceHeader,
    ) -> Result<Answer, Failure> {
        let report = check.finish(&seen.problems);
        answer(&report, header, self, live::damage(seen))
    }

    fn so_far(
        &self,
        check: &ValueCheck,
        seen: &Seen,
        header: &TraceHeader,
    ) -> Result<Answer, Failure> {
        let report = check.so_far(&seen.problems);
        answer(&report, header, self, exit_status::INPUT_DAMAGED)
    }
}

/// What is said, and the exit status; `damage` is that of the records.
fn answer(
    report: &ValueReport,
    header: &TraceHeader,
    typed: &VerifyArguments,
    damage: u8,
) -> Result<Answer, Failure> {
    let is_whole = damage == exit_status::SUCCESS;
    let text = match typed.json {
        true => as_json(report, header.order.name(), typed.show, is_whole)?,
        false => as_text(report, header.order.name(), typed.show, is_whole),
    };
    let is_enough = report.unchecked_share() * 100.0 <= typed.unchecked;
    let status = match report.verdict() {
        Verdict::Failed => exit_status::ANSWER_IS_NO,
        Verdict::PartlyChecked if !is_enough => exit_status::PARTLY_CHECKED,
        Verdict::PartlyChecked | Verdict::Passed => damage,
    };
    Ok(Answer {
        text,
        status,
        yields_to_failure: false,
    })
}

/// Whether values were recorded, though perhaps none has come down to us.
fn has_values(header: &TraceHeader) -> bool {
    let mut options = header.options.iter();
    options.any(|(name, value)| name == "verify" && value == "true")
}

fn as_json(
    report: &ValueReport,
    order: &str,
    show: usize,
    is_whole: bool,
) -> Result<String, Failure> {
    let mut shown = report.clone();
    shown.mismatches.truncate(show);
    let mut value = serde_json::to_value(&shown)?;
    value["schema"] = "unspool-verification".into();
    value["version"] = SCHEMA_VERSION.into();
    value["order"] = order.into();
    value["verdict"] = serde_json::to_value(report.verdict())?;
    value["passed"] = (is_whole && report.verdict() == Verdict::Passed).into();
    value["trace_is_whole"] = is_whole.into();
    value["accesses"] = report.accesses().into();
    value["accesses_unchecked"] = report.unchecked().into();
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn as_text(report: &ValueReport, order: &str, show: usize, is_whole: bool) -> String {
    let mut text = headline(report, is_whole) + "\n";
    for mismatch in report.mismatches.iter().take(show) {
        text += &mismatch_line(mismatch);
    }
    let hidden = report.mismatch_count.saturating_sub(show as u64);
    if hidden > 0 {
        text += &format!("and {hidden} more\n");
    }
    text += &format!(
        "order {order}: {} bytes compared, {} learned, {} written\n",
        report.bytes_compared, report.bytes_learned, report.bytes_written,
    );
    if report.explained_by_system_calls > 0 {
        text += &format!(
            "{} reads found what a system call was writing meanwhile\n",
            report.explained_by_system_calls
        );
    }
    if report.clock_reads > 0 {
        text += &format!(
            "beside them {} reads of the kernel's clock, which no thread writes\n",
            report.clock_reads
        );
    }
    text + &reasons(report)
}

/// What came of it, and how much was looked at.
fn headline(report: &ValueReport, is_whole: bool) -> String {
    let (accesses, unchecked) = (report.accesses(), report.unchecked());
    let (checked, share) = (
        accesses - unchecked,
        percent(accesses - unchecked, accesses),
    );
    match report.verdict() {
        Verdict::Passed if is_whole => {
            format!("passed: the order explains the values of all {accesses} accesses")
        }
        Verdict::Passed => format!(
            "passed as far as the trace goes: the order explains the values of all {accesses} \
             accesses that are left of it"
        ),
        Verdict::PartlyChecked => format!(
            "partly checked: the order explains the values of {checked} of {accesses} accesses \
             ({share}); {unchecked} could not be checked"
        ),
        Verdict::Failed => format!(
            "failed: {} reads found something else than the order explains \
             ({checked} of {accesses} accesses, {share}, could be checked)",
            report.mismatch_count
        ),
    }
}

/// A share, rounded so that only the whole is shown as the whole.
fn percent(part: u64, whole: u64) -> String {
    let hundredths = u128::from(part) * 10_000 / u128::from(whole.max(1));
    format!("{}.{:02} %", hundredths / 100, hundredths % 100)
}

/// Why accesses could not be checked.
fn reasons(report: &ValueReport) -> String {
    let mut text = String::new();
    for (count, reason) in [
        (
            report.accesses_without_value,
            "without a recorded value".to_owned(),
        ),
        (
            report.foreign_accesses,
            "to memory that the kernel or a device writes".to_owned(),
        ),
        (
            report.unexplained_in_open_memory,
            "reads of memory that others may write, which this process's writes do not explain"
                .to_owned(),
        ),
        (
            report.unexplained_after_loss,
            format!(
                "reads after records were lost or a thread was cut off, which the rest does not \
                 explain, among {} accesses there",
                report.accesses_after_loss
            ),
        ),
        (
            report.unexplained_between_stamps,
            "reads beside other threads, of which times do not tell which write came before"
                .to_owned(),
        ),
    ] {
        if count > 0 {
            text += &format!("not checked: {count} {reason}\n");
        }
    }
    text
}

fn mismatch_line(mismatch: &Mismatch) -> String {
    let bytes = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    format!(
        "time {}, thread {}, instruction {:#x}: read {} from {:#x}, expected {}{}\n",
        mismatch.time,
        mismatch.thread,
        mismatch.pc,
        bytes(&mismatch.seen),
        mismatch.address,
        bytes(&mismatch.expected),
        if mismatch.atomic { " (atomic)" } else { "" },
    )
}
