//! `unspool verify`

use unspool_analyses::ValueCheck;
use unspool_analyses::values::{Mismatch, ValueReport};

use super::opened;
use super::standard_output::print_result;
use crate::arguments::VerifyArguments;
use crate::exit_status;
use crate::failure::Failure;

/// The version of the JSON form.
const SCHEMA_VERSION: u32 = 1;

/// Checks that the order of a trace explains the values in it.
pub(crate) fn verify(typed: &VerifyArguments) -> Result<u8, Failure> {
    let trace = opened::open(&typed.input)?;
    let mut check = ValueCheck::new(trace.modules(), &trace.threads());
    let problems = trace.merged().deliver(&mut check);
    let report = check.finish();
    let damage = opened::report_problems(trace.problems(), &problems);
    if report.accesses_with_value == 0 {
        let path = typed.input.display();
        return Err(Failure::new(format!(
            "{path} holds no values, so there is nothing to check"
        ))
        .with_help(format!("unspool trace --verify -o {path} PROGRAM")));
    }
    let text = match typed.json {
        true => as_json(&report, trace.header().order.name(), typed.show)?,
        false => as_text(&report, trace.header().order.name(), typed.show),
    };
    print_result(text.as_bytes())?;
    Ok(if report.passed() {
        damage
    } else {
        exit_status::ANSWER_IS_NO
    })
}

fn as_json(report: &ValueReport, order: &str, show: usize) -> Result<String, Failure> {
    let mut shown = report.clone();
    shown.mismatches.truncate(show);
    let mut value = serde_json::to_value(&shown)?;
    value["schema"] = "unspool-verification".into();
    value["version"] = SCHEMA_VERSION.into();
    value["order"] = order.into();
    value["passed"] = report.passed().into();
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn as_text(report: &ValueReport, order: &str, show: usize) -> String {
    let mut text = String::new();
    for mismatch in report.mismatches.iter().take(show) {
        text += &mismatch_line(mismatch);
    }
    let hidden = report.mismatch_count.saturating_sub(show as u64);
    if hidden > 0 {
        text += &format!("and {hidden} more\n");
    }
    text += &format!(
        "order {order}: {} bytes compared, {} learned, {} written; \
         {} accesses with values, {} without; {} bytes of shared mappings not checked\n",
        report.bytes_compared,
        report.bytes_learned,
        report.bytes_written,
        report.accesses_with_value,
        report.accesses_without_value,
        report.bytes_not_checked,
    );
    if report.explained_by_system_calls > 0 {
        text += &format!(
            "{} reads found what a system call was writing meanwhile\n",
            report.explained_by_system_calls
        );
    }
    if report.accesses_not_checked > 0 {
        text += &format!(
            "{} accesses not checked: they follow the time at which a thread was cut off\n",
            report.accesses_not_checked
        );
    }
    text += &match report.mismatch_count {
        0 => "passed: the order explains every value\n".to_owned(),
        count => format!("failed: {count} reads found something else than the order explains\n"),
    };
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
