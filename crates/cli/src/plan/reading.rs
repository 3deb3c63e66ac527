//! What is to be read, and where the result goes.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::Context;
use unspool_report::PendingFile;

use crate::arguments::{ExportArguments, FormatChoice, MergeArguments, ProgressChoice};
use crate::failure::Failure;

/// Where a text or binary result goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// Standard output.
    StandardOutput,
    /// This file.
    File(PathBuf),
}

impl Destination {
    /// What `-o` means.
    fn new(typed: Option<PathBuf>) -> Destination {
        match typed {
            Some(path) if path != Path::new("-") => Destination::File(path),
            _ => Destination::StandardOutput,
        }
    }

    /// Where the description of the trace goes: where the user wants it, or beside a plain file.
    fn description(&self, named: Option<PathBuf>) -> Option<PathBuf> {
        let Destination::File(path) = self else {
            return named;
        };
        let is_plain = path.metadata().map_or(true, |facts| facts.is_file());
        named.or_else(|| {
            let mut beside = path.clone().into_os_string();
            beside.push(".trace.json");
            is_plain.then(|| beside.into())
        })
    }

    /// Opens it so that a file has its name only when it is whole. The file is unbuffered: whoever
    /// writes brings a large buffer.
    pub(crate) fn open(&self) -> Result<PendingFile, Failure> {
        match self {
            Destination::StandardOutput => Ok(io::stdout()
                .as_fd()
                .try_clone_to_owned()
                .map(|own| PendingFile::written_at_once(File::from(own)))
                .context("cannot write to standard output")?),
            Destination::File(path) => Ok(PendingFile::create(path)
                .with_context(|| format!("cannot create {}", path.display()))?),
        }
    }
}

/// Where a stream comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    /// Standard input.
    StandardInput,
    /// This file or FIFO.
    File(PathBuf),
}

impl std::fmt::Display for Input {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Input::StandardInput => formatter.write_str("standard input"),
            Input::File(path) => path.display().fmt(formatter),
        }
    }
}

impl Input {
    /// Opens it, unbuffered.
    pub(crate) fn open(&self) -> Result<File, Failure> {
        match self {
            Input::StandardInput if io::stdin().is_terminal() => {
                Err(Failure::new("standard input is a terminal, not a trace")
                    .with_help("unspool merge FILE"))
            }
            Input::StandardInput => Ok(io::stdin()
                .as_fd()
                .try_clone_to_owned()
                .map(File::from)
                .context("cannot read standard input")?),
            Input::File(path) => {
                Ok(File::open(path).with_context(|| format!("cannot open {self}"))?)
            }
        }
    }
}

/// An export format, with what only this format needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExportFormat {
    /// The text format, with or without times.
    Tsv {
        /// Whether each line starts with its time.
        times: bool,
    },
    /// CSV.
    Csv,
    /// JSON lines.
    Json,
    /// Parquet files, the names of which start so.
    Parquet {
        /// The part of the names before `.accesses.parquet`, `.events.parquet` and so on.
        prefix: PathBuf,
    },
    /// Parquet files, partitioned by process, thread and time.
    DataSet {
        /// The folder with the tables.
        folder: PathBuf,
    },
    /// Nothing is written.
    None,
}

/// A trace to be converted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExportPlan {
    /// The trace.
    pub(crate) input: PathBuf,
    /// The format.
    pub(crate) format: ExportFormat,
    /// Where it goes (not for Parquet).
    pub(crate) destination: Destination,
    /// Where what the lines do not say goes (only for TSV and CSV).
    pub(crate) description: Option<PathBuf>,
    /// Whether the threads are merged in order of time.
    pub(crate) ordered: bool,
    /// Whether the trace is read to its end although it is still being written.
    pub(crate) follow: bool,
    /// Whether to say how far it has come.
    pub(crate) progress: ProgressChoice,
}

impl TryFrom<ExportArguments> for ExportPlan {
    type Error = Failure;

    fn try_from(typed: ExportArguments) -> Result<ExportPlan, Failure> {
        if typed.without_time && typed.format != FormatChoice::Tsv {
            return Err(Failure::new("--without-time is for --format tsv only")
                .with_help("choose columns where the file is read, or use --format tsv"));
        }
        if typed.partitioned && typed.format != FormatChoice::Parquet {
            return Err(Failure::new("--partitioned is for --format parquet only"));
        }
        let is_parquet = typed.format == FormatChoice::Parquet;
        if typed.follow && is_parquet {
            return Err(Failure::new("--follow is for --format tsv, csv and json only").with_help(
                "no reader can use a Parquet file before its end: convert the trace when it is whole",
            ));
        }
        let is_plain_text = matches!(typed.format, FormatChoice::Tsv | FormatChoice::Csv);
        if typed.description.is_some() && !is_plain_text {
            return Err(
                Failure::new("--description is for --format tsv and csv only").with_help(
                    "json has the same in its first line, and parquet in each table's metadata",
                ),
            );
        }
        let format = match typed.format {
            FormatChoice::Tsv => ExportFormat::Tsv {
                times: !typed.without_time,
            },
            FormatChoice::Csv => ExportFormat::Csv,
            FormatChoice::Json => ExportFormat::Json,
            FormatChoice::None => ExportFormat::None,
            FormatChoice::Parquet => {
                if typed.output.as_deref() == Some(Path::new("-")) {
                    return Err(Failure::new(
                        "Parquet makes several files, so it cannot go to standard output",
                    )
                    .with_help(
                        "name them with -o OUT: OUT.accesses.parquet, OUT.events.parquet and so on",
                    ));
                }
                let prefix = typed.output.clone().unwrap_or_else(|| typed.input.clone());
                match typed.partitioned {
                    true => ExportFormat::DataSet { folder: prefix },
                    false => ExportFormat::Parquet { prefix },
                }
            }
        };
        let destination = Destination::new(typed.output);
        let description = destination.description(typed.description);
        Ok(ExportPlan {
            input: typed.input,
            format,
            destination,
            description: description.filter(|_| is_plain_text),
            ordered: typed.ordered,
            follow: typed.follow,
            progress: typed.progress,
        })
    }
}

/// A stream to be put in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MergePlan {
    /// Where the trace comes from.
    pub(crate) input: Input,
    /// Where the ordered text goes.
    pub(crate) destination: Destination,
    /// Where what the lines of a binary trace do not say goes.
    pub(crate) description: Option<PathBuf>,
    /// Whether each line keeps its time.
    pub(crate) keep_time: bool,
    /// Whether the trace is read to its end although it is still being written.
    pub(crate) follow: bool,
    /// Whether to say how far it has come.
    pub(crate) progress: ProgressChoice,
}

impl From<MergeArguments> for MergePlan {
    fn from(typed: MergeArguments) -> MergePlan {
        let destination = Destination::new(typed.output);
        MergePlan {
            input: match typed.input {
                Some(path) if path != Path::new("-") => Input::File(path),
                _ => Input::StandardInput,
            },
            description: destination.description(typed.description),
            destination,
            keep_time: typed.keep_time,
            follow: typed.follow,
            progress: typed.progress,
        }
    }
}
