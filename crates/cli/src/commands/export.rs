//! `unspool export`

use std::fs::File;

use unspool_events::{Problem, Sink, Trace};
use unspool_report::{
    CsvExporter, ExportError, JsonExporter, Names, ParquetExporter, ParquetPaths, TsvExporter,
    TsvOptions,
};

use super::opened;
use crate::failure::Failure;
use crate::plan::{ExportFormat, ExportPlan};

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
            to_text(plan, |output| {
                let mut exporter = TsvExporter::new(output, names, options);
                let problems = deliver(&trace, plan.ordered, &mut exporter);
                exporter.finish().map(|()| problems)
            })?
        }
        ExportFormat::Csv => to_text(plan, |output| {
            let mut exporter = CsvExporter::new(output, names);
            let problems = deliver(&trace, plan.ordered, &mut exporter);
            exporter.finish().map(|()| problems)
        })?,
        ExportFormat::Json => to_text(plan, |output| {
            let (header, modules, functions) = (trace.header(), trace.modules(), trace.functions());
            let mut exporter = JsonExporter::new(output, names, header, modules, functions);
            let problems = deliver(&trace, plan.ordered, &mut exporter);
            exporter.finish().map(|()| problems)
        })?,
        ExportFormat::Parquet { prefix } => {
            let mut exporter = ParquetExporter::create(&ParquetPaths::with_prefix(prefix), names)?;
            let problems = deliver(&trace, plan.ordered, &mut exporter);
            exporter.finish()?;
            problems
        }
        ExportFormat::None => deliver(&trace, plan.ordered, &mut Nowhere),
    };
    Ok(opened::report_problems(trace.problems(), &problems))
}

/// Exports into a file that has its name only when it is whole.
fn to_text(
    plan: &ExportPlan,
    export: impl FnOnce(File) -> Result<Vec<Problem>, ExportError>,
) -> Result<Vec<Problem>, Failure> {
    let pending = plan.destination.open_pending()?;
    let problems = export(pending.writer()?)?;
    pending.complete()?;
    Ok(problems)
}

/// Takes everything and keeps nothing.
struct Nowhere;

impl Sink for Nowhere {}

/// Gives everything to the exporter: in order of time, or thread after thread.
fn deliver(trace: &Trace, ordered: bool, sink: &mut impl Sink) -> Vec<Problem> {
    if ordered {
        return trace.merged().deliver(sink);
    }
    trace
        .threads()
        .iter()
        .flat_map(|info| trace.thread(info.thread).deliver(sink))
        .collect()
}
