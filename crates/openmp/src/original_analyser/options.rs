//! The original's options, with their rules: common ones stand before the mode, modes exclude
//! each other, and without one the traces are analysed.

use super::selection::Selection;

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// `-analize`: print the protocol.
    Analyse,
    /// `-analize-with-traces[=name]`: and write readable traces.
    AnalyseWithTraces {
        /// The first part of the traces' names.
        name: String,
    },
    /// `-make-all-traces[=name]`: write readable traces.
    MakeAllTraces {
        /// The first part of the traces' names.
        name: String,
    },
    /// `-make-trace file`: of one file.
    MakeTrace {
        /// The file.
        file: String,
        /// `event=n`: print that event alone.
        event: Option<usize>,
    },
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What to do.
    pub mode: Mode,
    /// What counts.
    pub selection: Selection,
}

/// Which rule was broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// No such option.
    #[error("there is no option {0}")]
    Unknown(String),
    /// Two modes.
    #[error("{0} and another mode cannot be asked for at once")]
    TwoModes(String),
    /// A common option after the mode.
    #[error("{0} must stand before what is to be done")]
    TooLate(String),
    /// Not a number, or no list of numbers.
    #[error("{0}: numbers are wanted, with commas between them")]
    NotNumbers(String),
    /// `-make-trace` needs a file.
    #[error("-make-trace needs the name of a file")]
    NoFile,
    /// `event=` belongs to `-make-trace`.
    #[error("event= is only for -make-trace")]
    EventWithoutTrace,
}

/// Traces are called so where nothing else is said.
const DEFAULT_NAME: &str = "trace";

impl Options {
    /// Whether a word is one of the original's options.
    #[must_use]
    pub fn is_option(word: &str) -> bool {
        let starts = [
            "-make-",
            "-analize",
            "-main-thread=",
            "-no-events=",
            "-no-intervals=",
            "-intervals=",
        ];
        starts.iter().any(|start| word.starts_with(start))
    }

    /// Reads the options.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn parse(words: &[String]) -> Result<Options, OptionsError> {
        let mut selection = Selection::default();
        let mut mode: Option<Mode> = None;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (key, value) = match word.split_once('=') {
                Some((key, value)) => (key, Some(value)),
                None => (word.as_str(), None),
            };
            let name = || value.unwrap_or(DEFAULT_NAME).to_owned();
            let new_mode = match key {
                "-analize" => Mode::Analyse,
                "-analize-with-traces" => Mode::AnalyseWithTraces { name: name() },
                "-make-all-traces" => Mode::MakeAllTraces { name: name() },
                "-make-trace" => Mode::MakeTrace {
                    file: words.next().ok_or(OptionsError::NoFile)?.clone(),
                    event: None,
                },
                "event" => match &mut mode {
                    Some(Mode::MakeTrace { event, .. }) => {
                        *event = Some(one_number(word, value)?);
                        continue;
                    }
                    _ => return Err(OptionsError::EventWithoutTrace),
                },
                // It belongs to the analysis, and may stand before it or after.
                "-main-thread" => {
                    selection.main_thread = Some(one_number(word, value)? as u64);
                    continue;
                }
                "-no-events" | "-no-intervals" | "-intervals" => {
                    if mode.is_some() {
                        return Err(OptionsError::TooLate(word.clone()));
                    }
                    let list = match key {
                        "-no-events" => &mut selection.no_events,
                        "-no-intervals" => &mut selection.no_intervals,
                        _ => &mut selection.intervals,
                    };
                    list.extend(numbers(word, value)?);
                    continue;
                }
                _ => return Err(OptionsError::Unknown(word.clone())),
            };
            if mode.replace(new_mode).is_some() {
                return Err(OptionsError::TwoModes(word.clone()));
            }
        }
        Ok(Options {
            mode: mode.unwrap_or(Mode::Analyse),
            selection,
        })
    }
}

fn numbers(word: &str, value: Option<&str>) -> Result<Vec<usize>, OptionsError> {
    let parts = value
        .unwrap_or("")
        .split(',')
        .map(|part| part.trim().parse());
    parts
        .collect::<Result<_, _>>()
        .map_err(|_| OptionsError::NotNumbers(word.to_owned()))
}

fn one_number(word: &str, value: Option<&str>) -> Result<usize, OptionsError> {
    match numbers(word, value)?.as_slice() {
        [number] => Ok(*number),
        _ => Err(OptionsError::NotNumbers(word.to_owned())),
    }
}
