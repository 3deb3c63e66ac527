//! The ways in which a program is run.

use std::ffi::OsString;
use std::path::Path;

use clap::ValueEnum;
use clap::builder::PossibleValue;

use super::peer::Peer;

/// A way to run a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Under a tool, or with a probe, that comes with the command.
    Tool(Tool),
    /// Under a program of others.
    Peer(Peer),
}

/// A tool or a probe, and the limit on what it costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tool {
    /// The mode's name.
    mode: &'static str,
    /// Its name in `unspool tool list`.
    pub(crate) name: &'static str,
    /// Whether it is a probe, with which the program runs natively.
    pub(crate) is_probe: bool,
    /// What its cost may be.
    pub(crate) limit: ToolLimit,
    /// What it may be with any interpreter, if that is limited.
    pub(crate) interpreter_limit: Option<f64>,
}

/// The most that the mean of a tool's ratios may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ToolLimit {
    /// To native.
    OverNative(f64),
    /// To [`Mode::NOTHING_INSERTED`]: what the same translation takes where a tool has nothing
    /// inserted. `run` translates in another way, and would say something of that instead.
    OverNothing(f64),
    /// It is there to be compared with.
    Unlimited,
}

// Limits are literals, never the result of a computation.
impl Eq for Tool {}

impl Tool {
    const fn new(mode: &'static str, limit: ToolLimit) -> Tool {
        let (_, name) = mode.split_at("tool-".len());
        let is_probe = false;
        Tool {
            mode,
            name,
            is_probe,
            limit,
            interpreter_limit: None,
        }
    }

    const fn with_interpreters(mode: &'static str, limit: ToolLimit, each: f64) -> Tool {
        Tool {
            interpreter_limit: Some(each),
            ..Tool::new(mode, limit)
        }
    }

    /// What it is, in words.
    pub(crate) fn described(self) -> String {
        let kind = if self.is_probe { "probe" } else { "tool" };
        format!("{kind} {}", self.name)
    }

    const fn probe(mode: &'static str, limit: ToolLimit) -> Tool {
        let (_, name) = mode.split_at("probe-".len());
        let is_probe = true;
        Tool {
            mode,
            name,
            is_probe,
            limit,
            interpreter_limit: None,
        }
    }
}

impl ValueEnum for Mode {
    fn value_variants<'a>() -> &'a [Mode] {
        Mode::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

impl Mode {
    /// All of them.
    const ALL: &[Mode] = &[
        Mode::Native,
        Mode::Run,
        Mode::RunPersistent,
        Mode::NoneDiscard,
        Mode::TicketDiscard,
        Mode::TicketFile,
        Mode::LineAtomicDiscard,
        Mode::LineAtomicFile,
        Mode::Openmp,
        Mode::Tool(Mode::TOOLS[0]),
        Mode::Tool(Mode::TOOLS[1]),
        Mode::Tool(Mode::TOOLS[2]),
        Mode::Tool(Mode::TOOLS[3]),
        Mode::Tool(Mode::TOOLS[4]),
        Mode::Tool(Mode::TOOLS[5]),
        Mode::NOTHING_INSERTED,
        Mode::Tool(Mode::TOOLS[7]),
        Mode::Tool(Mode::TOOLS[8]),
        Mode::Peer(Peer::ALL[0]),
        Mode::Peer(Peer::ALL[1]),
        Mode::Peer(Peer::ALL[2]),
        Mode::Peer(Peer::ALL[3]),
        Mode::Peer(Peer::ALL[4]),
        Mode::Peer(Peer::ALL[5]),
        Mode::Peer(Peer::ALL[6]),
        Mode::Peer(Peer::ALL[7]),
    ];

    /// The tools and probes whose cost is limited.
    pub(crate) const TOOLS: [Tool; 9] = [
        Tool::with_interpreters("tool-instruction-count", ToolLimit::OverNative(1.25), 1.7),
        Tool::new("tool-block-count", ToolLimit::OverNative(1.4)),
        Tool::new("tool-edge-profile", ToolLimit::OverNative(1.6)),
        Tool::new("tool-opcode-mix", ToolLimit::OverNative(1.6)),
        Tool::new("tool-address-sum", ToolLimit::OverNative(2.0)),
        Tool::new("tool-call-count", ToolLimit::OverNative(1.5)),
        Tool::new("tool-image-list", ToolLimit::Unlimited),
        Tool::new("tool-malloc-count", ToolLimit::OverNothing(1.05)),
        Tool::probe("probe-malloc-count", ToolLimit::OverNative(1.01)),
    ];

    /// A tool that has nothing inserted.
    pub(crate) const NOTHING_INSERTED: Mode = Mode::Tool(Mode::TOOLS[6]);

    /// What runs when nothing else was asked for, besides native.
    pub(crate) fn usual() -> Vec<Mode> {
        let usual =
            |mode: &Mode| !matches!(mode, Mode::Native | Mode::RunPersistent) && !mode.is_peer();
        Mode::ALL.iter().copied().filter(usual).collect()
    }

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
            Mode::Tool(tool) => tool.mode,
            Mode::Peer(peer) => peer.mode,
        }
    }

