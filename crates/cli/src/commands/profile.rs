//! `unspool profile`: where does the time go?

mod by_ranks;
mod observe;
mod output;
mod shown;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;
use unspool_profile::{Expectation, Metric, NamedPaths, Profile, Scaling, View, export};
use unspool_profile_record::{ReadError, Recording, merge};
use unspool_sampler::EventChoice;
use unspool_sampler::perf_data::{self, PerfDataError};

use self::output::{Output, named};
use self::shown::{Beside, shown};
use super::standard_output::print_result;
use crate::arguments::{ProfileArguments, ScalingChoice, ViewChoice};
use crate::exit_status;
use crate::failure::{Failure, warn};
use crate::users_cache;

/// Bytes that tell a recording from a program.
const START_BYTES: u64 = 64;

/// Runs a program and reports, or reports on what was recorded before.
pub(crate) fn profile(typed: &ProfileArguments) -> Result<u8, Failure> {
    tell_metrics_apart(&typed.metric)?;
    tell_events_apart(&typed.event)?;
    if observes(typed) {
        let waits = typed.off_cpu.then_some(WAITS);
        let events = typed.event.iter().map(EventChoice::name);
        know_events(&typed.metric, events.chain(waits))?;
    }
    if typed.by_ranks {
        return by_ranks::profile(typed);
    }
    let output = typed.output.as_deref().map(named).transpose()?;
    let (recording, status) = gather(&typed.words, typed, output.as_deref())?;
    present(&recording, status, typed)
}

/// Whether something is observed, and no file read.
fn observes(typed: &ProfileArguments) -> bool {
    typed.pid.is_some() || !typed.words.first().is_some_and(is_file)
}

/// What is recorded, or was before, and the status to end with. It is kept in a file, if one is given.
fn gather(
    words: &[OsString],
    typed: &ProfileArguments,
    output: Option<&Path>,
) -> Result<(Recording, u8), Failure> {
    let is_read = |recording| (recording, exit_status::SUCCESS);
    match (typed.pid, words) {
        (Some(pid), _) => observe::process(pid, typed, output).map(is_read),
        (None, [file]) if is_of_perf(Path::new(file)) => {
            import(Path::new(file), output).map(is_read)
        }
        (None, [file]) if is_recording(Path::new(file)) => read(Path::new(file)).map(is_read),
        (None, files)
            if files.len() > 1 && files.iter().all(|file| is_recording(Path::new(file))) =>
        {
            merged(files, output).map(is_read)
        }
        (None, [file, behind, ..])
            if is_recording(Path::new(file)) || is_of_perf(Path::new(file)) =>
        {
            let (file, behind) = (Path::new(file).display(), behind.display());
            let failure = Failure::new(format!(
                "{file} is a recording, and {behind} stands behind it"
            ));
            let help = "options stand before it; several recordings, and nothing else, are merged";
            Err(failure.with_help(help))
        }
        (None, words) => observe::program(words, typed, output),
    }
}

/// Shows and writes what was asked for; gives the status to end with.
fn present(recording: &Recording, status: u8, typed: &ProfileArguments) -> Result<u8, Failure> {
    if !observes(typed) {
        let waits = recording.waits.as_ref().map(|_| WAITS);
        let events = recording.events.values().map(|it| it.event.name.as_str());
        know_events(&typed.metric, events.chain(waits))?;
    }
    let by_source = by_source(recording, typed);
    let recording = by_source.as_ref().unwrap_or(recording);
    let (shown, beside) = shown(recording, typed.show.as_ref())?;
    let paths = paths_of(&shown);
    let mut profile = profile_of(&paths, typed);
    know_beside(&mut profile, &beside, typed);
    profile.problems.iter().for_each(warn);
    // Whoever reads the report may close its end at any time, which ends this process.
    let exported = export(&paths, &profile, typed);
    let shown = show(&paths, &mut profile, &beside, typed);
    let results = [shown].into_iter().chain(exported);
    let mut failures = results.filter_map(Result::err);
    if let Some(first) = failures.next() {
        failures.for_each(|other| {
            other.report();
        });
        return Err(first);
    }
    let is_damaged = !recording.problems.is_empty() || recording.ending.is_none();
    Ok(match status {
        exit_status::SUCCESS if is_damaged => exit_status::INPUT_DAMAGED,
        status => status,
    })
}

