//! `unspool info`

use unspool_report::Information;

use super::opened;
use super::standard_output::print_result;
use crate::arguments::InfoArguments;
use crate::exit_status;
use crate::failure::Failure;

/// Says what a trace holds, damage included.
pub(crate) fn info(typed: &InfoArguments) -> Result<u8, Failure> {
    let trace = opened::open_any(&typed.input)?;
    let information = match typed.quick {
        true => Information::read_index(&trace),
        false => Information::read_all(&trace),
    };
    let mut text = match typed.json {
        true => serde_json::to_string_pretty(&information)?,
        false => information.to_string(),
    };
    text.push('\n');
    if !typed.json && opened::openmp_streams(trace.streams()) {
        text += &format!("unspool openmp {} reports on it\n", typed.input.display());
    }
    print_result(text.as_bytes())?;
    Ok(match information.problems.is_empty() {
        true => exit_status::SUCCESS,
        false => exit_status::INPUT_DAMAGED,
    })
}
