//! Programs that cannot run and outputs that cannot be written: each is refused with a
//! sentence that names the thing, and never with a crash.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::Trial;
use unspool_guests::{Comparison, Ending};

use crate::comparison::compare;
use crate::observer::{Verdict, natively, run, traced, translated, trial, unspool, wrong};
use crate::scratch::Scratch;

/// A program that does not exist.
const NOT_FOUND: i32 = 127;
/// A program that exists and cannot run.
const NOT_EXECUTABLE: i32 = 126;
/// The command's own failure.
const FAILED: i32 = 125;

type Make = fn(&Path) -> std::io::Result<PathBuf>;

/// What is run, how it is refused, and a word that the message must have.
const REFUSED: &[(&str, Make, &[i32], &str)] = &[
    (
        "missing",
        |folder| Ok(folder.join("missing")),
        &[NOT_FOUND],
        "missing",
    ),
    (
        "missing_in_path",
        |_| Ok("no-such-program-at-all".into()),
        &[NOT_FOUND],
        "no-such-program-at-all",
    ),
    (
        "not_executable",
        |folder| write(folder, "locked", b"#!/bin/sh\n", 0o644),
        &[NOT_EXECUTABLE],
        "locked",
    ),
    (
        "directory",
        |folder| Ok(folder.to_owned()),
        &[NOT_EXECUTABLE],
        "irectory",
    ),
    (
        "empty",
        |folder| write(folder, "empty", b"", 0o755),
        &[NOT_EXECUTABLE],
        "empty",
    ),
    (
        "text",
        |folder| write(folder, "prose", b"once upon a time\n", 0o755),
        &[NOT_EXECUTABLE],
        "prose",
    ),
    (
        "through_a_file",
        |folder| Ok(write(folder, "plain", b"", 0o755)?.join("x")),
        &[NOT_FOUND, NOT_EXECUTABLE],
        "plain",
    ),
    (
        "link_to_itself",
        |folder| {
            std::os::unix::fs::symlink("loop", folder.join("loop"))?;
            Ok(folder.join("loop"))
        },
        &[NOT_FOUND, NOT_EXECUTABLE],
        "loop",
    ),
    (
        "elf_32_bit",
        |folder| {
            elf(folder, "small", |bytes| {
                bytes[4] = 1;
                bytes[18] = 3;
            })
        },
        &[NOT_EXECUTABLE],
        "32-bit",
    ),
    (
        "elf_foreign",
        |folder| elf(folder, "foreign", |bytes| bytes[18] = 183),
        &[NOT_EXECUTABLE],
        "foreign",
    ),
    (
        "elf_object",
        |folder| elf(folder, "object", |bytes| bytes[16] = 1),
        &[NOT_EXECUTABLE],
        "object",
    ),
    (
        "elf_header_cut",
        |folder| cut(folder, 40),
        &[NOT_EXECUTABLE],
        "cut",
    ),
    (
        "elf_segments_cut",
        |folder| cut(folder, 64),
        &[NOT_EXECUTABLE],
        "cut",
    ),
    (
        "elf_code_cut",
        |folder| cut(folder, 6000),
        &[NOT_EXECUTABLE],
        "cut",
    ),
    (
        "elf_segments_far_away",
        |folder| elf(folder, "odd", |bytes| bytes[32..40].fill(0xff)),
        &[NOT_EXECUTABLE],
        "odd",
    ),
    (
        "elf_segment_count_wrong",
        |folder| elf(folder, "many", |bytes| bytes[56..58].fill(0xff)),
        &[NOT_EXECUTABLE],
        "many",
    ),
    (
        "elf_loader_missing",
        |folder| {
            elf(folder, "orphan", |bytes| {
                let name = b"/lib64/ld-linux-x86-64.so.2";
                let place = bytes.windows(name.len()).position(|window| window == name);
                let place = place.expect("a dynamic program names its loader");
                bytes[place..place + name.len()].copy_from_slice(b"/lib64/no-loader-is-here.so");
            })
        },
        &[NOT_FOUND, NOT_EXECUTABLE],
        "no-loader-is-here",
    ),
    (
        "script_interpreter_missing",
        |folder| write(folder, "script", b"#!/no/such/shell -e\n", 0o755),
        &[NOT_FOUND, NOT_EXECUTABLE],
        "/no/such/shell",
    ),
    (
        "script_of_itself",
        |folder| {
            let path = folder.join("circle");
            write(
                folder,
                "circle",
                format!("#!{}\n", path.display()).as_bytes(),
                0o755,
            )
        },
        &[NOT_EXECUTABLE],
        "circle",
    ),
];

