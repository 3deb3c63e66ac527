//! The options of the original analyser: its traces, its protocol, its readable traces.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;
use unspool_openmp::original_analyser::{
    Analysis, Mode, Options, Selection, Totals, readable_trace,
};
use unspool_openmp_record::original::{ContextStrings, ThreadTrace, run_and_thread};

use crate::commands::print_result;
use crate::exit_status;
use crate::failure::{Failure, warn};

/// Whether the words are meant for the original analyser.
pub(super) fn is_meant(words: &[OsString]) -> bool {
    words
        .first()
        .and_then(|word| word.to_str())
        .is_some_and(Options::is_option)
}

/// Does what the original's options ask for.
pub(super) fn carry_out(words: &[OsString], strings: Option<&Path>) -> Result<u8, Failure> {
    let words: Vec<String> = words
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let options = Options::parse(&words)?;
    let mut input = Input::new(strings.unwrap_or(Path::new("cstrings.csf")))?;
    let selection = &options.selection;
    match &options.mode {
        Mode::Analyse => {
            let traces = input.traces("trace")?;
            input.print_protocol(&traces, selection)?;
        }
        Mode::AnalyseWithTraces { name } => {
            let traces = input.traces(name)?;
            input.write_readable(&traces, selection)?;
            input.print_protocol(&traces, selection)?;
        }
        Mode::MakeAllTraces { name } => {
            let traces = input.traces(name)?;
            input.write_readable(&traces, selection)?;
        }
        Mode::MakeTrace { file, event } => {
            let path = PathBuf::from(file);
            let traces = input.traces_beside(&path)?;
            let is_it =
                |(other, _): &&(PathBuf, ThreadTrace)| other.file_name() == path.file_name();
            let (_, trace) = traces.iter().find(is_it).ok_or_else(|| {
                Failure::new(format!("{file} is no file"))
                    .with_help("give one of the traces that the instrumented program has left")
            })?;
            intervals_are_there([trace], selection)?;
            let totals = Totals::of(traces.iter().map(|(_, trace)| trace));
            match event {
                None => input.write_readable_of(&path, trace, &totals, selection)?,
                Some(event) => {
                    let text =
                        readable_trace(trace, &totals, &input.strings, selection, Some(*event));
                    if text.is_empty() {
                        return Err(Failure::new(format!("{file} has no event {event}")));
                    }
                    print_result(text.as_bytes())?;
                }
            }
        }
    }
    Ok(match input.is_damaged {
        true => exit_status::INPUT_DAMAGED,
        false => exit_status::SUCCESS,
    })
}

/// Fails where an interval is wanted that the traces do not have.
fn intervals_are_there<'trace>(
    traces: impl IntoIterator<Item = &'trace ThreadTrace>,
    selection: &Selection,
) -> Result<(), Failure> {
    let mut missing = selection.intervals.clone();
    for trace in traces {
        let unknown = selection.unknown_intervals(trace);
        missing.retain(|number| unknown.contains(number));
    }
    match missing.first() {
        None => Ok(()),
        Some(number) => {
            let failure = Failure::new(format!("-intervals={number}: no interval has this number"));
            Err(failure.with_help(
                "numbers are those that a readable trace begins its lines with: -make-all-traces",
            ))
        }
    }
}

struct Input {
    strings: ContextStrings,
    is_damaged: bool,
}

impl Input {
    fn new(path: &Path) -> Result<Input, Failure> {
        let text = read(path)?;
        let (strings, problems) = ContextStrings::parse(&text);
        for (line, problem) in &problems {
            warn(format_args!("{}: line {line}: {problem}", path.display()));
        }
        let is_damaged = !problems.is_empty();
        Ok(Input {
            strings,
            is_damaged,
        })
    }

    fn trace(&mut self, path: &Path) -> Result<ThreadTrace, Failure> {
        let (trace, problems) = ThreadTrace::parse(&read(path)?);
        for problem in &problems {
            warn(format_args!("{}: {problem}", path.display()));
            self.is_damaged = true;
        }
        Ok(trace)
    }

    /// All traces of a run in the current folder, by their numbers.
    fn traces(&mut self, run: &str) -> Result<Vec<(PathBuf, ThreadTrace)>, Failure> {
        self.traces_in(Path::new(""), run)
    }

    /// A trace, and the others of its run. A file with another name than traces have stands alone.
    fn traces_beside(&mut self, path: &Path) -> Result<Vec<(PathBuf, ThreadTrace)>, Failure> {
        let name = path.file_name().and_then(|name| name.to_str());
        match (path.parent(), name.and_then(run_and_thread)) {
            (Some(folder), Some((run, _))) => self.traces_in(folder, run),
            _ => Ok(vec![(path.to_owned(), self.trace(path)?)]),
        }
    }

    fn traces_in(
        &mut self,
        folder: &Path,
        run: &str,
    ) -> Result<Vec<(PathBuf, ThreadTrace)>, Failure> {
        // The parent of a bare name is empty.
        let listed = match folder == Path::new("") {
            true => Path::new("."),
            false => folder,
        };
        let context = || format!("cannot read the folder {}", listed.display());
        let mut found: Vec<(u64, PathBuf)> = Vec::new();
        for entry in std::fs::read_dir(listed).with_context(context)? {
            let file = entry.with_context(context)?.file_name();
            let named = file.to_str().and_then(run_and_thread);
            if let Some((_, thread)) = named.filter(|(name, _)| *name == run) {
                found.push((thread, folder.join(&file)));
            }
        }
        if found.is_empty() {
            return Err(Failure::new(format!("no traces are here: {run}.N.mtr"))
                .with_help("run the instrumented program in this folder first"));
        }
        found.sort();
        found
            .into_iter()
            .map(|(_, path)| Ok((path.clone(), self.trace(&path)?)))
            .collect()
    }

    fn print_protocol(
        &self,
        traces: &[(PathBuf, ThreadTrace)],
        selection: &Selection,
    ) -> Result<(), Failure> {
        let traces: Vec<ThreadTrace> = traces.iter().map(|(_, trace)| trace.clone()).collect();
        if let Some(wanted) = selection.main_thread
            && traces.iter().all(|trace| trace.thread != wanted)
        {
            let known: Vec<String> = traces.iter().map(|one| one.thread.to_string()).collect();
            return Err(
                Failure::new(format!("-main-thread={wanted}: no trace is of this thread"))
                    .with_help(format!("traces are of the threads {}", known.join(", "))),
            );
        }
        intervals_are_there(selection.master(&traces), selection)?;
        let analysis = Analysis::new(&traces, &self.strings, selection);
        print_result(analysis.to_string().as_bytes())
    }

    /// Writes each readable trace beside its trace, as `.rtr`.
    fn write_readable(
        &self,
        traces: &[(PathBuf, ThreadTrace)],
        selection: &Selection,
    ) -> Result<(), Failure> {
        let all = || traces.iter().map(|(_, trace)| trace);
        intervals_are_there(all(), selection)?;
        let totals = Totals::of(all());
        for (path, trace) in traces {
            self.write_readable_of(path, trace, &totals, selection)?;
        }
        Ok(())
    }

    fn write_readable_of(
        &self,
        path: &Path,
        trace: &ThreadTrace,
        totals: &Totals,
        selection: &Selection,
    ) -> Result<(), Failure> {
        let path = path.with_extension("rtr");
        let text = readable_trace(trace, totals, &self.strings, selection, None);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(())
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
