//! What becomes of trace files: whole ones, those of programs that died, and damaged ones.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use unspool_guests::{Ending, Invocation, Outcome};

use crate::comparison::runs_alike;
use crate::observer::{Verdict, natively, run, run_well, traced, trial, unspool, wrong};
use crate::order::guest_command;
use crate::scratch::Scratch;

/// What `info` and `export` may answer about a file that is not whole, besides success.
const INPUT_DAMAGED: i32 = 2;
const FAILED: i32 = 125;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = vec![
        trial("trace_file::whole".to_owned(), whole),
        trial(
            "trace_file::killed_program_leaves_a_readable_file".to_owned(),
            killed,
        ),
        trial("trace_file::to_a_pipe".to_owned(), to_a_pipe),
        trial("trace_file::children_write_their_own".to_owned(), children),
        trial(
            "trace_file::children_without_a_folder".to_owned(),
            children_without_a_folder,
        ),
        trial("trace_file::not_a_trace".to_owned(), not_a_trace),
        trial("trace_file::full_disk".to_owned(), full_disk),
        trial("trace_file::two_writers".to_owned(), two_writers),
    ];
    for order in ["none", "ticket", "line-atomic", "timestamp"] {
        trials.push(trial(
            format!("trace_file::order::{order}"),
            move |scratch| {
                let file = scratch.path().join("trace.unspool");
                let command = ["sort", "--parallel=2", "/etc/passwd"];
                let native_run = natively(scratch, &command);
                let observed_run = traced(scratch, &["--order", order], &file, &command);
                runs_alike(scratch, &native_run, &observed_run)?;
                let information = run_well(scratch, &reading(scratch, &["info"], &file))?;
                if !information.stdout_text().contains(order) {
                    return Err(Verdict::Wrong(format!(
                        "info does not name the order {order}"
                    )));
                }
                Ok(())
            },
        ));
    }
    for tenths in 0..10 {
        trials.push(trial(
            format!("trace_file::cut::{tenths}_tenths"),
            move |scratch| damaged(scratch, |bytes| bytes.truncate(bytes.len() * tenths / 10)),
        ));
    }
    for place in 0..10 {
        trials.push(trial(
            format!("trace_file::bytes_changed::{place}"),
            move |scratch| {
                damaged(scratch, |bytes| {
                    // Some in the header, some anywhere, some in the index at the end.
                    let position = match place {
                        0..3 => place * 9 + 4,
                        3..7 => bytes.len() * (2 * place - 5) / 10,
                        _ => bytes.len() - 1 - (place - 7) * 11,
                    };
                    bytes[position] ^= 0x5a;
                })
            },
        ));
    }
    trials.push(trial("trace_file::bytes_inserted".to_owned(), |scratch| {
        damaged(scratch, |bytes| {
            let middle = bytes.len() / 2;
            bytes.splice(middle..middle, *b"inserted");
        })
    }));
    trials
}

/// `unspool COMMAND… FILE`.
fn reading(scratch: &Scratch, command: &[&str], file: &Path) -> Invocation {
    let mut arguments: Vec<OsString> = command.iter().map(OsString::from).collect();
    arguments.push(file.into());
    unspool(scratch, &arguments)
}

fn record(scratch: &Scratch, name: &str) -> Result<std::path::PathBuf, Verdict> {
    let file = scratch.path().join(name);
    run_well(
        scratch,
        &traced(scratch, &["--verify"], &file, &["ls", "/usr"]),
    )?;
    Ok(file)
}

/// Every reader is content, and the formats agree on how much there is.
fn whole(scratch: &Scratch) -> Result<(), Verdict> {
    let file = record(scratch, "whole.unspool")?;
    for command in [
        &["info"][..],
        &["info", "--json"],
        &["verify", "--unchecked", "5"],
        &["export", "--format", "none"],
    ] {
        run_well(scratch, &reading(scratch, command, &file))?;
    }
    let lines = |format: &str| -> Result<Vec<String>, Verdict> {
        let export = reading(scratch, &["export", "--format", format], &file);
        let outcome = run_well(scratch, &export)?;
        Ok(outcome.stdout_text().lines().map(str::to_owned).collect())
    };
    let csv = lines("csv")?;
    let json = lines("json")?;
    let accesses = |lines: &[String], read: &str, write: &str| {
        lines
            .iter()
            .filter(|line| line.contains(read) || line.contains(write))
            .count()
    };
    let in_csv = accesses(&csv, ",read,", ",write,");
    let in_json = accesses(&json, "\"kind\":\"read\"", "\"kind\":\"write\"");
    if in_csv < 10_000 || in_csv != in_json {
        return Err(Verdict::Wrong(format!(
            "accesses: {in_csv} in csv, {in_json} in json"
        )));
    }
    Ok(())
}

