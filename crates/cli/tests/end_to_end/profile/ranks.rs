//! Processes of MPI jobs are told by their ranks.

use std::collections::BTreeMap;
use std::ffi::OsString;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::Ending;

use super::{By, array, by_both, check_shares, guest, number, profile, profiled};
use crate::observer::{COMMAND, Verdict, natively, run, trial, unspool};
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
    let together = |launcher: &'static str| {
        trial(
            format!("profile::ranks_together_by_{launcher}"),
            move |scratch| together_launched(scratch, launcher),
        )
    };
    let together = ["mpiexec.mpich", "mpiexec.openmpi"].map(together);
    let in_a_tree = trial("profile::ranks_in_a_tree".to_owned(), in_a_tree);
    let damaged = trial("profile::ranks_in_a_tree_damaged".to_owned(), damaged_share);
    let refused = trial("profile::by_ranks_refused".to_owned(), by_ranks_refused);
    let together = together.into_iter().chain([in_a_tree, damaged, refused]);
    let unknown = trial("profile::names_of_files".to_owned(), names_of_files);
    let merged = merged.into_iter().chain([unknown]);
    let all = said.into_iter().chain(launched).chain(merged);
    all.chain(together).collect()
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

/// Each rank of a job samples itself; what they have is one recording at the end, and nothing else is left.
fn together_launched(scratch: &Scratch, launcher: &str) -> Result<(), Verdict> {
    let there = natively(scratch, &["sh", "-c", "command -v \"$0\"", launcher]);
    if run(scratch, &there)?.ending != Ending::Exited(0) {
        return Err(Verdict::CannotTell(format!("there is no {launcher}")));
    }
    let sum = scratch.path().join("sum").display().to_string();
    let report = scratch.path().join("report").display().to_string();
    let own = [
        "--by-ranks",
        "-o",
        &sum,
        "--json",
        "--report",
        &report,
        "--",
    ];
    let root = match launcher.ends_with("openmpi") {
        true => &["--allow-run-as-root", "--oversubscribe"][..],
        false => &[],
    };
    let words: Vec<OsString> = [&[launcher][..], root, &["-n", "3"]]
        .concat()
        .iter()
        .map(OsString::from)
        .chain(command(&own))
        .chain(guest("")?)
        .collect();
    let outcome = run(scratch, &natively(scratch, &words))?;
    let text = std::fs::read_to_string(&report).unwrap_or_default();
    let json: Value = serde_json::from_str(&text)
        .map_err(|_| Verdict::Wrong(format!("{:?}: {}", outcome.ending, outcome.stderr_text())))?;
    check_shares(&json)?;
    let ranks = seconds(&json);
    let of = |rank| ranks.get(&Some(rank)).copied().unwrap_or(0.0);
    let has_all = (0..3).map(of).all(|it| (1.1..1.4).contains(&it)) && ranks.len() == 3;
    let is_left = std::path::Path::new(&format!("{sum}.ranks")).exists();
    match has_all && !is_left && outcome.ending == Ending::Exited(0) {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "{ranks:?}, left: {is_left}, {:?}: {}",
            outcome.ending,
            outcome.stderr_text()
        ))),
    }
}

/// `unspool profile` with these options, as words.
fn command(options: &[&str]) -> Vec<OsString> {
    let own = [COMMAND.as_os_str().to_owned(), "profile".into()];
    own.into_iter()
        .chain(options.iter().map(OsString::from))
        .collect()
}

/// Recordings of one process each, by number.
fn small_parts(scratch: &Scratch, count: usize) -> Result<Vec<String>, Verdict> {
    let path = |number| {
        scratch
            .path()
            .join(format!("small-{number}"))
            .display()
            .to_string()
    };
    let parts: Vec<String> = (0..count).map(path).collect();
    for part in &parts {
        let words = [
            "-o",
            part,
            "--report=/dev/null",
            "--",
            "sh",
            "-c",
            "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done",
        ];
        profile(scratch, By::Kernel, &words)?;
    }
    Ok(parts)
}

/// Adds recordings up as a job of so many ranks; gives what the ranks have said, with their statuses.
fn add_up(scratch: &Scratch, size: usize, sum: &str, parts: &[String]) -> Result<String, Verdict> {
    let own = command(&["--by-ranks", "--json", "-o", sum]);
    let script = format!(
        "for rank in $(seq 0 {}); do {{ PMI_RANK=$rank PMI_SIZE={size} \"$@\" > {sum}.json.$rank; echo $rank: $?; }} & done; wait",
        size - 1
    );
    let words: Vec<OsString> = ["sh", "-c", &script, "job"]
        .iter()
        .map(OsString::from)
        .chain(own)
        .chain(parts.iter().map(OsString::from))
        .collect();
    let outcome = run(scratch, &natively(scratch, &words))?;
    Ok(format!(
        "{}{}",
        outcome.stdout_text(),
        outcome.stderr_text()
    ))
}

