//! The ways in which a program is run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ValueEnum;

/// A way to run a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Without any observer: what the ratios are to.
    Native,
    /// Translated, not traced.
    Run,
    /// Translated with what earlier runs kept, not traced.
    RunPersistent,
    /// Traced without order between threads, discarded.
    NoneDiscard,
    /// Traced with tickets, discarded.
    TicketDiscard,
    /// Traced with tickets, written to disk.
    TicketFile,
    /// Traced in line-atomic order, discarded.
    LineAtomicDiscard,
    /// Traced in line-atomic order, written to disk.
    LineAtomicFile,
    /// Natively, with `unspool openmp` collecting; only OpenMP programs.
    Openmp,
    /// Peer: valgrind, translation only.
    ValgrindNone,
    /// Peer: valgrind, every access printed (to nowhere).
    ValgrindLackey,
}

impl Mode {
    /// What runs when nothing else was asked for, besides native.
    pub(crate) const USUAL: [Mode; 7] = [
        Mode::Run,
        Mode::NoneDiscard,
        Mode::TicketDiscard,
        Mode::TicketFile,
        Mode::LineAtomicDiscard,
        Mode::LineAtomicFile,
        Mode::Openmp,
    ];

    /// The name on the command line and in tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mode::Native => "native",
            Mode::Run => "run",
            Mode::RunPersistent => "run-persistent",
            Mode::NoneDiscard => "none-discard",
            Mode::TicketDiscard => "ticket-discard",
            Mode::TicketFile => "ticket-file",
            Mode::LineAtomicDiscard => "line-atomic-discard",
            Mode::LineAtomicFile => "line-atomic-file",
            Mode::Openmp => "openmp",
            Mode::ValgrindNone => "valgrind-none",
            Mode::ValgrindLackey => "valgrind-lackey",
        }
    }

    /// Whether it is a peer, which must be installed.
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Mode::ValgrindNone | Mode::ValgrindLackey)
    }

    /// Whether it runs this project's executable.
    pub(crate) fn is_ours(self) -> bool {
        self != Mode::Native && !self.is_peer()
    }

    /// Whether it leaves a trace file.
    pub(crate) fn writes_trace(self) -> bool {
        matches!(self, Mode::TicketFile | Mode::LineAtomicFile)
    }

    /// How often it runs when others run `runs` times. Printing every access takes a
    /// hundred times the native time and more: once is enough.
    pub(crate) fn runs(self, runs: u32) -> u32 {
        if self == Mode::ValgrindLackey {
            1
        } else {
            runs
        }
    }
}

/// A column of the measurement: a mode, by one executable.
#[derive(Debug, Clone)]
pub(crate) struct Variant {
    /// How the program runs.
    pub(crate) mode: Mode,
    /// Under which build of this project; unused where the mode is not ours.
    pub(crate) unspool: PathBuf,
    /// Whether this is the build that `--compare` named.
    pub(crate) is_other_build: bool,
}

impl Variant {
    /// The heading of its column.
    pub(crate) fn label(&self) -> String {
        if self.is_other_build {
            format!("{} (other)", self.mode.name())
        } else {
            self.mode.name().to_owned()
        }
    }

    /// The words before the program's own to run it this way.
    pub(crate) fn prefix(&self, trace_file: &Path) -> Vec<OsString> {
        let fixed: &[&str] = match self.mode {
            Mode::Native => return Vec::new(),
            Mode::ValgrindNone => &["valgrind", "--quiet", "--tool=none"],
            Mode::ValgrindLackey => &[
                "valgrind",
                "--tool=lackey",
                "--trace-mem=yes",
                "--log-file=/dev/null",
            ],
            Mode::Run | Mode::RunPersistent => &["run"],
            Mode::NoneDiscard => &["trace", "--order", "none", "--discard"],
            Mode::TicketDiscard => &["trace", "--order", "ticket", "--discard"],
            Mode::TicketFile => &["trace", "--order", "ticket", "-o"],
            Mode::LineAtomicDiscard => &["trace", "--order", "line-atomic", "--discard"],
            Mode::LineAtomicFile => &["trace", "--order", "line-atomic", "-o"],
            Mode::Openmp => &["openmp", "--report", "openmp-report"],
        };
        let mut words: Vec<OsString> = Vec::new();
        if self.mode.is_ours() {
            words.push(self.unspool.clone().into());
        }
        words.extend(fixed.iter().map(OsString::from));
        if self.mode.writes_trace() {
            words.push(trace_file.into());
        }
        if self.mode == Mode::RunPersistent {
            let mut option = OsString::from("--persistent-cache=");
            // Beside the folder of the traces, which is emptied before each run.
            let traces = trace_file.parent().unwrap_or(trace_file);
            option.push(traces.with_file_name("translations"));
            words.push(option);
        }
        if self.mode.is_ours() {
            words.push("--".into());
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(mode: Mode) -> String {
        let variant = Variant {
            mode,
            unspool: "/u".into(),
            is_other_build: false,
        };
        variant
            .prefix(Path::new("/t"))
            .join(" ".as_ref())
            .into_string()
            .unwrap()
    }

    #[test]
    fn prefixes() {
        assert_eq!(prefix(Mode::Native), "");
        assert_eq!(prefix(Mode::Run), "/u run --");
        assert_eq!(
            prefix(Mode::RunPersistent),
            "/u run --persistent-cache=/translations --"
        );
        assert_eq!(prefix(Mode::TicketFile), "/u trace --order ticket -o /t --");
        assert_eq!(
            prefix(Mode::NoneDiscard),
            "/u trace --order none --discard --"
        );
        assert_eq!(prefix(Mode::Openmp), "/u openmp --report openmp-report --");
        assert_eq!(prefix(Mode::ValgrindNone), "valgrind --quiet --tool=none");
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for mode in Mode::value_variants() {
            assert_eq!(mode.to_possible_value().unwrap().get_name(), mode.name());
        }
    }
}