    /// Whether it is a peer, which must be installed.
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Mode::Peer(_))
    }

    /// Whether it runs this project's executable.
    pub(crate) fn is_ours(self) -> bool {
        self != Mode::Native && !self.is_peer()
    }

    /// Whether it leaves a trace file.
    pub(crate) fn writes_trace(self) -> bool {
        matches!(self, Mode::TicketFile | Mode::LineAtomicFile)
    }

    /// How often it runs when others run `runs` times.
    pub(crate) fn runs(self, runs: u32) -> u32 {
        match self {
            Mode::Peer(peer) if peer.runs_once => 1,
            _ => runs,
        }
    }
}

/// A column of the measurement: a mode, by one executable.
#[derive(Debug, Clone)]
pub(crate) struct Variant {
    /// How the program runs.
    pub(crate) mode: Mode,
    /// How the observer is started: a build of this project, or a peer with its options.
    pub(crate) observer: Vec<OsString>,
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
            Mode::Native | Mode::Peer(_) => &[],
            Mode::Run | Mode::RunPersistent => &["run"],
            Mode::NoneDiscard => &["trace", "--order", "none", "--discard"],
            Mode::TicketDiscard => &["trace", "--order", "ticket", "--discard"],
            Mode::TicketFile => &["trace", "--order", "ticket", "-o"],
            Mode::LineAtomicDiscard => &["trace", "--order", "line-atomic", "--discard"],
            Mode::LineAtomicFile => &["trace", "--order", "line-atomic", "-o"],
            Mode::Openmp => &["openmp", "--report", "openmp-report"],
            Mode::Tool(tool) if tool.is_probe => &["tool", "run", "--probe"],
            Mode::Tool(_) => &["tool", "run"],
        };
        let mut words = self.observer.clone();
        words.extend(fixed.iter().map(OsString::from));
        if let Mode::Tool(tool) = self.mode {
            words.push(tool.name.into());
        }
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
        prefix_by(&["/u"], mode)
    }

    fn prefix_by(observer: &[&str], mode: Mode) -> String {
        let variant = Variant {
            mode,
            observer: observer.iter().map(OsString::from).collect(),
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
        assert_eq!(prefix_by(&[], Mode::Native), "");
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
        assert_eq!(
            prefix(Mode::Tool(Mode::TOOLS[0])),
            "/u tool run instruction-count --"
        );
        assert_eq!(
            prefix(Mode::Tool(Mode::TOOLS[8])),
            "/u tool run --probe malloc-count --"
        );
        assert_eq!(
            prefix_by(&["qemu-x86_64", "-plugin", "/p"], Mode::Peer(Peer::ALL[4])),
            "qemu-x86_64 -plugin /p"
        );
    }

    #[test]
    fn each_mode_is_found_by_its_name() {
        for mode in Mode::value_variants() {
            assert_eq!(Mode::from_str(mode.name(), false), Ok(*mode));
        }
        let tools = Mode::ALL
            .iter()
            .filter(|mode| matches!(mode, Mode::Tool(_)));
        assert_eq!(tools.count(), Mode::TOOLS.len());
        let peers = Mode::ALL.iter().filter(|mode| mode.is_peer());
        assert_eq!(peers.count(), Peer::ALL.len());
    }
}