/// SIGKILL leaves no time for an index; all full chunks are there.
fn killed(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("killed.unspool");
    let endless = traced(scratch, &[], &file, &["sh", "-c", "while :; do :; done"])
        .kill_after(Duration::from_secs(1));
    let outcome = run(scratch, &endless)?;
    if outcome.ending != Ending::Signalled(9) {
        return Err(wrong("killed", &endless, &outcome));
    }
    readable(scratch, &["export", "--format", "none"], &file)?;
    let information = readable(scratch, &["info"], &file)?;
    let text = information.stdout_text();
    let accesses = text.lines().find_map(|line| line.strip_prefix("accesses "));
    let accesses = accesses.map(|count| count.trim().replace(',', ""));
    if accesses
        .and_then(|count| count.parse::<u64>().ok())
        .is_none_or(|count| count < 100_000)
    {
        return Err(Verdict::Wrong(format!(
            "few accesses survived in {}: {text}",
            file.display()
        )));
    }
    Ok(())
}

/// A reader at the other end of a pipe gets the same trace as a file keeps.
fn to_a_pipe(scratch: &Scratch) -> Result<(), Verdict> {
    let to_stdout = traced(scratch, &[], Path::new("-"), &["sh", "-c", "exit 0"]);
    let script = format!("{} > piped.unspool", to_stdout.command_line());
    run_well(scratch, &natively(scratch, &["bash", "-euc", &script]))?;
    run_well(
        scratch,
        &reading(scratch, &["info"], &scratch.work().join("piped.unspool")),
    )?;

    let fifo = scratch.work().join("fifo");
    let to_fifo = traced(scratch, &[], &fifo, &["sh", "-c", "exit 5"]);
    let script = format!(
        "mkfifo fifo; cat fifo > copied.unspool & ({}) && exit 1 || test $? = 5; wait",
        to_fifo.command_line()
    );
    run_well(scratch, &natively(scratch, &["bash", "-euc", &script]))?;
    run_well(
        scratch,
        &reading(scratch, &["info"], &scratch.work().join("copied.unspool")),
    )?;
    Ok(())
}

/// Each process of a tree leaves a file, and each is whole.
fn children(scratch: &Scratch) -> Result<(), Verdict> {
    let folder = scratch.path().join("traces");
    fs::create_dir(&folder)?;
    let file = folder.join("tree.unspool");
    let script = "ls /usr > /dev/null; (exit 3); sh -c 'echo grandchild' | cat; true";
    let observed = traced(
        scratch,
        &["--children", "follow"],
        &file,
        &["bash", "-c", script],
    );
    run_well(scratch, &observed)?;
    let mut files = 0;
    for entry in fs::read_dir(&folder)? {
        run_well(scratch, &reading(scratch, &["info"], &entry?.path()))?;
        files += 1;
    }
    if files < 5 {
        return Err(Verdict::Wrong(format!("five processes left {files} files")));
    }
    let alone = folder.join("alone");
    fs::create_dir(&alone)?;
    let file = alone.join("tree.unspool");
    run_well(
        scratch,
        &traced(
            scratch,
            &["--children", "leave"],
            &file,
            &["bash", "-c", "ls /usr; true"],
        ),
    )?;
    match fs::read_dir(&alone)?.count() {
        1 => Ok(()),
        files => Err(Verdict::Wrong(format!(
            "{files} files though children were left alone"
        ))),
    }
}

/// The folder of the trace goes away: children cannot be recorded, whether they execute a program
/// or not, and run all the same. The first process cannot be recorded from its start: it does not
/// run.
fn children_without_a_folder(scratch: &Scratch) -> Result<(), Verdict> {
    let folder = scratch.path().join("gone");
    fs::create_dir(&folder)?;
    let file = folder.join("trace.unspool");
    let script = r#"rm -rf "$0"; (echo forked; exit 3); echo $?; /bin/echo executed; exit 4"#;
    let command = [
        "/bin/bash".as_ref(),
        "-c".as_ref(),
        script.as_ref(),
        folder.as_os_str(),
    ];
    let native_run = natively(scratch, &command);
    let native = run(scratch, &native_run)?;
    fs::create_dir(&folder)?;
    let observed_run = traced(scratch, &[], &file, &command);
    let observed = run(scratch, &observed_run)?;
    let said = observed.stderr_text();
    let not_recorded = said.matches("this child process is not recorded: ").count();
    if native.ending != Ending::Exited(4)
        || observed.ending != native.ending
        || observed.stdout != native.stdout
        || not_recorded < 2
        || !said.contains("No such file or directory")
    {
        return Err(wrong("the children run", &observed_run, &observed));
    }
    let first = traced(scratch, &[], &file, &["/bin/echo", "first"]);
    let outcome = run(scratch, &first)?;
    if outcome.ending != Ending::Exited(FAILED) || !outcome.stdout.is_empty() {
        return Err(wrong("the program does not start", &first, &outcome));
    }
    Ok(())
}

