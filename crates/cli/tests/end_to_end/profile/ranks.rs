//! Processes of MPI jobs are told by their ranks.

use std::collections::BTreeMap;
use std::ffi::OsString;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::Ending;

use super::{By, array, by_both, check_shares, guest, number, profile, profiled};
use crate::observer::{Verdict, natively, run, trial, unspool};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let launched = |launcher: &'static str| {
        trial(format!("profile::ranks_of_{launcher}"), move |scratch| {
            launched(scratch, launcher)
        })
    };
    let said = by_both("ranks", said);
    let launched = ["mpiexec.mpich", "mpiexec.openmpi"].map(launched);
    let merged = by_both("ranks_merged", merged);
    let unknown = trial("profile::names_of_files".to_owned(), names_of_files);
    let merged = merged.into_iter().chain([unknown]);
    said.into_iter().chain(launched).chain(merged).collect()
}

/// How long each rank was sampled, and what has none under nothing.
fn seconds(profile: &Value) -> BTreeMap<Option<u64>, f64> {
    let mut ranks = BTreeMap::new();
    for thread in array(profile, "threads") {
        *ranks.entry(thread["rank"].as_u64()).or_default() += number(&thread["self"]);
    }
    ranks
}

/// What launchers say of processes is told, in the text too; what has no such number has no rank.
fn said(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let program = guest("")?[0].display().to_string();
    let script = format!("PMI_RANK=1 {program} & OMPI_COMM_WORLD_RANK=0 {program} & wait");
    let command = ["sh", "-c", &script].map(OsString::from);
    let ranks = seconds(&profiled(scratch, by, &command)?);
    let is_right = [0, 1].iter().all(|rank| {
        let seconds = ranks.get(&Some(*rank)).copied();
        seconds.is_some_and(|seconds| (1.0..1.4).contains(&seconds))
    });
    let text = profile(scratch, by, &["--", "sh", "-c", &script])?
        .stdout_text()
        .to_string();
    let alone = seconds(&profiled(scratch, by, &guest("")?)?);
    match is_right && text.contains("rank 1, process") && alone.keys().eq([&None]) {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "{ranks:?}, alone {alone:?}: {text}"
        ))),
    }
}

/// A recording for each rank, by its number; their sum, and the sum of that with another, has each rank
/// with its time, and the shares of all.
fn merged(scratch: &Scratch, by: By) -> Result<(), Verdict> {
    let part = scratch.path().join("part-%r").display().to_string();
    for rank in ["0", "1", "2"] {
        let words = [
            "profile",
            by.option(),
            "--report",
            "/dev/null",
            "-o",
            &part,
            "--",
        ];
        let command = unspool(scratch, &words)
            .arguments(guest("")?)
            .variable("PMI_RANK", rank);
        let outcome = run(scratch, &command)?;
        if outcome.ending != Ending::Exited(0) {
            return Err(Verdict::CannotTell(outcome.stderr_text().to_string()));
        }
    }
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let read = |words: &[&str]| -> Result<Value, Verdict> {
        let outcome = profile(scratch, by, &[&["--json"], words].concat())?;
        let text = outcome.stdout_text();
        serde_json::from_str(&text)
            .map_err(|_| Verdict::Wrong(format!("no JSON: {text}{}", outcome.stderr_text())))
    };
    let (parts, sum) = (
        [0, 1, 2].map(|rank| path(&format!("part-{rank}"))),
        path("sum"),
    );
    let alone = read(&[&parts[1]])?;
    read(&["-o", &sum, &parts[0], &parts[1]])?;
    let at_once = read(&[&parts[0], &parts[1], &parts[2]])?;
    let in_steps = read(&[&sum, &parts[2]])?;
    check_shares(&in_steps)?;
    let ranks = seconds(&in_steps);
    let is_right = [0, 1, 2].iter().all(|rank| {
        let seconds = ranks.get(&Some(*rank)).copied();
        seconds.is_some_and(|seconds| (1.0..1.4).contains(&seconds))
    });
    let same = |name: &str| at_once[name] == in_steps[name];
    let is_same = same("functions") && same("total") && same("user") && same("threads");
    match is_right && is_same && seconds(&alone).keys().eq([&Some(1)]) {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "{ranks:?}: {at_once:#}\n{in_steps:#}"
        ))),
    }
}

/// What stands for nothing in a name is refused before anything runs, and a percent sign is one.
fn names_of_files(scratch: &Scratch) -> Result<(), Verdict> {
    let named = |name: &str| -> Result<(Ending, String), Verdict> {
        let file = scratch.path().join(name).display().to_string();
        let command = unspool(scratch, &["profile", "-o", &file, "--", "echo", "ran"]);
        let outcome = run(scratch, &command)?;
        Ok((
            outcome.ending,
            format!("{}{}", outcome.stdout_text(), outcome.stderr_text()),
        ))
    };
    for (name, told) in [
        ("%r", "this is no process of an MPI job"),
        ("%x", "stands before"),
    ] {
        let (ending, said) = named(name)?;
        if ending != Ending::Exited(125) || !said.contains(told) || said.contains("ran\n") {
            return Err(Verdict::Wrong(format!("{name}: {ending:?}, {said}")));
        }
    }
    let (ending, said) = named("100%%-%h")?;
    let entries = std::fs::read_dir(scratch.path())?.flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let is_there = names.any(|name| name.starts_with("100%-") && name.len() > "100%-".len());
    match ending == Ending::Exited(0) && is_there {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{ending:?}: {said}"))),
    }
}

fn launched(scratch: &Scratch, launcher: &str) -> Result<(), Verdict> {
    let there = natively(scratch, &["sh", "-c", "command -v \"$0\"", launcher]);
    if run(scratch, &there)?.ending != Ending::Exited(0) {
        return Err(Verdict::CannotTell(format!("there is no {launcher}")));
    }
    let program = guest("")?[0].display().to_string();
    let root = match launcher.ends_with("openmpi") {
        true => &["--allow-run-as-root", "--oversubscribe"][..],
        false => &[],
    };
    let command = [&[launcher][..], root, &["-n", "2", &program]].concat();
    let command: Vec<OsString> = command.iter().map(OsString::from).collect();
    let ranks = seconds(&profiled(scratch, By::Kernel, &command)?);
    let of = |rank| ranks.get(&Some(rank)).copied().unwrap_or(0.0);
    match [0, 1]
        .map(of)
        .iter()
        .all(|seconds| (1.1..1.4).contains(seconds))
    {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{ranks:?}"))),
    }
}
