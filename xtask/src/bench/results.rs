//! What was measured, as it is judged, printed and saved.

use serde::Serialize;

use super::catalogue::{Program, Sharing};
use super::figure::{Figure, over_each_other};
use super::limits::Verdict;
use super::machine::Machine;
use super::memory::TreePeaks;
use super::process::Usage;
use super::statistics::{least, median, relative_spread};
use super::trace_file::TraceFacts;
use super::variant::{Mode, Variant};

/// The version of the JSON form: grows when a field changes its meaning or goes away.
pub(crate) const SCHEMA_VERSION: u32 = 2;

/// Everything that one `cargo xtask bench` found.
#[derive(Debug, Serialize)]
pub(crate) struct Results {
    /// Always `unspool-bench`.
    pub(crate) schema: &'static str,
    /// [`SCHEMA_VERSION`].
    pub(crate) version: u32,
    /// Where and when.
    pub(crate) machine: Machine,
    /// How often each program ran in each mode.
    pub(crate) runs: u32,
    /// Whether the sizes were the small ones.
    pub(crate) small: bool,
    /// What else a reader should know.
    pub(crate) notes: Vec<String>,
    /// The programs, in the catalogue's order.
    pub(crate) programs: Vec<ProgramResult>,
    /// The limits, and whether they hold.
    pub(crate) verdicts: Vec<Verdict>,
}

/// One program.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ProgramResult {
    /// Its name.
    pub(crate) name: &'static str,
    /// How much its threads share.
    #[serde(serialize_with = "serialize_sharing")]
    pub(crate) sharing: Sharing,
    /// Whether it is an OpenMP program.
    pub(crate) uses_openmp: bool,
    /// For an application: what `run` may cost over native.
    pub(crate) run_limit: Option<f64>,
    /// Why it was not measured, if it was not.
    pub(crate) skipped: Option<String>,
    /// One entry for each variant; the first is native.
    pub(crate) columns: Vec<ColumnResult>,
}

/// One program in one variant.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ColumnResult {
    /// The variant's label.
    pub(crate) label: String,
    /// The variant.
    #[serde(skip)]
    pub(crate) variant: Variant,
    /// User and system time of each run.
    pub(crate) cpu_s: Vec<f64>,
    /// Wall time of each run.
    pub(crate) wall_s: Vec<f64>,
    /// Peak of the largest process, of each run.
    pub(crate) largest_process_bytes: Vec<u64>,
    /// The least CPU time.
    pub(crate) least_cpu_s: Option<f64>,
    /// How far the CPU times lie apart, relative to their median.
    pub(crate) cpu_spread: Option<f64>,
    /// Least CPU time over native's least.
    pub(crate) cpu_ratio: Option<f64>,
    /// Median CPU time over native's.
    pub(crate) median_cpu_ratio: Option<f64>,
    /// CPU time over native's, round by round: both ran next to each other.
    pub(crate) cpu_ratios: Vec<f64>,
    /// How far these lie apart, relative to their median.
    pub(crate) cpu_ratios_spread: Option<f64>,
    /// Why the least over native's does not count, if it does not.
    pub(crate) cpu_doubt: Option<String>,
    /// Median wall time over native's.
    pub(crate) wall_ratio: Option<f64>,
    /// Wall time over native's, round by round.
    pub(crate) wall_ratios: Vec<f64>,
    /// Median peak of the largest process less native's.
    pub(crate) memory_over_native_bytes: Option<i64>,
    /// With `--compare`: the median, over rounds, of this build's CPU time over the other's.
    pub(crate) ratio_to_other_build: Option<f64>,
    /// With `--compare`: this build's CPU time over the other's, round by round.
    pub(crate) ratios_to_other_build: Vec<f64>,
    /// What its traces held, round by round.
    pub(crate) traces: Vec<TraceFacts>,
    /// Memory of the whole tree, with `--memory`.
    pub(crate) peaks: Option<TreePeaks>,
    /// What went wrong. Runs before it still count.
    pub(crate) problems: Vec<String>,
}

fn serialize_sharing<S: serde::Serializer>(
    sharing: &Sharing,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(match sharing {
        Sharing::Alone => "alone",
        Sharing::Little => "little",
        Sharing::Much => "much",
    })
}

