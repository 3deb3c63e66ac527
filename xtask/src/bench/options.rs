//! What was typed after `cargo xtask bench`.

use std::path::PathBuf;

use clap::Parser;

use super::catalogue::{self, Program};
use super::variant::Mode;

/// Measures what observing a program costs, as ratios to its native run
#[derive(Debug, Parser)]
#[command(name = "cargo xtask bench", no_binary_name = true)]
pub(crate) struct Options {
    /// Only programs whose name contains one of these; all by default. `applications` stands for
    /// all applications
    pub(crate) filters: Vec<String>,

    /// Small sizes: about 0.3 s a program instead of 1 to 3 s
    #[arg(long)]
    pub(crate) quick: bool,

    /// How often each program runs in each mode; a figure counts from five rounds on
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: u32,

    /// Only these modes (native always runs)
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) modes: Vec<Mode>,

    /// Also measure valgrind (none, and lackey in two ways) and QEMU (alone, and with a plugin);
    /// implies --quick
    #[arg(long)]
    pub(crate) peers: bool,

    /// Also sample the memory of every process of each program, in one more run a mode
    #[arg(long)]
    pub(crate) memory: bool,

    /// Pair this build with another executable of unspool
    #[arg(long, value_name = "EXECUTABLE")]
    pub(crate) compare: Option<PathBuf>,

    /// Measure this executable instead of building one from the checkout
    #[arg(long, value_name = "EXECUTABLE")]
    pub(crate) unspool: Option<PathBuf>,

    /// Print JSON instead of tables
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write bench/results/DATE-MACHINE.md
    #[arg(long)]
    pub(crate) save: bool,

    /// Fail if a limit of bench/README.md is missed or, in a full run, was not measured
    #[arg(long)]
    pub(crate) check: bool,

    /// Kill a run that takes longer
    #[arg(long, default_value_t = 600, value_name = "SECONDS")]
    pub(crate) time_limit_s: u64,

    /// Only list the programs
    #[arg(long)]
    pub(crate) list: bool,
}

impl Options {
    /// Whether the sizes are the small ones.
    pub(crate) fn small(&self) -> bool {
        self.quick || self.peers
    }

    /// Whether everything is measured that the limits speak of.
    pub(crate) fn complete(&self) -> bool {
        self.filters.is_empty() && self.modes.is_empty() && self.compare.is_none()
    }

    /// Says of how many programs means are, where not all are wanted.
    pub(crate) fn selection_note(&self) -> Option<String> {
        let all = || catalogue::all().filter(|program| !program.is_application());
        let (selected, all) = (
            all().filter(|program| self.selects(program)).count(),
            all().count(),
        );
        (selected < all).then(|| {
            format!("Only {selected} of {all} programs were asked for; means are of no others.")
        })
    }

    /// Whether a program is wanted.
    pub(crate) fn selects(&self, program: &Program) -> bool {
        let meant = |filter: &String| {
            program.name.contains(filter.as_str())
                || filter == "applications" && program.is_application()
        };
        self.filters.is_empty() || self.filters.iter().any(meant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Options {
        Options::try_parse_from(line.split_whitespace()).unwrap()
    }

    #[test]
    fn filters_select_by_substring() {
        let options = parse("stencil xz --runs 3");
        let selected = |options: &Options, name| {
            let mut all = catalogue::all();
            let program = all.find(|program| program.name == name).unwrap();
            options.selects(program)
        };
        assert!(selected(&options, "stencil2d") && selected(&options, "xz"));
        assert!(!selected(&options, "gzip"));
        assert!(!options.complete());
        assert!(selected(&parse(""), "gzip") && selected(&parse(""), "javac"));
        let applications = parse("applications");
        assert!(selected(&applications, "javac") && !selected(&applications, "gzip"));
    }

    #[test]
    fn a_selection_says_of_how_many_programs_means_are() {
        let note = parse("gzip").selection_note().unwrap();
        assert!(note.starts_with("Only 1 of 27 programs"), "{note}");
        assert_eq!(parse("").selection_note(), None);
    }

    #[test]
    fn modes_are_a_comma_separated_list() {
        let options = parse("--modes run,ticket-file");
        assert_eq!(options.modes, [Mode::Run, Mode::TicketFile]);
        assert!(Options::try_parse_from(["--modes", "fast"]).is_err());
        assert!(Options::try_parse_from(["--runs", "0"]).is_err());
    }
}