/// Whatever the number of ranks and of recordings, the sum is that of all, and what an earlier job has left
/// is not taken for a part.
fn in_a_tree(scratch: &Scratch) -> Result<(), Verdict> {
    let parts = small_parts(scratch, 7)?;
    let words: Vec<&str> = ["--json"]
        .into_iter()
        .chain(parts.iter().map(String::as_str))
        .collect();
    let at_once: Value = serde_json::from_str(&profile(scratch, By::Kernel, &words)?.stdout_text())
        .map_err(|_| Verdict::Wrong("no JSON".to_owned()))?;
    for size in [1, 2, 3, 5, 7, 8, 11] {
        let sum = scratch
            .path()
            .join(format!("sum-{size}"))
            .display()
            .to_string();
        // An earlier job was killed after one rank had asked and one had given.
        let folder = std::path::PathBuf::from(format!("{sum}.ranks"));
        std::fs::create_dir(&folder)?;
        std::fs::write(folder.join("wanted-1"), "0123456789abcdef")?;
        std::fs::write(folder.join("given-2-0123456789abcdef"), "of another job")?;
        let said = add_up(scratch, size, &sum, &parts)?;
        let of_all: Value = std::fs::read_to_string(format!("{sum}.json.0"))
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .ok_or_else(|| Verdict::Wrong(format!("{size} ranks: {said}")))?;
        let is_same = ["functions", "calling_contexts", "threads", "total", "user"]
            .iter()
            .all(|name| of_all[name] == at_once[name]);
        let only_first = (1..size).all(|rank| {
            std::fs::metadata(format!("{sum}.json.{rank}")).is_ok_and(|it| it.len() == 0)
        });
        let all_well = (0..size).all(|rank| said.contains(&format!("{rank}: 0")));
        if !is_same || !only_first || !all_well {
            return Err(Verdict::Wrong(format!(
                "{size} ranks: {said}{of_all:#}{at_once:#}"
            )));
        }
    }
    Ok(())
}

/// A rank that cannot read its share is told of; the others' are there.
fn damaged_share(scratch: &Scratch) -> Result<(), Verdict> {
    let parts = small_parts(scratch, 4)?;
    let whole = std::fs::read(&parts[3])?;
    std::fs::write(&parts[3], &whole[..whole.len() - 20])?;
    let sum = scratch.path().join("sum").display().to_string();
    let cut = add_up(scratch, 4, &sum, &parts)?;
    // So is what the first rank itself could not read.
    let alone = scratch.path().join("alone").display().to_string();
    let first = [parts[3].clone(), parts[0].clone()];
    let of_first = add_up(scratch, 2, &alone, &first)?;
    // What is no recording at all is found by the rank that has it.
    std::fs::write(&parts[3], b"nothing")?;
    let other = scratch.path().join("other").display().to_string();
    let none = add_up(scratch, 4, &other, &parts)?;
    let threads = |file: &str| -> Result<usize, Verdict> {
        let text = profile(scratch, By::Kernel, &["--json", file])?.stdout_text();
        let json: Value = serde_json::from_str(&text).unwrap_or_default();
        Ok(array(&json, "threads").len())
    };
    let (of_cut, of_none) = (threads(&sum)?, threads(&other)?);
    let is_told = cut.contains("rank 3: ") && cut.contains("0: 2") && none.contains("rank 3: ");
    let problem = cut
        .split_once("rank 3: ")
        .and_then(|(_, behind)| behind.lines().next());
    let is_told = is_told && problem.is_some_and(|problem| of_first.contains(problem));
    match is_told && of_cut == 4 && of_none == 3 {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "{of_cut}, {of_none}: {cut}\n{none}\n{of_first}"
        ))),
    }
}

fn by_ranks_refused(scratch: &Scratch) -> Result<(), Verdict> {
    // Rank and number of ranks, as far as the launcher says.
    let cases = [
        ("sum", None, None, "no process of an MPI job"),
        ("sum", Some("1"), None, "how many ranks"),
        ("sum", Some("2"), Some("2"), "how many ranks"),
        ("sum-%r", Some("0"), Some("1"), "one sum of all ranks"),
    ];
    for (output, rank, size, told) in cases {
        let words = ["profile", "--by-ranks", "-o", output, "--", "echo", "ran"];
        let mut command = unspool(scratch, &words);
        for (name, value) in [("PMI_RANK", rank), ("PMI_SIZE", size)] {
            if let Some(value) = value {
                command = command.variable(name, value);
            }
        }
        let outcome = run(scratch, &command)?;
        let said = outcome.stderr_text();
        if outcome.ending != Ending::Exited(125) || !said.contains(told) {
            return Err(Verdict::Wrong(format!(
                "{output}: {:?}, {said}",
                outcome.ending
            )));
        }
    }
    Ok(())
}