impl ProgramResult {
    /// A program with what was measured of it.
    pub(crate) fn new(program: &Program, columns: Vec<ColumnResult>) -> ProgramResult {
        let mut result = ProgramResult {
            name: program.name,
            sharing: program.sharing,
            uses_openmp: program.uses_openmp(),
            run_limit: program.run_limit,
            skipped: None,
            columns,
        };
        result.derive_ratios();
        result
    }

    /// A program that cannot be measured.
    pub(crate) fn skipped(program: &Program, reason: String) -> ProgramResult {
        ProgramResult {
            skipped: Some(reason),
            ..ProgramResult::new(program, Vec::new())
        }
    }

    /// Whether it is an application, which has a limit of its own and is in no mean.
    pub(crate) fn is_application(&self) -> bool {
        self.run_limit.is_some()
    }

    /// Whether a mean of this mode speaks of it.
    pub(crate) fn is_meant_by(&self, mode: Mode) -> bool {
        !self.is_application() && (mode != Mode::Openmp || self.uses_openmp)
    }

    /// The column of a mode, by the build under test.
    pub(crate) fn column(&self, mode: Mode) -> Option<&ColumnResult> {
        self.columns
            .iter()
            .find(|column| column.variant.mode == mode && !column.variant.is_other_build)
    }

    /// The least CPU time in one mode over that in another, judged by the rounds of both: they
    /// ran next to each other. None where a mean of this mode does not speak of the program.
    pub(crate) fn over(&self, mode: Mode, base: Mode) -> Option<Figure> {
        if !self.is_meant_by(mode) {
            return None;
        }
        let times = |mode: Mode| match self.observed(mode) {
            Ok(column) => Ok(&column.cpu_s),
            Err(reason) => Err(Figure::Missing(reason)),
        };
        Some(match (times(mode), times(base)) {
            (Err(missing), _) | (_, Err(missing)) => missing,
            (Ok(times), Ok(base)) => Figure::of_times(times, base),
        })
    }

    /// The column of a mode, if it holds anything.
    ///
    /// # Errors
    /// Why there is nothing.
    pub(crate) fn observed(&self, mode: Mode) -> Result<&ColumnResult, String> {
        if self.skipped.is_some() {
            return Err("skipped".to_owned());
        }
        let column = self
            .column(mode)
            .ok_or_else(|| format!("not run as {}", mode.name()))?;
        if column.cpu_s.is_empty() && !column.problems.is_empty() {
            return Err(format!("failed as {}", mode.name()));
        }
        Ok(column)
    }

    /// Fills in what follows from the runs.
    pub(crate) fn derive_ratios(&mut self) {
        let Some(native) = self.column(Mode::Native) else {
            return;
        };
        let native_cpu_s = native.cpu_s.clone();
        let native_wall_s = native.wall_s.clone();
        let native_peak = native.median_peak();
        let to_other_build: Vec<Vec<f64>> = self
            .columns
            .iter()
            .map(|column| self.ratios_to_other_build(column))
            .collect();
        for (column, to_other_build) in self.columns.iter_mut().zip(to_other_build) {
            let over = |values: Option<f64>, native: Option<f64>| Some(values? / native?);
            column.least_cpu_s = least(&column.cpu_s);
            column.cpu_spread = relative_spread(&column.cpu_s);
            column.cpu_ratio = over(column.least_cpu_s, least(&native_cpu_s));
            column.median_cpu_ratio = over(median(&column.cpu_s), median(&native_cpu_s));
            column.cpu_ratios = over_each_other(&column.cpu_s, &native_cpu_s);
            column.cpu_ratios_spread = relative_spread(&column.cpu_ratios);
            column.cpu_doubt = column.cpu().doubt();
            column.wall_ratio = over(median(&column.wall_s), median(&native_wall_s));
            column.wall_ratios = over_each_other(&column.wall_s, &native_wall_s);
            column.memory_over_native_bytes = column
                .median_peak()
                .zip(native_peak)
                .map(|(peak, native)| (peak - native).round() as i64);
            column.ratio_to_other_build = median(&to_other_build);
            column.ratios_to_other_build = to_other_build;
        }
    }

