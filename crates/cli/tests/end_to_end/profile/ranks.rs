//! Processes of MPI jobs are told by their ranks.

use std::collections::BTreeMap;
use std::ffi::OsString;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::Ending;

use super::{By, array, by_both, guest, number, profile, profiled};
use crate::observer::{Verdict, natively, run, trial};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    let launched = |launcher: &'static str| {
        trial(format!("profile::ranks_of_{launcher}"), move |scratch| {
            launched(scratch, launcher)
        })
    };
    let said = by_both("ranks", said);
    let launched = ["mpiexec.mpich", "mpiexec.openmpi"].map(launched);
    said.into_iter().chain(launched).collect()
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