/// A limit of the file's size stands for a disk that is full: what went into the file before is
/// all there, the program gets no signal, and only the status of `--strict` differs.
fn full_disk(scratch: &Scratch) -> Result<(), Verdict> {
    /// Half of what the trace takes at least, where the threads hardly meet.
    const LIMIT_KILOBYTES: u64 = 150;
    let file = scratch.path().join("full.unspool");
    for (options, status) in [(&["--verify"][..], 0), (&["--verify", "--strict"], 125)] {
        let command = guest_command("order/increment", &["2", "200000"])?;
        let trace = traced(scratch, options, &file, &command).command_line();
        let script = format!("ulimit -f {LIMIT_KILOBYTES}; ({trace}) && exit 0 || exit $?");
        let limited = natively(scratch, &["bash", "-c", &script]);
        let outcome = run(scratch, &limited)?;
        let told = outcome.stderr_text().contains("the trace is not complete");
        if outcome.ending != Ending::Exited(status) || !told {
            return Err(wrong("what is lost is told", &limited, &outcome));
        }
        // There may be no room for the index: it is made anew, and the status says so.
        let reading = reading(scratch, &["info", "--json"], &file);
        let info = run(scratch, &reading)?;
        if !matches!(info.ending, Ending::Exited(0 | INPUT_DAMAGED)) {
            return Err(wrong("what was kept can be read", &reading, &info));
        }
        let information: serde_json::Value = serde_json::from_slice(&info.stdout)
            .map_err(|problem| Verdict::Wrong(problem.to_string()))?;
        let kept = &information["totals"];
        let bytes = fs::metadata(&file)?.len();
        if kept["accesses"].as_u64() < Some(10_000) || bytes < LIMIT_KILOBYTES * 1000 / 2 {
            return Err(Verdict::Wrong(format!("{bytes} bytes: {kept}")));
        }
    }
    Ok(())
}

/// The second is told so, and the first one's trace is whole.
fn two_writers(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("once.unspool");
    let first = traced(scratch, &[], &file, &["sleep", "4"]).command_line();
    let second = traced(scratch, &[], &file, &["true"]).command_line();
    let script = format!("({first}) & sleep 2; ({second}) 2> talk && exit 1; wait $!");
    run_well(scratch, &natively(scratch, &["bash", "-c", &script]))?;
    let talk = fs::read_to_string(scratch.work().join("talk"))?;
    if !talk.contains("another trace is being written to it") {
        return Err(Verdict::Wrong(talk));
    }
    run_well(scratch, &reading(scratch, &["info"], &file))?;
    // Afterwards the file is free again.
    run_well(scratch, &traced(scratch, &[], &file, &["true"]))?;
    Ok(())
}

fn not_a_trace(scratch: &Scratch) -> Result<(), Verdict> {
    let work = scratch.work();
    fs::write(work.join("empty"), b"")?;
    fs::write(work.join("zeros"), [0; 5000])?;
    for name in [
        "empty",
        "zeros",
        "/bin/ls",
        "/etc/passwd",
        "/",
        "/no/such/file",
        "/dev/null",
    ] {
        for command in [&["info"][..], &["verify"], &["export", "--format", "none"]] {
            let reading = reading(scratch, command, &work.join(name));
            let outcome = run(scratch, &reading)?;
            let named = outcome.stderr_text().contains(name);
            if !matches!(outcome.ending, Ending::Exited(FAILED | INPUT_DAMAGED)) || !named {
                return Err(wrong("refused with the file's name", &reading, &outcome));
            }
        }
    }
    Ok(())
}

/// Damage is reported by every reader, and by none with a crash.
fn damaged(scratch: &Scratch, damage: impl FnOnce(&mut Vec<u8>)) -> Result<(), Verdict> {
    let file = record(scratch, "damaged.unspool")?;
    let mut bytes = fs::read(&file)?;
    damage(&mut bytes);
    fs::write(&file, bytes)?;
    for command in [&["info"][..], &["export", "--format", "none"]] {
        let outcome = readable(scratch, command, &file)?;
        if outcome.ending == Ending::Exited(0) {
            let reading = reading(scratch, command, &file);
            return Err(wrong("damage is reported", &reading, &outcome));
        }
    }
    // What is left may or may not be explained by its order; it must be looked at in peace.
    let verify = reading(scratch, &["verify"], &file);
    let outcome = run(scratch, &verify)?;
    match outcome.ending {
        Ending::Exited(0 | 1 | INPUT_DAMAGED | FAILED) => Ok(()),
        _ => Err(wrong("verify survives damage", &verify, &outcome)),
    }
}

/// Reads a file that is not whole: what can be read is, the rest is reported.
fn readable(scratch: &Scratch, command: &[&str], file: &Path) -> Result<Outcome, Verdict> {
    let reading = reading(scratch, command, file);
    let outcome = run(scratch, &reading)?;
    let calm = !outcome.stderr_text().contains("panicked");
    match outcome.ending {
        Ending::Exited(0 | INPUT_DAMAGED | FAILED) if calm => Ok(outcome),
        _ => Err(wrong("an orderly answer", &reading, &outcome)),
    }
}