    /// Both builds ran next to each other in every round, so that what slowed the machine
    /// down in one round slowed down both.
    fn ratios_to_other_build(&self, column: &ColumnResult) -> Vec<f64> {
        let is_other = |other: &&ColumnResult| {
            other.variant.is_other_build && other.variant.mode == column.variant.mode
        };
        match self.columns.iter().find(is_other) {
            Some(other) if !column.variant.is_other_build => {
                over_each_other(&column.cpu_s, &other.cpu_s)
            }
            _ => Vec::new(),
        }
    }
}

impl ColumnResult {
    /// A column without runs.
    pub(crate) fn new(variant: Variant) -> ColumnResult {
        ColumnResult {
            label: variant.label(),
            variant,
            cpu_s: Vec::new(),
            wall_s: Vec::new(),
            largest_process_bytes: Vec::new(),
            least_cpu_s: None,
            cpu_spread: None,
            cpu_ratio: None,
            median_cpu_ratio: None,
            cpu_ratios: Vec::new(),
            cpu_ratios_spread: None,
            cpu_doubt: None,
            wall_ratio: None,
            wall_ratios: Vec::new(),
            memory_over_native_bytes: None,
            ratio_to_other_build: None,
            ratios_to_other_build: Vec::new(),
            traces: Vec::new(),
            peaks: None,
            problems: Vec::new(),
        }
    }

    /// Adds a run.
    pub(crate) fn add_run(&mut self, usage: Usage) {
        self.cpu_s.push(usage.cpu_s);
        self.wall_s.push(usage.wall_s);
        self.largest_process_bytes.push(usage.largest_process_bytes);
    }

    /// Its least CPU time over native's.
    pub(crate) fn cpu(&self) -> Figure {
        Figure::of(self.cpu_ratio, &self.cpu_ratios)
    }

    /// Its median wall time over native's.
    pub(crate) fn wall(&self) -> Figure {
        Figure::of(self.wall_ratio, &self.wall_ratios)
    }

    /// Its CPU time over the other build's.
    pub(crate) fn to_other_build(&self) -> Figure {
        Figure::of(self.ratio_to_other_build, &self.ratios_to_other_build)
    }

    /// What its last trace held.
    pub(crate) fn last_trace(&self) -> Option<&TraceFacts> {
        self.traces.last()
    }

    /// Bytes of its traces, and accesses in them, of the round with the fewest for each access.
    pub(crate) fn bytes_and_accesses(&self) -> Figure<(f64, f64)> {
        let rounds: Vec<_> = self
            .traces
            .iter()
            .map(|facts| (facts.bytes as f64, facts.accesses as f64))
            .collect();
        Figure::of_costs(&rounds)
    }

    /// CPU seconds in which its traces were read back, and accesses in them, of the round with
    /// the fewest for each access.
    pub(crate) fn seconds_and_accesses(&self) -> Figure<(f64, f64)> {
        let rounds: Vec<_> = self
            .traces
            .iter()
            .map(|facts| (facts.read_cpu_s, facts.accesses as f64))
            .collect();
        Figure::of_costs(&rounds)
    }

    fn median_peak(&self) -> Option<f64> {
        let peaks: Vec<f64> = self
            .largest_process_bytes
            .iter()
            .map(|bytes| *bytes as f64)
            .collect();
        median(&peaks)
    }
}

