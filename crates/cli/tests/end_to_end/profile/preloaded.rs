//! Libraries of the command's that programs load: where they are kept, and what is left when the
//! command is killed.

use std::path::Path;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use unspool_guests::Ending;

use crate::observer::{COMMAND, Verdict, natively, run, trial, unspool, wrong};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let test = |name: &str, test: fn(&Scratch) -> Result<(), Verdict>| {
        trial(format!("profile::preloaded::{name}"), test)
    };
    vec![
        test("killed_recorder_leaves_nothing", killed_recorder),
        test("folders_that_do_not_fit", unfit_folders),
        test("folder_without_execution", without_execution),
    ]
}

/// A recorder that is killed leaves no file in memory, and a program that goes on does not notice:
/// what it starts finds the library.
fn killed_recorder(scratch: &Scratch) -> Result<(), Verdict> {
    let (slots, said) = (scratch.path().join("slots"), scratch.path().join("said"));
    let script = "test -s \"$UNSPOOL_PROFILE_SLOTS\" || exit 9
        echo \"$UNSPOOL_PROFILE_SLOTS\" >\"$0\"
        kill -9 $PPID
        round=0
        while test -e \"$UNSPOOL_PROFILE_SLOTS\" && test $round -lt 500; do
            sleep 0.01
            round=$((round + 1))
        done
        sleep 0.01 2>\"$1.part\"
        mv \"$1.part\" \"$1\"";
    // A session of its own: what starts the recorder ends all others of its group.
    let shell = ["setsid", "sh", "-c", script];
    let options = [&["profile", "--backend=timer", "--"], &shell[..]].concat();
    let invocation = unspool(scratch, &options).arguments([&slots, &said]);
    let outcome = run(scratch, &invocation)?;
    let start = Instant::now();
    while !said.exists() && start.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let file = std::fs::read_to_string(&slots)?;
    let said = std::fs::read_to_string(&said).unwrap_or_else(|problem| problem.to_string());
    let is_gone = !file.trim().is_empty() && !Path::new(file.trim()).exists();
    match outcome.ending == Ending::Signalled(9) && is_gone && said.is_empty() {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "{:?}, {file:?}: {said}",
            outcome.ending
        ))),
    }
}

/// What loads a library of the command's into a program.
const LOADERS: [&[&str]; 3] = [
    &["profile", "--backend=timer", "--", "true"],
    &["openmp", "true"],
    &["tool", "run", "--probe", "malloc-count", "--", "true"],
];

/// The loader takes no path with a colon or a space: another folder is used, or it is said.
fn unfit_folders(scratch: &Scratch) -> Result<(), Verdict> {
    let folder = |name: &str| {
        let folder = scratch.path().join(name);
        std::fs::create_dir_all(&folder).map(|()| folder)
    };
    let (colon, space, fit) = (folder("a:b")?, folder("a b")?, folder("ab")?);
    for (cache, temporary, is_fit) in [
        (&colon, &space, false),
        (&space, &colon, false),
        (&colon, &fit, true),
        (&fit, &space, true),
    ] {
        for loader in LOADERS {
            let invocation = unspool(scratch, loader)
                .variable("XDG_CACHE_HOME", cache)
                .variable("TMPDIR", temporary);
            let outcome = run(scratch, &invocation)?;
            let said = outcome.stderr_text();
            let is_refused = outcome.ending == Ending::Exited(125)
                && said.contains("LD_PRELOAD takes no path with a colon or a space")
                && said.contains("XDG_CACHE_HOME or TMPDIR");
            if is_refused == is_fit || said.contains("cannot be preloaded") {
                return Err(wrong("a folder must fit", &invocation, &outcome));
            }
        }
    }
    Ok(())
}

/// Nor does it load code from a file system that allows none to be executed.
fn without_execution(scratch: &Scratch) -> Result<(), Verdict> {
    let folder = scratch.path().join("mounted");
    std::fs::create_dir(&folder)?;
    let script = "mount -t tmpfs -o noexec none \"$0\" || exit 77
        XDG_CACHE_HOME=\"$0\" TMPDIR=\"$0\" exec \"$@\"";
    let own = COMMAND.as_os_str();
    let words = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        script,
    ];
    let words = natively(scratch, &words).arguments([folder.as_os_str(), own]);
    let invocation = words.arguments(["profile", "--backend=timer", "--", "echo", "it runs"]);
    let outcome = run(scratch, &invocation)?;
    let said = outcome.stderr_text();
    if said.contains("unshare") || outcome.ending == Ending::Exited(77) {
        return Err(Verdict::CannotTell(said.to_string()));
    }
    let is_told = said.contains("cannot be executed") && said.contains("noexec");
    match is_told && outcome.ending == Ending::Exited(125) && outcome.stdout_text().is_empty() {
        true => Ok(()),
        false => Err(wrong("this must be refused", &invocation, &outcome)),
    }
}