/// The paths of a recording with their names. Loops that were found are kept for the next time.
fn paths_of(recording: &Recording) -> NamedPaths<'_> {
    let kept_in = users_cache::directory().map(|caches| caches.join("structure"));
    NamedPaths::keeping(recording, kept_in.as_deref())
}

/// The recording with the call paths that the source has, where the runtime of OpenMP made others of them.
fn by_source(recording: &Recording, typed: &ProfileArguments) -> Option<Recording> {
    let is_wanted = !typed.no_openmp && NamedPaths::may_have_regions(recording);
    is_wanted.then(|| paths_of(recording).source_paths())?
}

/// The profile of some paths, with the metrics that are wanted.
fn profile_of(paths: &NamedPaths<'_>, typed: &ProfileArguments) -> Profile {
    let mut profile = Profile::new(paths);
    profile.metrics.clone_from(&typed.metric);
    profile
}

/// What formulas call the time in which threads waited.
const WAITS: &str = "off-cpu";

/// Whether a word names a file to be read, and no program.
fn is_file(word: &OsString) -> bool {
    is_recording(Path::new(word)) || is_of_perf(Path::new(word))
}

/// Formulas are about what is recorded.
fn know_events<'a>(
    metrics: &[Metric],
    recorded: impl Iterator<Item = &'a str>,
) -> Result<(), Failure> {
    let recorded: Vec<&str> = recorded.collect();
    for metric in metrics {
        if let Some(missing) = metric.events().find(|name| !recorded.contains(name)) {
            let name = metric.name();
            let failure = Failure::new(format!("{name} is about {missing}, which is not recorded"));
            let option = match missing {
                WAITS => "--off-cpu".to_owned(),
                event => format!("--event {event}"),
            };
            return Err(failure.with_help(format!("{option}, with a program or --pid, records it")));
        }
    }
    Ok(())
}

/// Has metrics know of what else was sampled, as far as they are about it.
fn know_beside(profile: &mut Profile, beside: &Beside, typed: &ProfileArguments) {
    let is_meant = |name: &str| {
        typed
            .metric
            .iter()
            .any(|it| it.events().any(|it| it == name))
    };
    let profile_of = |recording: &Recording| {
        let paths = paths_of(recording);
        let mut profile = Profile::new(&paths);
        profile.loops = paths.loop_times();
        profile
    };
    let meant: Vec<(&str, Profile)> = beside
        .named()
        .filter(|(name, _)| is_meant(name))
        .map(|(name, recording)| (name, profile_of(recording)))
        .collect();
    let meant: Vec<(&str, &Profile)> = meant.iter().map(|(name, it)| (*name, it)).collect();
    profile.know_events(&meant);
}

/// Shows the report, or writes it to its file, with what belongs behind it.
fn show(
    paths: &NamedPaths<'_>,
    profile: &mut Profile,
    beside: &Beside,
    typed: &ProfileArguments,
) -> Result<(), Failure> {
    let mut missing = None;
    let report = if !typed.baseline.is_empty() {
        compare(profile, typed)?
    } else if typed.json {
        let mut json = to_json(paths, profile, typed);
        let of = |recording: &Recording| {
            let paths = paths_of(recording);
            to_json(&paths, &mut profile_of(&paths, typed), typed)
        };
        json["off_cpu"] = beside.waits.as_ref().map_or(Value::Null, of);
        json["events"] = beside.events.iter().map(of).collect();
        serde_json::to_string_pretty(&json)? + "\n"
    } else if typed.folded {
        profile.to_folded()
    } else {
        let mut text = to_text(paths, profile, typed);
        for recording in beside.waits.iter().chain(&beside.events) {
            let paths = paths_of(recording);
            text.push('\n');
            text.push_str(&to_text(&paths, &mut profile_of(&paths, typed), typed));
        }
        for function in &typed.annotate {
            match paths.annotate(function) {
                Ok(code) => text.push_str(&code),
                Err(problem) => missing = missing.or(Some(problem)),
            }
        }
        text
    };
    match &typed.report {
        Some(path) => keep(path, report.as_bytes())?,
        None => print_result(report.as_bytes())?,
    }
    match missing {
        None => Ok(()),
        Some(problem) => Err(Failure::from(anyhow::Error::msg(problem))
            .with_help("--view flat has the names of functions as the report tells them")),
    }
}