#[cfg(test)]
impl ProgramResult {
    /// A program of which nothing was measured.
    pub(crate) fn bare(name: &'static str, sharing: Sharing) -> ProgramResult {
        ProgramResult {
            name,
            sharing,
            uses_openmp: false,
            run_limit: None,
            skipped: None,
            columns: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figure::Doubt;

    fn column(mode: Mode, is_other_build: bool, cpu_s: &[f64]) -> ColumnResult {
        let mut column = ColumnResult::new(Variant {
            mode,
            observer: vec!["/u".into()],
            is_other_build,
        });
        for &cpu_s in cpu_s {
            let bytes = (cpu_s * 1e6) as u64;
            column.add_run(Usage {
                cpu_s,
                wall_s: cpu_s / 2.0,
                largest_process_bytes: bytes,
            });
        }
        column
    }

    fn program(columns: Vec<ColumnResult>) -> ProgramResult {
        let mut result = ProgramResult {
            columns,
            ..ProgramResult::bare("p", Sharing::Alone)
        };
        result.derive_ratios();
        result
    }

    #[test]
    fn ratios_are_of_the_least() {
        let result = program(vec![
            column(Mode::Native, false, &[1.0, 9.0, 2.0]),
            column(Mode::Run, false, &[3.0, 2.0, 8.0]),
            column(Mode::TicketFile, false, &[]),
        ]);
        let run = result.column(Mode::Run).unwrap();
        assert_eq!(run.cpu_ratio, Some(2.0));
        assert_eq!(run.median_cpu_ratio, Some(1.5));
        assert_eq!(run.wall_ratio, Some(1.5));
        assert_eq!(run.memory_over_native_bytes, Some(1_000_000));
        assert_eq!(result.column(Mode::TicketFile).unwrap().cpu_ratio, None);
    }

    #[test]
    fn a_figure_over_another_mode_is_judged_by_the_rounds_of_both() {
        let times = |ticket: &[f64]| {
            program(vec![
                column(Mode::Native, false, &[1.0; 5]),
                column(Mode::TicketFile, false, ticket),
                column(Mode::LineAtomicFile, false, &[2.4, 3.6, 2.4, 2.4, 2.4]),
            ])
        };
        let over = |result: &ProgramResult, base| result.over(Mode::LineAtomicFile, base).unwrap();
        // Both slow down in the second round: over native they do not count, over each other do.
        let together = times(&[2.0, 3.0, 2.0, 2.0, 2.0]);
        assert_eq!(over(&together, Mode::TicketFile), Figure::Counts(2.4 / 2.0));
        let apart = Doubt::Apart((3.6 - 2.4) / 2.4);
        assert_eq!(over(&together, Mode::Native), Figure::Doubtful(2.4, apart));
        let alone = times(&[2.0; 5]);
        assert!(over(&alone, Mode::TicketFile).doubt().is_some());
    }

    #[test]
    fn what_was_not_observed_has_its_reason() {
        let mut failed = column(Mode::TicketFile, false, &[]);
        failed.problems.push("ended".to_owned());
        let result = program(vec![column(Mode::Native, false, &[1.0; 5]), failed]);
        let why = |result: &ProgramResult, mode| {
            let figure = result.over(mode, Mode::Native);
            figure.map(|figure| figure.doubt().unwrap_or_default())
        };
        let said = |text: &str| Some(text.to_owned());
        assert_eq!(why(&result, Mode::Run), said("not run as run"));
        assert_eq!(
            why(&result, Mode::TicketFile),
            said("failed as ticket-file")
        );
        assert_eq!(why(&result, Mode::Openmp), None);
        let skipped = ProgramResult {
            skipped: Some("not installed".to_owned()),
            ..ProgramResult::bare("p", Sharing::Alone)
        };
        assert_eq!(why(&skipped, Mode::Run), said("skipped"));
        let application = ProgramResult {
            run_limit: Some(1.0),
            ..result
        };
        assert_eq!(why(&application, Mode::Run), None);
    }

    #[test]
    fn least_and_spread_are_kept() {
        let result = program(vec![
            column(Mode::Native, false, &[1.0, 1.0, 1.0]),
            column(Mode::Run, false, &[3.0, 2.0, 4.0]),
        ]);
        let run = &result.columns[1];
        assert_eq!(
            (run.least_cpu_s, run.cpu_spread),
            (Some(2.0), Some(2.0 / 3.0))
        );
        assert_eq!(run.cpu_ratios_spread, Some(2.0 / 3.0));
        assert_eq!(run.cpu_doubt.as_deref(), Some("3 rounds"));
    }

    #[test]
    fn builds_are_compared_round_by_round() {
        let result = program(vec![
            column(Mode::Native, false, &[1.0]),
            column(Mode::Run, false, &[1.0, 10.0, 2.0]),
            column(Mode::Run, true, &[2.0, 20.0, 2.0]),
        ]);
        assert_eq!(result.columns[1].ratio_to_other_build, Some(0.5));
        assert_eq!(result.columns[2].ratio_to_other_build, None);
    }
}
