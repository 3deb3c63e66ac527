//! `unspool export`

use std::fs::File;

use unspool_events::{Problem, Sink, Trace};
use unspool_report::{
    Both, CsvExporter, DataSetExporter, Description, ExportError, JsonExporter, Names,
    ParquetExporter, ParquetPaths, TsvExporter, TsvOptions,
};

use super::{described, opened};
use crate::failure::Failure;
use crate::plan::{Destination, ExportFormat, ExportPlan};
use crate::progress::Progress;

/// Converts a trace.
pub(crate) fn export(plan: &ExportPlan) -> Result<u8, Failure> {
    let trace = opened::open(&plan.input)?;
    let names = Names::of_trace(&trace);
    let problems = match &plan.format {
        ExportFormat::Tsv { times } => {
            let options = TsvOptions {
                times: *times,
                ..TsvOptions::of_trace(trace.header())
            };
            to_described_text(plan, &trace, |output, description| {
                let mut exporter = TsvExporter::new(output, names, options);
                let problems = deliver(&trace, plan, &mut Both(&mut exporter, description));
                opened::report_left_out(exporter.finish()?);
                Ok(problems)
            })?
        }
        ExportFormat::Csv => to_described_text(plan, &trace, |output, description| {
            let mut exporter = CsvExporter::new(output, names);
            let problems = deliver(&trace, plan, &mut Both(&mut exporter, description));
            exporter.finish().map(|()| problems)
        })?,
        ExportFormat::Json => to_text(plan, |output| {
            let (header, modules, functions) = (trace.header(), trace.modules(), trace.functions());
            let mut exporter = JsonExporter::new(output, names, header, modules, functions);
            let problems = deliver(&trace, plan, &mut exporter);
            exporter.finish().map(|()| problems)
        })?,
        ExportFormat::Parquet { prefix } => {
            let paths = ParquetPaths::with_prefix(prefix);
            let description = Description::of_trace(&trace);
            let mut exporter = ParquetExporter::create(&paths, names, description)?;
            let problems = deliver(&trace, plan, &mut exporter);
            exporter.finish()?;
            problems
        }
        ExportFormat::DataSet { folder } => {
            let description = Description::of_trace(&trace);
            let create = DataSetExporter::create(folder, names, description);
            let mut exporter = create.map_err(data_set_failure)?;
            let problems = deliver(&trace, plan, &mut exporter);
            exporter.finish().map_err(data_set_failure)?;
            problems
        }
        ExportFormat::None => deliver(&trace, plan, &mut Nowhere),
    };
    Ok(opened::report_problems(trace.problems(), &problems))
}

/// Exports into a file, with another beside it that says what its lines do not, and that is there
/// whenever the lines are.
fn to_described_text(
    plan: &ExportPlan,
    trace: &Trace,
    export: impl FnOnce(File, &mut Description) -> Result<Vec<Problem>, ExportError>,
) -> Result<Vec<Problem>, Failure> {
    let described_in = described::create(plan.description.as_deref())?;
    let mut description = Description::of_trace(trace);
    let pending = plan.destination.open()?;
    let problems = export(pending.writer()?, &mut description)?;
    described::complete(described_in, &description)?;
    pending.complete()?;
    Ok(problems)
}

/// Exports into a file that has its name only when it is whole.
fn to_text(
    plan: &ExportPlan,
    export: impl FnOnce(File) -> Result<Vec<Problem>, ExportError>,
) -> Result<Vec<Problem>, Failure> {
    let pending = plan.destination.open()?;
    let problems = export(pending.writer()?)?;
    pending.complete()?;
    Ok(problems)
}

fn data_set_failure(error: ExportError) -> Failure {
    let help = match &error {
        ExportError::NotADataSet { .. } => Some("name a folder that is not there yet"),
        ExportError::ProcessExists { .. } => Some(
            "name another folder; a process that called exec has a trace for each of its programs",
        ),
        _ => None,
    };
    let failure = Failure::from(error);
    match help {
        Some(help) => failure.with_help(help),
        None => failure,
    }
}

/// Takes everything and keeps nothing.
struct Nowhere;

impl Sink for Nowhere {}

/// Gives everything to the exporter: in order of time, or thread after thread.
fn deliver(trace: &Trace, plan: &ExportPlan, sink: &mut impl Sink) -> Vec<Problem> {
    let prints_lines = plan.destination == Destination::StandardOutput
        && !matches!(
            plan.format,
            ExportFormat::Parquet { .. } | ExportFormat::DataSet { .. } | ExportFormat::None
        );
    let mut progress = Progress::of_trace(trace, plan.progress, prints_lines);
    let sink = &mut Both(sink, &mut progress);
    if plan.ordered {
        return trace.merged().deliver(sink);
    }
    trace
        .threads()
        .iter()
        .flat_map(|info| trace.thread(info.thread).deliver(sink))
        .collect()
}
