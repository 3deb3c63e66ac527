//! The ways of running the cases that are compared.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// One way of running a program.
#[derive(Debug, Clone)]
pub struct Way {
    /// What it is called on the command line and in reports.
    pub name: String,
    /// What comes before the program; nothing runs it natively.
    pub prefix: Vec<OsString>,
    /// Microseconds between two signals that the program gets; 0 for none.
    pub interrupt_us: i64,
    /// Whether something is inserted into the code.
    pub instrumented: bool,
    /// Microseconds of processor time after which a case is given up.
    pub patience_us: i64,
}

const NATIVE_PATIENCE_US: i64 = 20_000;
/// The patience with observed cases.
pub const OBSERVED_PATIENCE_US: i64 = 1_000_000;

impl Way {
    /// As the processor and the kernel run it.
    #[must_use]
    pub fn native() -> Way {
        Way {
            name: "native".to_owned(),
            prefix: Vec::new(),
            interrupt_us: 0,
            instrumented: false,
            patience_us: NATIVE_PATIENCE_US,
        }
    }
}

/// Names of ways, and the arguments that `unspool` gets.
const TABLE: &[(&str, &str, i64)] = &[
    ("run", "run", 0),
    ("run-interrupted", "run", 200),
    ("line-atomic", "trace --discard --order line-atomic", 0),
    (
        "line-atomic-interrupted",
        "trace --discard --order line-atomic",
        3000,
    ),
    ("tool", "tool run instruction-count", 0),
    ("tool-interrupted", "tool run instruction-count", 200),
    ("tool-calls", "tool run control-flow", 0),
    ("tool-calls-interrupted", "tool run control-flow", 1000),
    ("none", "trace --discard --order none", 0),
    ("ticket", "trace --discard --order ticket", 0),
    ("timestamp", "trace --discard --order timestamp", 0),
    ("small-granule", "trace --discard --granule 8 --locks 1", 0),
    ("large-granule", "trace --discard --granule 4096", 0),
    ("small-buffer", "trace --discard --buffer 16", 0),
    ("registered-only", "trace --discard --registered-only", 0),
    ("region-only", "trace --discard --roi", 0),
    ("values", "trace --discard --verify", 0),
    ("values-none", "trace --discard --verify --order none", 0),
];

/// The names of all ways, the cheapest and the most used first.
pub fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, ..)| *name)
}

/// The way of this name, with this `unspool`.
#[must_use]
pub fn find(name: &str, unspool: &Path) -> Option<Way> {
    let (name, arguments, interrupt_us) = TABLE.iter().find(|(known, ..)| *known == name)?;
    let mut prefix = vec![PathBuf::from(unspool).into_os_string()];
    prefix.extend(arguments.split(' ').map(OsString::from));
    prefix.push("--".into());
    Some(Way {
        name: (*name).to_owned(),
        prefix,
        interrupt_us: *interrupt_us,
        instrumented: *arguments != "run",
        patience_us: OBSERVED_PATIENCE_US,
    })
}
