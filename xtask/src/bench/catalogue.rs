//! The programs that are measured: what they are, and how large.
//!
//! `bench/README.md` says what each one stresses.

use super::applications::APPLICATIONS;
use super::inputs::Input;

/// How much the threads of a program share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// One thread, or a program of this machine whose sharing was not designed.
    Alone,
    /// Threads that mostly work on memory of their own.
    Little,
    /// Threads that mostly work on each other's memory.
    Much,
}

/// Where a program comes from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    /// Compiled from `bench/programs`; the source's extension says by what.
    Compiled {
        /// The source file.
        source: &'static str,
        /// Compiler flags.
        flags: &'static [&'static str],
    },
    /// A program of this machine.
    Installed {
        /// Its command.
        command: &'static str,
        /// What to ask it for the path of the real executable, where the command may be
        /// a script of a version manager.
        ask_real_path: Option<&'static [&'static str]>,
    },
}

/// One argument of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Argument {
    /// As it stands.
    Fixed(&'static str),
    /// The size: full, and quick.
    Size(&'static str, &'static str),
    /// A file of `bench/programs`.
    Script(&'static str),
    /// A generated file, of a full and a quick size.
    Generated(Input, u32, u32),
    /// A generated file with a word before it: `.read FILE`.
    GeneratedAfter(&'static str, Input, u32, u32),
    /// A program of this machine: its path.
    Installed(&'static str),
    /// The folder in which one of these files is: what a distribution does not put on `PATH`.
    FolderOf(&'static [&'static str]),
    /// A program compiled from `bench/programs`: its path.
    Program(&'static str),
    /// The folder of the classes compiled from a file of `bench/programs`.
    Classes(&'static str),
    /// A folder for what the program leaves.
    Folder(&'static str),
}

/// A program that is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    /// Its name in tables and filters.
    pub(crate) name: &'static str,
    /// How much its threads share.
    pub(crate) sharing: Sharing,
    /// Where it comes from.
    pub(crate) origin: Origin,
    /// Its arguments.
    pub(crate) arguments: &'static [Argument],
    /// For an application: what `run` may cost over native, which is all that is measured.
    pub(crate) run_limit: Option<f64>,
}

impl Program {
    /// Whether it is one of the applications of [`super::applications`].
    pub(crate) fn is_application(&self) -> bool {
        self.run_limit.is_some()
    }

    /// Whether it is an OpenMP program.
    pub(crate) fn uses_openmp(&self) -> bool {
        matches!(self.origin, Origin::Compiled { flags, .. } if flags.contains(&"-fopenmp"))
    }
}

use Argument::{Fixed, Generated, GeneratedAfter, Script, Size};
use Sharing::{Alone, Little, Much};

const OPENMP: &[&str] = &["-O2", "-fopenmp"];
const POSIX_THREADS: &[&str] = &["-O2", "-pthread"];
const PLAIN: &[&str] = &["-O2"];
const SCALAR_THREADS: &[&str] = &["-O2", "-fno-tree-vectorize", "-pthread"];
const VECTOR_THREADS: &[&str] = &["-O3", "-ffast-math", "-mavx2", "-mfma", "-pthread"];

/// Those whose work is to interpret programs; some limits are of each of them.
pub(crate) const INTERPRETERS: &[&str] = &["interpreter", "python3", "perl", "node"];

/// All programs, in the order of the tables: these, and behind them the applications.
pub(crate) fn all() -> impl Iterator<Item = &'static Program> {
    PROGRAMS.iter().chain(APPLICATIONS)
}

/// What is measured in all modes.
const PROGRAMS: &[Program] = &[
    compiled(
        "stencil2d",
        Little,
        "stencil2d.c",
        OPENMP,
        &[Size("1500", "300")],
    ),
    compiled(
        "stencil3d",
        Little,
        "stencil3d.f90",
        OPENMP,
        &[Size("800", "200")],
    ),
    compiled(
        "conjugate_gradient",
        Little,
        "conjugate_gradient.c",
        OPENMP,
        &[Size("2500", "500")],
    ),
    compiled(
        "embarrassingly_parallel",
        Little,
        "embarrassingly_parallel.c",
        OPENMP,
        &[Size("6000", "1000")],
    ),
    compiled(
        "fine_grained",
        Much,
        "fine_grained.c",
        OPENMP,
        &[Size("25000", "4000")],
    ),
    compiled(
        "black_scholes",
        Little,
        "black_scholes.c",
        SCALAR_THREADS,
        &[Size("350", "80")],
    ),
    compiled(
        "black_scholes_vector",
        Little,
        "black_scholes.c",
        VECTOR_THREADS,
        &[Size("1200", "250")],
    ),
    compiled(
        "private_phases",
        Little,
        "private_phases.c",
        POSIX_THREADS,
        &[Size("2000", "400")],
    ),
    compiled(
        "mutex_pipeline",
        Much,
        "mutex_pipeline.c",
        POSIX_THREADS,
        &[Size("2500000", "400000")],
    ),
    compiled(
        "contended_counter",
        Much,
        "contended_counter.c",
        POSIX_THREADS,
        &[Size("20000000", "4000000")],
    ),
    compiled(
        "false_sharing",
        Much,
        "false_sharing.c",
        POSIX_THREADS,
        &[Size("60000000", "15000000")],
    ),
    compiled(
        "lockfree_queue",
        Much,
        "lockfree_queue.c",
        POSIX_THREADS,
        &[Size("20000000", "6000000")],
    ),
    compiled(
        "exp_log",
        Alone,
        "exp_log.c",
        PLAIN,
        &[Size("25000", "5000")],
    ),
    compiled(
        "virtual_calls",
        Alone,
        "virtual_calls.cpp",
        PLAIN,
        &[Size("30000", "6000")],
    ),
    compiled(
        "map_sort",
        Alone,
        "map_sort.cpp",
        PLAIN,
        &[Size("50", "10")],
    ),
    compiled(
        "interpreter",
        Alone,
        "interpreter.c",
        PLAIN,
        &[Size("500", "100")],
    ),
    compiled(
        "hash_table",
        Alone,
        "hash_table.c",
        PLAIN,
        &[Size("40000", "8000")],
    ),
    installed(
        "xz",
        &[
            Fixed("-T2"),
            Fixed("--block-size=512KiB"),
            Fixed("-c"),
            Generated(Input::Text, 3, 1),
        ],
    ),
    installed(
        "bzip2",
        &[Fixed("-9"), Fixed("-c"), Generated(Input::Text, 16, 3)],
    ),
    installed(
        "gzip",
        &[Fixed("-9"), Fixed("-c"), Generated(Input::Text, 10, 3)],
    ),
    installed(
        "zstd",
        &[
            Fixed("-19"),
            Fixed("-T2"),
            Fixed("-B512KiB"),
            Fixed("-c"),
            Generated(Input::Text, 3, 1),
        ],
    ),
    installed_elsewhere(
        "python3",
        &["-c", "import sys; print(sys.executable)"],
        &[Script("python_mix.py"), Size("60", "10")],
    ),
    installed(
        "perl",
        &[
            Script("regexes.pl"),
            Generated(Input::Text, 2, 1),
            Size("3", "1"),
        ],
    ),
    installed(
        "g++",
        &[
            Fixed("-std=c++17"),
            Fixed("-O2"),
            Fixed("-S"),
            Fixed("-o"),
            Fixed("-"),
            Generated(Input::CppSource, 3, 1),
        ],
    ),
    installed(
        "sqlite3",
        &[
            Fixed("-batch"),
            Fixed(":memory:"),
            GeneratedAfter(".read ", Input::SqlScript, 30, 16),
        ],
    ),
    installed(
        "sort",
        &[
            Fixed("--parallel=2"),
            Fixed("-S64M"),
            Fixed("-k2,2"),
            Fixed("-k1,1n"),
            Generated(Input::Rows, 1000, 250),
        ],
    ),
    installed_elsewhere(
        "node",
        &["-p", "process.execPath"],
        &[Script("node_mix.js"), Size("120", "20")],
    ),
];

const fn compiled(
    name: &'static str,
    sharing: Sharing,
    source: &'static str,
    flags: &'static [&'static str],
    arguments: &'static [Argument],
) -> Program {
    Program {
        name,
        sharing,
        origin: Origin::Compiled { source, flags },
        arguments,
        run_limit: None,
    }
}

const fn installed(name: &'static str, arguments: &'static [Argument]) -> Program {
    let origin = Origin::Installed {
        command: name,
        ask_real_path: None,
    };
    Program {
        name,
        sharing: Alone,
        origin,
        arguments,
        run_limit: None,
    }
}

const fn installed_elsewhere(
    name: &'static str,
    question: &'static [&'static str],
    arguments: &'static [Argument],
) -> Program {
    let origin = Origin::Installed {
        command: name,
        ask_real_path: Some(question),
    };
    Program {
        name,
        sharing: Alone,
        origin,
        arguments,
        run_limit: None,
    }
}
