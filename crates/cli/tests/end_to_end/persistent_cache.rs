//! Translations that are kept are used again, and only for the code that they were made of.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::PathBuf;

use libtest_mimic::Trial;

use crate::observer::{
    Verdict, natively, require, run, run_well, translated_persistently, trial, unspool, wrong,
};
use crate::scratch::Scratch;
use unspool_guests::{Ending, Requirement};

/// The tests.
pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("persistent_cache::is_used".into(), is_used),
        trial("persistent_cache::grows".into(), grows),
        trial("persistent_cache::changed_library".into(), changed_library),
        trial("persistent_cache::damaged".into(), damaged),
        trial("persistent_cache::foreign".into(), foreign),
        trial("persistent_cache::no_directory".into(), no_directory),
    ]
}

/// The kept files, with what tells whether they were written anew.
fn kept(scratch: &Scratch) -> Result<Vec<(PathBuf, u64)>, Verdict> {
    let mut files = Vec::new();
    for entry in fs::read_dir(scratch.path().join("translations"))? {
        let entry = entry?;
        files.push((entry.path(), entry.metadata()?.ino()));
    }
    files.sort();
    Ok(files)
}

/// The second run has nothing to add. A program that is another file shares nothing.
fn is_used(scratch: &Scratch) -> Result<(), Verdict> {
    let ls = scratch.path().join("ls");
    fs::copy("/bin/ls", &ls)?;
    let command = [ls.as_os_str(), "-l".as_ref(), "/bin/sh".as_ref()];
    let observed = translated_persistently(scratch, &command);
    run_well(scratch, &observed)?;
    let first = kept(scratch)?;
    run_well(scratch, &observed)?;
    if first.len() != 1 || kept(scratch)? != first {
        return Err(Verdict::Wrong(format!(
            "kept by the first run {first:?}, then {:?}\nreplay: {}",
            kept(scratch)?,
            observed.command_line()
        )));
    }
    fs::copy("/bin/ls", scratch.path().join("new"))?;
    fs::rename(scratch.path().join("new"), &ls)?;
    run_well(scratch, &observed)?;
    if kept(scratch)?.len() != 2 {
        return Err(Verdict::Wrong(
            "translations of another file were used".into(),
        ));
    }
    Ok(())
}

/// What a run does for the first time is added.
fn grows(scratch: &Scratch) -> Result<(), Verdict> {
    let mut sizes = Vec::new();
    for arguments in [&["--version"][..], &["-lR", "/etc"], &["--version"]] {
        let mut command = vec!["ls"];
        command.extend(arguments);
        run(scratch, &translated_persistently(scratch, &command))?;
        let files = kept(scratch)?;
        sizes.push(fs::metadata(&files[0].0)?.len());
    }
    if sizes[0] < sizes[1] && sizes[1] == sizes[2] {
        return Ok(());
    }
    Err(Verdict::Wrong(format!(
        "the sizes of what was kept: {sizes:?}"
    )))
}

/// Builds a library whose function gives `answer`.
fn build_library(scratch: &Scratch, answer: u32) -> Result<(), Verdict> {
    let source = format!("int answer(void) {{ return {answer}; }}");
    fs::write(scratch.path().join("answer.c"), source)?;
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let build = natively(
        scratch,
        &[
            "gcc",
            "-shared",
            "-fPIC",
            "-o",
            &path("libanswer.so"),
            &path("answer.c"),
        ],
    );
    run_well(scratch, &build)?;
    Ok(())
}

fn changed_library(scratch: &Scratch) -> Result<(), Verdict> {
    require(&[Requirement::Program("gcc".into())])?;
    let program =
        "#include <stdio.h>\nint answer(void);\nint main(void) { printf(\"%d\\n\", answer()); }";
    fs::write(scratch.path().join("ask.c"), program)?;
    let path = |name: &str| scratch.path().join(name).display().to_string();
    build_library(scratch, 1)?;
    let folder = scratch.path().display().to_string();
    let build = natively(
        scratch,
        &[
            "gcc",
            "-o",
            &path("ask"),
            &path("ask.c"),
            "-L",
            &folder,
            "-lanswer",
            &format!("-Wl,-rpath,{folder}"),
        ],
    );
    run_well(scratch, &build)?;
    let observed = translated_persistently(scratch, &[path("ask")]);
    for expected in ["1\n", "1\n", "2\n", "2\n"] {
        if expected == "2\n" {
            build_library(scratch, 2)?;
        }
        let outcome = run_well(scratch, &observed)?;
        if outcome.stdout_text() != expected {
            return Err(wrong(expected, &observed, &outcome));
        }
    }
    Ok(())
}

/// Runs `ls`, whose kept translations were tampered with: it says so, and does its work.
fn runs_without(scratch: &Scratch, complaint: &str) -> Result<(), Verdict> {
    let observed = translated_persistently(scratch, &["ls", "/"]);
    let native = run_well(scratch, &natively(scratch, &["ls", "/"]))?;
    let outcome = run_well(scratch, &observed)?;
    let complains = outcome.stderr_text().contains(complaint);
    if !complains || outcome.stdout_text() != native.stdout_text() {
        return Err(wrong(complaint, &observed, &outcome));
    }
    // It has been replaced.
    let outcome = run_well(scratch, &observed)?;
    if !outcome.stderr_text().is_empty() {
        return Err(wrong("no complaint", &observed, &outcome));
    }
    Ok(())
}

fn damaged(scratch: &Scratch) -> Result<(), Verdict> {
    run_well(scratch, &translated_persistently(scratch, &["ls", "/"]))?;
    let (file, _) = &kept(scratch)?[0];
    let bytes = fs::read(file)?;
    for length in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
        fs::write(file, &bytes[..length])?;
        runs_without(scratch, "damaged")?;
    }
    for at in [0, 9, 20, bytes.len() / 3, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        fs::write(file, changed)?;
        runs_without(scratch, "damaged")?;
    }
    Ok(())
}

fn foreign(scratch: &Scratch) -> Result<(), Verdict> {
    run_well(scratch, &translated_persistently(scratch, &["ls", "/"]))?;
    let (file, _) = &kept(scratch)?[0];
    fs::set_permissions(file, fs::Permissions::from_mode(0o622))?;
    runs_without(scratch, "others may write it")
}

fn no_directory(scratch: &Scratch) -> Result<(), Verdict> {
    let observed = unspool(
        scratch,
        &["run", "--persistent-cache=/dev/null/x", "--", "ls"],
    );
    let outcome = run(scratch, &observed)?;
    let explains = outcome.stderr_text().contains("/dev/null/x");
    if outcome.ending != Ending::Exited(125) || !explains {
        return Err(wrong("125 and the reason", &observed, &outcome));
    }
    Ok(())
}