fn to_json(paths: &NamedPaths<'_>, profile: &mut Profile, typed: &ProfileArguments) -> Value {
    profile.loops = paths.loop_times();
    let mut json = profile.to_json();
    if typed.time_line {
        json["time_line"] = paths.time_line().to_json();
    }
    json
}

fn to_text(paths: &NamedPaths<'_>, profile: &mut Profile, typed: &ProfileArguments) -> String {
    let views = views(typed);
    if views.contains(&View::Flat) {
        profile.loops = paths.loop_times();
    }
    let mut text = profile.to_text(&views);
    if typed.time_line {
        text.push_str(&paths.time_line().to_text());
    }
    text
}

/// Compares a run with smaller ones.
fn compare(run: &Profile, typed: &ProfileArguments) -> Result<String, Failure> {
    let expectation = match typed.scaling {
        ScalingChoice::Strong => Expectation::Strong,
        ScalingChoice::Weak => Expectation::Weak,
    };
    let mut comparisons = Vec::new();
    for path in &typed.baseline {
        let recording = read(path)?;
        let recording = by_source(&recording, typed).unwrap_or(recording);
        let (shown, _) =
            shown(&recording, typed.show.as_ref()).map_err(|failure| failure.in_file(path))?;
        let base = Profile::new(&NamedPaths::new(&shown));
        let named = |problem: &String| warn(format!("{}: {problem}", path.display()));
        base.problems.iter().for_each(named);
        comparisons.push(Scaling::new(expectation, &base, run));
    }
    if typed.json {
        let all: Vec<_> = comparisons.iter().map(Scaling::to_json).collect();
        return Ok(serde_json::to_string_pretty(&all)? + "\n");
    }
    let texts = comparisons.iter().map(|it| it.to_text(&views(typed)));
    Ok(texts.collect::<Vec<_>>().join("\n"))
}

/// Values are told by the names of metrics.
fn tell_metrics_apart(metrics: &[Metric]) -> Result<(), Failure> {
    let mut names = BTreeSet::new();
    match metrics.iter().find(|it| !names.insert(it.name())) {
        None => Ok(()),
        Some(again) => Err(Failure::new(format!(
            "two metrics are called {}: give each a name of its own",
            again.name()
        ))),
    }
}

/// Samples of an event that is there twice cannot be told apart.
fn tell_events_apart(events: &[EventChoice]) -> Result<(), Failure> {
    for (place, event) in events.iter().enumerate() {
        if let Some(first) = events[..place].iter().find(|it| it.is_same(event)) {
            let (first, again) = (first.name(), event.name());
            let problem = format!("{first} and {again} are the same event");
            return Err(Failure::new(problem).with_help("name it once in --event"));
        }
    }
    Ok(())
}

fn keep(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| Failure::cannot_write(path, error))
}

/// A directory with these files, which is made where it is missing.
fn keep_database(directory: &Path, files: &[export::DatabaseFile]) -> Result<(), Failure> {
    for (name, bytes) in files {
        let path = directory.join(name);
        let folder = path.parent().unwrap_or(directory);
        std::fs::create_dir_all(folder).map_err(|error| Failure::cannot_write(folder, error))?;
        keep(&path, bytes)?;
    }
    Ok(())
}

