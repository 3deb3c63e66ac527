//! `unspool export`

use std::fs::File;

use unspool_events::{Module, Problem, Sink, StreamReader, Trace, TraceHeader, TracedFunction};
use unspool_report::{
    Both, CsvExporter, DataSetExporter, Description, ExportError, JsonExporter, Names,
    ParquetExporter, ParquetPaths, TsvExporter, TsvOptions,
};

use super::followed::Followed;
use super::{described, followed, opened};
use crate::failure::Failure;
use crate::plan::{Destination, ExportFormat, ExportPlan};
use crate::progress::Progress;

/// Converts a trace.
pub(crate) fn export(plan: &ExportPlan) -> Result<u8, Failure> {
    if plan.follow {
        let source = Source::Growing(Box::new(followed::open(&plan.input)?));
        let problems = export_text(source, plan)?;
        return Ok(opened::report_problems(&problems, &[]));
    }
    let trace = opened::open(&plan.input)?;
    let problems = match &plan.format {
        ExportFormat::Parquet { prefix } => {
            let names = Names::of_trace(&trace);
            let paths = ParquetPaths::with_prefix(prefix);
            let description = Description::of_trace(&trace);
            let mut exporter = ParquetExporter::create(&paths, names, description)?;
            let problems = deliver(&trace, plan, &mut exporter);
            exporter.finish()?;
            problems
        }
        ExportFormat::DataSet { folder } => {
            let names = Names::of_trace(&trace);
            let description = Description::of_trace(&trace);
            let create = DataSetExporter::create(folder, names, description);
            let mut exporter = create.map_err(data_set_failure)?;
            let problems = deliver(&trace, plan, &mut exporter);
            exporter.finish().map_err(data_set_failure)?;
            problems
        }
        _ => export_text(Source::Whole(&trace), plan)?,
    };
    if !trace.is_complete() {
        followed::mention_rest(&plan.input);
    }
    Ok(opened::report_problems(trace.problems(), &problems))
}

/// Where a text export comes from.
enum Source<'a> {
    /// A file, as far as it is there.
    Whole(&'a Trace),
    /// A file that somebody may still be writing.
    Growing(Box<StreamReader<Followed>>),
}

impl Source<'_> {
    fn header(&self) -> &TraceHeader {
        match self {
            Source::Whole(trace) => trace.header(),
            Source::Growing(reader) => reader.header(),
        }
    }

    /// The names that are known before anything was read.
    fn names(&self) -> Names {
        match self {
            Source::Whole(trace) => Names::of_trace(trace),
            Source::Growing(_) => Names::new(),
        }
    }

    fn tables(&self) -> (&[Module], &[TracedFunction]) {
        match self {
            Source::Whole(trace) => (trace.modules(), trace.functions()),
            Source::Growing(_) => (&[], &[]),
        }
    }

    fn description(&self) -> Description {
        match self {
            Source::Whole(trace) => Description::of_trace(trace),
            Source::Growing(reader) => Description::new(reader.header()),
        }
    }

    /// Gives everything to the exporter.
    fn deliver(self, plan: &ExportPlan, sink: &mut impl Sink) -> Vec<Problem> {
        match self {
            Source::Whole(trace) => deliver(trace, plan, sink),
            Source::Growing(reader) => {
                let prints_lines = prints_lines(plan);
                let mut progress = Progress::new("accesses", None, plan.progress, prints_lines);
                reader.deliver(&mut Both(sink, &mut progress)).problems
            }
        }
    }
}

/// Converts a trace to lines, or to nothing.
fn export_text(source: Source<'_>, plan: &ExportPlan) -> Result<Vec<Problem>, Failure> {
    let names = source.names();
    match &plan.format {
        ExportFormat::Tsv { times } => {
            let options = TsvOptions {
                times: *times,
                ..TsvOptions::of_trace(source.header())
            };
            to_described_text(plan, source, |output, source, description| {
                let mut exporter = TsvExporter::new(output, names, options);
                let problems = source.deliver(plan, &mut Both(&mut exporter, description));
                opened::report_left_out(exporter.finish()?);
                Ok(problems)
            })
        }
        ExportFormat::Csv => to_described_text(plan, source, |output, source, description| {
            let mut exporter = CsvExporter::new(output, names);
            let problems = source.deliver(plan, &mut Both(&mut exporter, description));
            exporter.finish().map(|()| problems)
        }),
        ExportFormat::Json => to_text(plan, |output| {
            let (modules, functions) = source.tables();
            let mut exporter =
                JsonExporter::new(output, names, source.header(), modules, functions);
            let problems = source.deliver(plan, &mut exporter);
            exporter.finish().map(|()| problems)
        }),
        _ => Ok(source.deliver(plan, &mut Nowhere)),
    }
}

/// Exports into a file, with another beside it that says what its lines do not, and that is there
/// whenever the lines are.
fn to_described_text(
    plan: &ExportPlan,
    source: Source<'_>,
    export: impl FnOnce(File, Source<'_>, &mut Description) -> Result<Vec<Problem>, ExportError>,
) -> Result<Vec<Problem>, Failure> {
    let described_in = described::create(plan.description.as_deref())?;
    let mut description = source.description();
    let pending = plan.destination.open()?;
    let problems = export(pending.writer()?, source, &mut description)?;
    if plan.follow {
        description.set_complete(problems.is_empty());
    }
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
    let prints_lines = prints_lines(plan);
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

/// Whether lines go to standard output.
fn prints_lines(plan: &ExportPlan) -> bool {
    plan.destination == Destination::StandardOutput
        && matches!(
            plan.format,
            ExportFormat::Tsv { .. } | ExportFormat::Csv | ExportFormat::Json
        )
}