/// Scripts that run, as the kernel runs them: name, text, and the exit status.
const SCRIPTS: &[(&str, &str)] = &[
    ("plain", "#!/bin/sh\necho \"$0\" \"$@\"; exit 3\n"),
    ("argument", "#!/bin/sh -e -u\necho never\n"),
    ("one_argument", "#!/bin/sh -e\nfalse\necho never\n"),
    ("spaces", "#!  \t/bin/sh   -e  \nfalse\necho never\n"),
    (
        "through_env",
        "#!/usr/bin/env bash\necho $BASH_VERSION $#\n",
    ),
    ("no_line_end", "#!/bin/echo unended"),
    ("nested", "#!WORK/inner more\nnot read by a shell\n"),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for &(name, make, endings, word) in REFUSED {
        trials.push(trial(
            format!("bad_input::refused::{name}"),
            move |scratch| {
                let program = make(scratch.work())?;
                refused(scratch, &program, endings, word)
            },
        ));
    }
    for &(name, text) in SCRIPTS {
        trials.push(trial(
            format!("bad_input::script::{name}"),
            move |scratch| script_runs(scratch, text),
        ));
    }
    trials.push(trial(
        "bad_input::output::full_disk".to_owned(),
        |scratch| {
            let observed = traced(
                scratch,
                &[],
                Path::new("/dev/full"),
                &["ls", "-l", "/usr/bin"],
            );
            let outcome = run(scratch, &observed)?;
            let named = outcome.stderr_text().contains("/dev/full");
            if outcome.ending != Ending::Exited(FAILED) || !named {
                return Err(wrong(
                    "a lost trace is an error that names the file",
                    &observed,
                    &outcome,
                ));
            }
            Ok(())
        },
    ));
    for path in ["/no/such/folder/trace", "/", "/proc/version"] {
        let name = format!(
            "bad_input::output::unwritable::{}",
            path.trim_matches('/').replace('/', "_")
        );
        trials.push(trial(name, move |scratch| {
            let observed = traced(scratch, &[], Path::new(path), &["echo", "ran"]);
            let outcome = run(scratch, &observed)?;
            let named = outcome.stderr_text().contains(path);
            if outcome.ending != Ending::Exited(FAILED) || !named || !outcome.stdout.is_empty() {
                let expected = "refused with the file's name, before the program runs";
                return Err(wrong(expected, &observed, &outcome));
            }
            Ok(())
        }));
    }
    for arguments in [
        &["trace"][..],
        &["run"],
        &["run", "--"],
        &["no-such-command"],
        &["trace", "--order", "chaos", "true"],
    ] {
        trials.push(trial(
            format!("bad_input::usage::{}", arguments.join("_")),
            move |scratch| {
                let command = unspool(scratch, arguments);
                let outcome = run(scratch, &command)?;
                if outcome.ending != Ending::Exited(FAILED) || outcome.stderr.is_empty() {
                    return Err(wrong(
                        "wrong usage is explained, with status 125",
                        &command,
                        &outcome,
                    ));
                }
                Ok(())
            },
        ));
    }
    trials
}

/// Neither translated nor traced may it run, and no trace may claim that it did.
fn refused(scratch: &Scratch, program: &Path, endings: &[i32], word: &str) -> Result<(), Verdict> {
    let file = scratch.path().join("refused.unspool");
    for observed in [
        translated(scratch, &[program]),
        traced(scratch, &[], &file, &[program]),
    ] {
        let observed = observed.limit(Duration::from_secs(20));
        let outcome = run(scratch, &observed)?;
        let ending = matches!(outcome.ending, Ending::Exited(code) if endings.contains(&code));
        let message = outcome.stderr_text();
        if !ending
            || !message.contains(word)
            || !message.contains("error:")
            || message.contains("panicked")
        {
            let expected =
                format!("refused with a status in {endings:?} and a message with `{word}`");
            return Err(wrong(&expected, &observed, &outcome));
        }
    }
    Ok(())
}

fn script_runs(scratch: &Scratch, text: &str) -> Result<(), Verdict> {
    let work = scratch.work();
    write(work, "inner", b"#!/bin/echo inner\n", 0o755)?;
    let text = text.replace("WORK", &work.display().to_string());
    let script = write(work, "script", text.as_bytes(), 0o755)?;
    let command = [script.as_os_str(), "one".as_ref(), "two words".as_ref()];
    let native_run = natively(scratch, &command);
    let native = run(scratch, &native_run)?;
    let observed_run = translated(scratch, &command);
    let observed = run(scratch, &observed_run)?;
    compare(
        Comparison::Output,
        (&native_run, &native),
        (&observed_run, &observed),
    )
}

fn write(folder: &Path, name: &str, text: &[u8], mode: u32) -> std::io::Result<PathBuf> {
    let path = folder.join(name);
    fs::write(&path, text)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    Ok(path)
}

/// A copy of a real program with some bytes changed.
fn elf(folder: &Path, name: &str, change: impl FnOnce(&mut Vec<u8>)) -> std::io::Result<PathBuf> {
    let mut bytes = fs::read("/bin/true")?;
    change(&mut bytes);
    write(folder, name, &bytes, 0o755)
}

/// The first bytes of a real program.
fn cut(folder: &Path, length: usize) -> std::io::Result<PathBuf> {
    elf(folder, "cut", |bytes| bytes.truncate(length))
}
