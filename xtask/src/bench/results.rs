//! What was measured, as it is judged, printed and saved.

use serde::Serialize;

use super::catalogue::{Program, Sharing};
use super::limits::Verdict;
use super::machine::Machine;
use super::memory::TreePeaks;
use super::process::Usage;
use super::statistics::{geometric_mean, least, median, relative_spread};
use super::trace_file::TraceFacts;
use super::variant::{Mode, Variant};

/// The version of the JSON form: grows when a field changes its meaning or goes away.
pub(crate) const SCHEMA_VERSION: u32 = 1;

/// How far the rounds of a figure that counts lie apart at most, relative to their median.
const AGREEMENT: f64 = 0.1;

/// How many rounds a figure that counts has at least.
pub(crate) const FEWEST_ROUNDS: usize = 5;

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
    /// Least CPU time over native's least.
    pub(crate) cpu_ratio: Option<f64>,
    /// Median CPU time over native's.
    pub(crate) median_cpu_ratio: Option<f64>,
    /// CPU time over native's, round by round: both ran next to each other.
    pub(crate) cpu_ratios: Vec<f64>,
    /// Median wall time over native's.
    pub(crate) wall_ratio: Option<f64>,
    /// Median peak of the largest process less native's.
    pub(crate) memory_over_native_bytes: Option<i64>,
    /// With `--compare`: the median, over rounds, of this build's CPU time over the other's.
    pub(crate) ratio_to_other_build: Option<f64>,
    /// What its last trace held.
    pub(crate) trace: Option<TraceFacts>,
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
    /// A program that cannot be measured.
    pub(crate) fn skipped(program: &Program, reason: String) -> ProgramResult {
        ProgramResult {
            name: program.name,
            sharing: program.sharing,
            run_limit: program.run_limit,
            skipped: Some(reason),
            columns: Vec::new(),
        }
    }

    /// The column of a mode, by the build under test.
    pub(crate) fn column(&self, mode: Mode) -> Option<&ColumnResult> {
        self.columns
            .iter()
            .find(|column| column.variant.mode == mode && !column.variant.is_other_build)
    }

    /// Fills in what follows from the runs.
    pub(crate) fn derive_ratios(&mut self) {
        let Some(native) = self.column(Mode::Native) else {
            return;
        };
        let native_rounds = native.cpu_s.clone();
        let native_cpu = median(&native.cpu_s);
        let native_wall = median(&native.wall_s);
        let native_peak = native.median_peak();
        let paired: Vec<Option<f64>> = self
            .columns
            .iter()
            .map(|column| self.paired_ratio(column))
            .collect();
        for (column, paired) in self.columns.iter_mut().zip(paired) {
            let over = |values: &[f64], native: Option<f64>| Some(median(values)? / native?);
            column.median_cpu_ratio = over(&column.cpu_s, native_cpu);
            column.cpu_ratio = least(&column.cpu_s)
                .zip(least(&native_rounds))
                .map(|(least, native)| least / native);
            let rounds = column.cpu_s.iter().zip(&native_rounds);
            column.cpu_ratios = rounds.map(|(time, native)| time / native).collect();
            column.wall_ratio = over(&column.wall_s, native_wall);
            column.memory_over_native_bytes = column
                .median_peak()
                .zip(native_peak)
                .map(|(peak, native)| (peak - native).round() as i64);
            column.ratio_to_other_build = paired;
        }
    }

    /// Both builds ran next to each other in every round, so that what slowed the machine
    /// down in one round slowed down both.
    fn paired_ratio(&self, column: &ColumnResult) -> Option<f64> {
        if column.variant.is_other_build {
            return None;
        }
        let other = self.columns.iter().find(|other| {
            other.variant.is_other_build && other.variant.mode == column.variant.mode
        })?;
        let ratios: Vec<f64> = column
            .cpu_s
            .iter()
            .zip(&other.cpu_s)
            .map(|(this, other)| this / other)
            .collect();
        median(&ratios)
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
            cpu_ratio: None,
            median_cpu_ratio: None,
            cpu_ratios: Vec::new(),
            wall_ratio: None,
            memory_over_native_bytes: None,
            ratio_to_other_build: None,
            trace: None,
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

    /// How far its CPU times lie apart, relative to their median.
    pub(crate) fn spread(&self) -> Option<f64> {
        relative_spread(&self.cpu_s)
    }

    /// Why its CPU time over native does not count, if it does not.
    pub(crate) fn doubt(&self) -> Option<Doubt> {
        let rounds = self.cpu_ratios.len();
        if rounds < FEWEST_ROUNDS {
            return Some(Doubt::FewRounds(rounds));
        }
        let apart = relative_spread(&self.cpu_ratios)?;
        (apart > AGREEMENT).then_some(Doubt::Apart(apart))
    }

    /// Its least CPU time over native's.
    pub(crate) fn figure(&self) -> Option<Figure> {
        let value = self.cpu_ratio?;
        let counts = self.doubt().is_none();
        Some(Figure { value, counts })
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

/// Why a figure does not count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Doubt {
    /// There are only so many rounds.
    FewRounds(usize),
    /// The rounds lie so far apart, relative to their median.
    Apart(f64),
}

impl std::fmt::Display for Doubt {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Doubt::FewRounds(1) => formatter.write_str("one round"),
            Doubt::FewRounds(rounds) => write!(formatter, "{rounds} rounds"),
            Doubt::Apart(apart) => write!(formatter, "rounds differ by {:.0} %", apart * 100.0),
        }
    }
}