/// Writes what other programs are to read. Where one file cannot be written, the others are.
fn export(
    paths: &NamedPaths<'_>,
    profile: &Profile,
    typed: &ProfileArguments,
) -> [Result<(), Failure>; 7] {
    let flame_graph = |path: &Path| keep(path, &export::flame_graph(profile)?);
    let hatchet = |path: &Path| keep(path, &serde_json::to_vec(&export::hatchet(profile))?);
    let hpctoolkit = |path: &Path| keep_database(path, &export::hpctoolkit(paths));
    let perfetto = |path: &Path| keep(path, &export::perfetto(paths));
    let pprof = |path: &Path| keep(path, &export::pprof(paths)?);
    let firefox = |path: &Path| keep(path, &serde_json::to_vec(&export::firefox(paths))?);
    let speedscope = |path: &Path| keep(path, &serde_json::to_vec(&export::speedscope(paths))?);
    [
        typed.flame_graph.as_deref().map_or(Ok(()), flame_graph),
        typed.hatchet.as_deref().map_or(Ok(()), hatchet),
        typed.hpctoolkit.as_deref().map_or(Ok(()), hpctoolkit),
        typed.perfetto.as_deref().map_or(Ok(()), perfetto),
        typed.pprof.as_deref().map_or(Ok(()), pprof),
        typed.firefox.as_deref().map_or(Ok(()), firefox),
        typed.speedscope.as_deref().map_or(Ok(()), speedscope),
    ]
}

fn views(typed: &ProfileArguments) -> Vec<View> {
    let choices = typed.view.iter();
    choices
        .map(|choice| match choice {
            ViewChoice::Flat => View::Flat,
            ViewChoice::HotPath => View::HotPath,
            ViewChoice::TopDown => View::TopDown,
            ViewChoice::BottomUp => View::BottomUp,
        })
        .collect()
}

/// Whether a file is a recording, or another file of Unspool, which is no program either.
fn is_recording(path: &Path) -> bool {
    Recording::begins(&start_of(path))
}

/// Whether a file is one of `perf record`.
fn is_of_perf(path: &Path) -> bool {
    perf_data::begins(&start_of(path))
}

/// The first bytes of a file; none where it cannot be read.
fn start_of(path: &Path) -> Vec<u8> {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(START_BYTES).read_to_end(&mut start));
    read.map_or(Vec::new(), |_| start)
}

/// Recordings as one.
fn merged(files: &[OsString], output: Option<&Path>) -> Result<Recording, Failure> {
    let mut recordings = Vec::new();
    let mut problems = Vec::new();
    for file in files {
        let recording = read(Path::new(file))?;
        let named = |problem: &String| format!("{}: {problem}", file.display());
        problems.extend(recording.problems.iter().map(named));
        recordings.push(recording);
    }
    let mut output = Output::open(output)?;
    merge(&recordings, &mut output).map_err(anyhow::Error::new)?;
    let mut merged = output.read_again()?;
    merged.problems.extend(problems);
    Ok(merged)
}

/// A recording of what `perf record` has written.
fn import(path: &Path, output: Option<&Path>) -> Result<Recording, Failure> {
    let context = || format!("cannot use {}", path.display());
    let bytes = std::fs::read(path).with_context(context)?;
    let mut output = Output::open(output)?;
    let not_taken =
        perf_data::import(&bytes, observe::header(&[]), &mut output).map_err(|error| {
            let help = match error {
                PerfDataError::NoTime(_) => Some("perf record -e cpu-clock samples CPU time"),
                PerfDataError::Unnamed => Some("perf record --timestamp has them"),
                _ => None,
            };
            let failure = Failure::from(anyhow::Error::new(error).context(context()));
            match help {
                Some(help) => failure.with_help(help),
                None => failure,
            }
        })?;
    let mut recording = output.read_again()?;
    let path = path.display();
    if not_taken.other_samples > 0 {
        let count = not_taken.other_samples;
        warn(format_args!(
            "{path}: {count} samples of other events were left out"
        ));
    }
    if not_taken.is_cut_off {
        let problem = format!("{path} ends in the middle of a record, or perf record was killed");
        recording.problems.push(problem);
    }
    Ok(recording)
}

fn read(path: &Path) -> Result<Recording, Failure> {
    let context = || format!("cannot use {}", path.display());
    let bytes = std::fs::read(path).with_context(context)?;
    Recording::read(&bytes).map_err(|error| {
        let has_others = error == ReadError::NoSamples;
        let failure = Failure::from(anyhow::Error::new(error).context(context()));
        match has_others {
            true => failure.with_help(format!("unspool info {} says what it is", path.display())),
            false => failure,
        }
    })
}
