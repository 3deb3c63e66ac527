//! How the tests start the command, and what a test says when it fails or cannot run.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Instant;

use libtest_mimic::{Completion, Failed, Trial};
use unspool_guests::{Invocation, Outcome, Requirement, Workshop};

use crate::longest;
use crate::scratch::Scratch;

/// Why a test did not pass.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// The machine lacks something.
    CannotTell(String),
    /// What is wrong, with the commands that show it.
    Wrong(String),
}

impl From<String> for Verdict {
    fn from(problem: String) -> Verdict {
        Verdict::Wrong(problem)
    }
}

impl From<std::io::Error> for Verdict {
    fn from(problem: std::io::Error) -> Verdict {
        Verdict::Wrong(problem.to_string())
    }
}

/// The guests, built under the folder of all build products.
pub(crate) static WORKSHOP: LazyLock<Workshop> = LazyLock::new(|| {
    Workshop::new(&Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("guests"))
});

/// The command under test.
pub(crate) static COMMAND: LazyLock<PathBuf> =
    LazyLock::new(|| match std::env::var_os("UNSPOOL") {
        Some(path) => std::fs::canonicalize(&path).expect("UNSPOOL names a program"),
        None => env!("CARGO_BIN_EXE_unspool").into(),
    });

/// A tool of `crates/tool/examples`, which is built with the tests.
pub(crate) fn example(name: impl AsRef<OsStr>) -> Result<PathBuf, Verdict> {
    // …/release/deps/TEST
    let own = std::env::current_exe()?;
    let release = own.ancestors().nth(2).unwrap_or(&own);
    let built = release.join("examples").join(name.as_ref());
    if built.is_file() {
        return Ok(built);
    }
    Err(Verdict::CannotTell(format!(
        "{} is not built (cargo build --release --examples -p unspool-tool)",
        built.display()
    )))
}

/// Where the tests look for programs: not where a user's own tools may replace them.
pub(crate) const SEARCH_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A test with a folder of its own.
pub(crate) fn trial(
    name: String,
    body: impl FnOnce(&Scratch) -> Result<(), Verdict> + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name.clone(), move || {
        let scratch = Scratch::new(&name).map_err(|problem| Failed::from(problem.to_string()))?;
        let begun = Instant::now();
        let verdict = body(&scratch);
        longest::took(&name, begun.elapsed());
        match verdict {
            Ok(()) => {
                scratch.remove();
                Ok(Completion::Completed)
            }
            Err(Verdict::CannotTell(reason)) => {
                scratch.remove();
                Ok(Completion::ignored_with(reason))
            }
            Err(Verdict::Wrong(problem)) => Err(Failed::from(format!(
                "{problem}\nkept: {}",
                scratch.path().display()
            ))),
        }
    })
}

/// Ends the test as ignored where the machine lacks one of these.
pub(crate) fn require<'a>(
    requirements: impl IntoIterator<Item = &'a Requirement>,
) -> Result<(), Verdict> {
    match requirements
        .into_iter()
        .find_map(Requirement::reason_missing)
    {
        Some(reason) => Err(Verdict::CannotTell(reason)),
        None => Ok(()),
    }
}

/// A run of a program as it is, in the test's folder and in an environment that does not
/// depend on who runs the tests.
pub(crate) fn natively(scratch: &Scratch, command: &[impl AsRef<OsStr>]) -> Invocation {
    Invocation::new(&command[0])
        .arguments(&command[1..])
        .folder(scratch.work())
        .variable("PATH", SEARCH_PATH)
        .variable("LC_ALL", "C")
        .variable("TZ", "UTC")
        .variable("HOME", scratch.work())
        .variable("XDG_CACHE_HOME", scratch.path().join("cache"))
        .variable("TMPDIR", scratch.work())
}

/// `unspool` with these arguments.
pub(crate) fn unspool(scratch: &Scratch, arguments: &[impl AsRef<OsStr>]) -> Invocation {
    natively(scratch, &[COMMAND.as_os_str()]).arguments(arguments)
}

/// `unspool run -- COMMAND`.
pub(crate) fn translated(scratch: &Scratch, command: &[impl AsRef<OsStr>]) -> Invocation {
    unspool(scratch, &["run", "--"]).arguments(command)
}

/// `unspool run --persistent-cache=DIRECTORY -- COMMAND`, with a directory of the test's own.
pub(crate) fn translated_persistently(
    scratch: &Scratch,
    command: &[impl AsRef<OsStr>],
) -> Invocation {
    let directory = scratch.path().join("translations");
    let option = format!("--persistent-cache={}", directory.display());
    unspool(scratch, &["run", &option, "--"]).arguments(command)
}

/// `unspool trace OPTIONS -o FILE -- COMMAND`.
pub(crate) fn traced(
    scratch: &Scratch,
    options: &[&str],
    file: &Path,
    command: &[impl AsRef<OsStr>],
) -> Invocation {
    let mut arguments: Vec<OsString> = vec!["trace".into()];
    arguments.extend(options.iter().map(OsString::from));
    arguments.extend(["-o".into(), file.into(), "--".into()]);
    unspool(scratch, &arguments).arguments(command)
}

/// `unspool verify FILE`, where part of the memory may be written by the kernel or others.
pub(crate) fn verified(scratch: &Scratch, file: &Path) -> Invocation {
    unspool(scratch, &["verify", "--unchecked", "100"]).arguments([file])
}

/// Runs; a problem is described with the command that replays it.
pub(crate) fn run(scratch: &Scratch, invocation: &Invocation) -> Result<Outcome, Verdict> {
    invocation.run(scratch.path()).map_err(|problem| {
        Verdict::Wrong(format!(
            "cannot start: {problem}\nreplay: {}",
            invocation.command_line()
        ))
    })
}

/// Runs and expects success.
pub(crate) fn run_well(scratch: &Scratch, invocation: &Invocation) -> Result<Outcome, Verdict> {
    let outcome = run(scratch, invocation)?;
    if outcome.ending == unspool_guests::Ending::Exited(0) {
        return Ok(outcome);
    }
    Err(wrong("this must succeed", invocation, &outcome))
}

/// What is in a trace, in the order of all threads: each line of its JSON form.
pub(crate) fn exported_in_order(
    scratch: &Scratch,
    file: &Path,
) -> Result<Vec<serde_json::Value>, Verdict> {
    let export = unspool(scratch, &["export", "--ordered", "--format", "json"]).arguments([file]);
    let export = run_well(scratch, &export)?;
    let lines = export.stdout_text();
    let parse = |(place, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|problem| {
            Verdict::Wrong(format!("line {place} is no JSON ({problem}): {line}"))
        })
    };
    lines.lines().enumerate().map(parse).collect()
}

/// A failure: what should be, what was, and how to see it again.
pub(crate) fn wrong(expected: &str, invocation: &Invocation, outcome: &Outcome) -> Verdict {
    Verdict::Wrong(format!(
        "{expected}\nending: {:?}\nstdout: {}\nstderr: {}\nreplay: {}",
        outcome.ending,
        shorten(&outcome.stdout_text()),
        shorten(&outcome.stderr_text()),
        invocation.command_line(),
    ))
}

/// The start and the end of a text that may be long.
pub(crate) fn shorten(text: &str) -> String {
    const KEPT: usize = 1500;
    if text.len() <= 2 * KEPT {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(KEPT);
    let tail = text.ceil_char_boundary(text.len() - KEPT);
    format!(
        "{}\n[{} bytes left out]\n{}",
        &text[..head],
        tail - head,
        &text[tail..]
    )
}