/// A ratio, and whether it counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    /// The ratio.
    pub(crate) value: f64,
    /// Whether enough rounds agree.
    pub(crate) counts: bool,
}

impl Figure {
    /// One that nothing speaks against.
    pub(crate) fn certain(value: f64) -> Figure {
        Figure {
            value,
            counts: true,
        }
    }

    /// This ratio over another, which counts if both do.
    pub(crate) fn over(self, other: Figure) -> Figure {
        Figure {
            value: self.value / other.value,
            counts: self.counts && other.counts,
        }
    }
}

/// Mean, least and greatest of the ratios that count, with the programs that have the latter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RatioSummary {
    /// The geometric mean, or the ratio of the sums.
    pub(crate) mean: f64,
    /// The least.
    pub(crate) least: (f64, &'static str),
    /// The greatest.
    pub(crate) greatest: (f64, &'static str),
    /// Programs whose ratio was measured and does not count.
    pub(crate) left_out: Vec<&'static str>,
}

impl RatioSummary {
    /// Sums up one figure of every program that has it. None if none counts.
    pub(crate) fn of(
        programs: &[ProgramResult],
        figure: impl Fn(&ProgramResult) -> Option<Figure>,
    ) -> Option<RatioSummary> {
        let figures = programs
            .iter()
            .filter_map(|program| Some((figure(program)?, program.name)));
        let (counted, left_out): (Vec<_>, Vec<_>) = figures.partition(|(figure, _)| figure.counts);
        let values: Vec<_> = counted
            .into_iter()
            .map(|(figure, name)| (figure.value, name))
            .collect();
        let bare: Vec<f64> = values.iter().map(|(value, _)| *value).collect();
        let summary = RatioSummary::with_mean(&values, geometric_mean(&bare)?)?;
        Some(RatioSummary {
            left_out: left_out.into_iter().map(|(_, name)| name).collect(),
            ..summary
        })
    }

    /// Sums up one (numerator, denominator) of every program that has it: the mean is the
    /// ratio of the sums, so that a program counts as much as there is of it.
    pub(crate) fn together(
        programs: &[ProgramResult],
        value: impl Fn(&ProgramResult) -> Option<(f64, f64)>,
    ) -> Option<RatioSummary> {
        let (mut values, mut numerators, mut denominators) = (Vec::new(), 0.0, 0.0);
        for program in programs {
            if let Some((numerator, denominator)) = value(program) {
                values.push((numerator / denominator, program.name));
                numerators += numerator;
                denominators += denominator;
            }
        }
        RatioSummary::with_mean(&values, numerators / denominators)
    }

    fn with_mean(values: &[(f64, &'static str)], mean: f64) -> Option<RatioSummary> {
        Some(RatioSummary {
            mean,
            least: *values.iter().min_by(|a, b| a.0.total_cmp(&b.0))?,
            greatest: *values.iter().max_by(|a, b| a.0.total_cmp(&b.0))?,
            left_out: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            name: "p",
            sharing: Sharing::Alone,
            run_limit: None,
            skipped: None,
            columns,
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
    fn a_figure_counts_if_its_rounds_agree() {
        let run = |native: &[f64], run: &[f64]| {
            let result = program(vec![
                column(Mode::Native, false, native),
                column(Mode::Run, false, run),
            ]);
            result.columns[1].clone()
        };
        // What slows a round down slows down both.
        let steady = run(&[1.0, 2.0, 1.0, 1.0, 1.0], &[1.5, 3.0, 1.6, 1.5, 1.5]);
        assert_eq!(steady.cpu_ratios, [1.5, 1.5, 1.6, 1.5, 1.5]);
        assert_eq!(steady.doubt(), None);
        assert_eq!(steady.figure(), Some(Figure::certain(1.5)));
        let unsteady = run(&[1.0, 2.0, 2.0, 2.0, 2.0], &[2.0, 3.0, 3.0, 3.0, 3.0]);
        assert_eq!(unsteady.doubt(), Some(Doubt::Apart(0.5 / 1.5)));
        let expected = Figure {
            value: 2.0,
            counts: false,
        };
        assert_eq!(unsteady.figure(), Some(expected));
        let few = run(&[1.0; 4], &[2.0; 4]);
        assert_eq!(few.doubt(), Some(Doubt::FewRounds(4)));
        assert_eq!(run(&[], &[]).figure(), None);
    }

    #[test]
    fn a_mean_leaves_out_what_does_not_count() {
        let of = |name, value, counts| {
            let mut program = program(Vec::new());
            program.name = name;
            (program, Figure { value, counts })
        };
        let all = [
            of("a", 2.0, true),
            of("b", 100.0, false),
            of("c", 8.0, true),
        ];
        let programs: Vec<_> = all.iter().map(|(program, _)| program.clone()).collect();
        let figure = |wanted: &ProgramResult| {
            let mut all = all.iter();
            let found = all.find(|(program, _)| program.name == wanted.name);
            found.map(|(_, figure)| *figure)
        };
        let summary = RatioSummary::of(&programs, figure).unwrap();
        assert!((summary.mean - 4.0).abs() < 1e-12);
        assert_eq!(summary.greatest, (8.0, "c"));
        assert_eq!(summary.left_out, ["b"]);
        assert_eq!(RatioSummary::of(&programs[1..2], figure), None);
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

    #[test]
    fn summaries_name_the_extremes() {
        let mut slow = program(vec![column(Mode::Native, false, &[4.0])]);
        slow.name = "slow";
        let fast = program(vec![column(Mode::Native, false, &[1.0])]);
        let summary = RatioSummary::of(&[slow, fast], |program| {
            program.columns[0]
                .cpu_s
                .first()
                .copied()
                .map(Figure::certain)
        });
        let expected = RatioSummary {
            mean: 2.0,
            least: (1.0, "p"),
            greatest: (4.0, "slow"),
            left_out: Vec::new(),
        };
        assert_eq!(summary, Some(expected));
    }

    #[test]
    fn together_weighs_programs_by_their_size() {
        let mut large = program(vec![column(Mode::Native, false, &[9.0])]);
        large.name = "large";
        let small = program(vec![column(Mode::Native, false, &[1.0])]);
        let summary = RatioSummary::together(&[large, small], |program| {
            let size = *program.columns[0].cpu_s.first()?;
            Some((if size > 5.0 { size } else { 3.0 * size }, size))
        });
        let expected = RatioSummary {
            mean: 1.2,
            least: (1.0, "large"),
            greatest: (3.0, "p"),
            left_out: Vec::new(),
        };
        assert_eq!(summary, Some(expected));
        assert_eq!(RatioSummary::together(&[], |_| Some((1.0, 1.0))), None);
    }
}
