//! Programs that end abruptly, fork, or have no OpenMP; and files that are no recordings.

use std::path::{Path, PathBuf};

use libtest_mimic::Trial;

use crate::command::{Compiler, Verdict, build, check, json, openmp, programs, trial};

/// All of them.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        let name = |test: &str| format!("troubled::{test}::{}", compiler.command());
        trials.push(trial(name("killed_in_a_region"), move || killed(compiler)));
        trials.push(trial(name("forks"), move || forks(compiler)));
        trials.push(trial(name("cancels"), move || cancels(compiler)));
        trials.push(trial(name("kept_and_read_again"), move || kept(compiler)));
    }
    trials.push(trial("troubled::no_openmp".to_owned(), no_openmp));
    trials.push(trial("troubled::no_program".to_owned(), no_program));
    trials.push(trial(
        "troubled::damaged_recording".to_owned(),
        damaged_recording,
    ));
    trials
}

fn program(name: &str, compiler: Compiler) -> Result<String, Verdict> {
    let source = programs().join("troubled").join(name);
    build(&source, compiler, &[]).map(|path| path.to_string_lossy().into_owned())
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("openmp")
        .join(name)
}

/// What was counted until a SIGKILL is there, what was open is closed at the end, and the
/// status is the program's.
fn killed(compiler: Compiler) -> Result<(), Verdict> {
    let program = program("killed.c", compiler)?;
    let output = openmp(&["--json", &program]);
    check(output.status.code() == Some(128 + 9), || {
        format!("{:?}", output.status)
    })?;
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    check(talk.contains("did not end in the ordinary way"), || talk)?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| Verdict::Wrong(error.to_string()))?;
    // Two threads work for 0.2 s, then one of them for 0.3 s while the other waits.
    let productive = report["productive"].as_f64().unwrap_or(0.0);
    let barrier = report["losses"]["barrier"].as_f64().unwrap_or(0.0);
    check((0.6..1.0).contains(&productive), || {
        format!("productive {productive}")
    })?;
    check((0.2..0.6).contains(&barrier), || {
        format!("barrier {barrier}")
    })
}

/// A child that uses OpenMP itself has a record of its own.
fn forks(compiler: Compiler) -> Result<(), Verdict> {
    let report = json(&[&program("forks.c", compiler)?])?;
    let processes = report["processes"].as_array().map_or(0, Vec::len);
    check(processes == 2, || {
        format!("{processes} processes are reported")
    })
}

fn cancels(compiler: Compiler) -> Result<(), Verdict> {
    let report = json(&[
        "env",
        "OMP_CANCELLATION=true",
        &program("cancels.c", compiler)?,
    ])?;
    let cancelled = report["processes"][0]["cancelled"].as_u64().unwrap_or(0);
    check(cancelled > 0, || "no cancellation is reported".to_owned())?;
    let (total, parts) = (report["total"].as_f64(), ["productive", "lost", "idle"]);
    let sum: f64 = parts.iter().filter_map(|part| report[part].as_f64()).sum();
    check(
        total.is_some_and(|total| (total - sum).abs() < 1e-6),
        || format!("{total:?}, {sum}"),
    )
}

/// A recording says the same when it is read again; it compares with itself as equal.
fn kept(compiler: Compiler) -> Result<(), Verdict> {
    let program = program("forks.c", compiler)?;
    let file = scratch(&format!("kept-{}.recording", compiler.command()));
    let timeline = scratch(&format!("timeline-{}.json", compiler.command()));
    let (file, timeline) = (file.to_string_lossy(), timeline.to_string_lossy());
    let first = json(&[
        "--output",
        &file,
        "--timeline",
        &timeline,
        "--by",
        "construct",
        &program,
    ])?;
    let again = json(&["--by", "construct", &file])?;
    check(first == again, || "the two reports differ".to_owned())?;
    let text = std::fs::read(&*timeline).map_err(|error| Verdict::Wrong(error.to_string()))?;
    let events: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| Verdict::Wrong(error.to_string()))?;
    let spans = events["traceEvents"].as_array().into_iter().flatten();
    let spans = spans.filter(|event| event["ph"] == "X").count();
    check(spans >= 4, || format!("{spans} spans are in the time line"))?;
    let compared = json(&["--compare", &file, &file])?;
    check(compared["speed_up"].as_f64() == Some(1.0), || {
        compared["speed_up"].to_string()
    })
}

fn no_openmp() -> Result<(), Verdict> {
    let output = openmp(&["true"]);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    check(
        output.status.code() == Some(125) && talk.contains("OpenMP"),
        || talk,
    )
}

fn no_program() -> Result<(), Verdict> {
    let output = openmp(&["./no-such-program"]);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    check(
        output.status.code() == Some(127) && talk.contains("no-such-program"),
        || talk,
    )
}

fn damaged_recording() -> Result<(), Verdict> {
    let file = scratch("damaged.recording");
    let write = |text: &[u8]| {
        std::fs::create_dir_all(scratch(""))
            .and_then(|()| std::fs::write(&file, text))
            .map_err(|error| Verdict::Wrong(error.to_string()))
    };
    for text in [
        &b"unspool openmp recording 1\n\x28\xb5"[..],
        b"unspool openmp recording 7\n",
    ] {
        write(text)?;
        let output = openmp(&[&file.to_string_lossy()]);
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        check(
            output.status.code() == Some(125) && talk.contains("damaged.recording"),
            || talk,
        )?;
    }
    Ok(())
}
