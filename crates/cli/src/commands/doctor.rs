//! `unspool doctor`: what does this machine allow?

use unspool_doctor::{Platform, Verdict, checks, to_json, to_text};

use super::standard_output::print_result;
use crate::arguments::DoctorArguments;
use crate::exit_status;
use crate::failure::Failure;

/// Looks, and reports.
pub(crate) fn doctor(typed: &DoctorArguments) -> Result<u8, Failure> {
    let checks = checks(&Platform::examine());
    let report = match typed.json {
        true => serde_json::to_string_pretty(&to_json(&checks))? + "\n",
        false => to_text(&checks),
    };
    print_result(report.as_bytes())?;
    let is_missing = checks.iter().any(|check| check.verdict == Verdict::Missing);
    Ok(match is_missing {
        true => exit_status::ANSWER_IS_NO,
        false => exit_status::SUCCESS,
    })
}
