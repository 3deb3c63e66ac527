//! The commands that read traces, run as users run them, on traces of a simulated machine.

#[path = "../../report/tests/synthetic/mod.rs"]
mod synthetic;

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use synthetic::{FIRST_WORD, Recording, Truth, header, record, record_to};
use unspool_events::{Order, TraceWriter};

const ANSWER_IS_NO: i32 = 1;
const INPUT_DAMAGED: i32 = 2;
const FAILED: i32 = 125;

fn unspool(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unspool"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    unspool(arguments).output().unwrap()
}

/// Runs and expects success without a word on standard error.
fn stdout_of(arguments: &[&str]) -> Vec<u8> {
    let output = run(arguments);
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && talk.is_empty(),
        "{arguments:?}: {talk}"
    );
    output.stdout
}

/// Expects a failure of the command itself, explained; returns the explanation.
fn failure_of(arguments: &[&str]) -> String {
    let output = run(arguments);
    let talk = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(FAILED), "{arguments:?}: {talk}");
    assert!(
        talk.starts_with("error: ") && !talk.contains("panicked"),
        "{arguments:?}: {talk}"
    );
    talk
}

fn recorded(recording: Recording) -> (tempfile::TempDir, PathBuf, Truth) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.unspool");
    let truth = record(&path, recording);
    (folder, path, truth)
}

/// A trace with values of which the last quarter is missing.
fn cut_off() -> (tempfile::TempDir, PathBuf) {
    let (folder, path, _) = recorded(Recording {
        values: true,
        ..Recording::default()
    });
    let bytes = std::fs::read(&path).unwrap();
    let cut = folder.path().join("cut.unspool");
    std::fs::write(&cut, &bytes[..bytes.len() * 3 / 4]).unwrap();
    (folder, cut)
}

#[test]
fn a_merge_of_each_kind_of_input_gives_the_ordered_export() {
    let (folder, path, _) = recorded(Recording::default());
    let file = path.to_str().unwrap();
    let export = ["export", file, "--format", "tsv", "--ordered"];
    let with_times = String::from_utf8(stdout_of(&export)).unwrap();
    let without_syncs: Vec<&str> = with_times
        .lines()
        .filter(|line| !line.ends_with("\tthread_sync"))
        .collect();
    assert!(without_syncs.len() > 3000 && without_syncs.len() < with_times.lines().count());
    let times_cut: String = without_syncs
        .iter()
        .map(|line| line.split_once('\t').unwrap().1.to_owned() + "\n")
        .collect();

    let text = folder.path().join("t.tsv");
    std::fs::write(&text, &with_times).unwrap();
    for input in [file, text.to_str().unwrap()] {
        assert_eq!(
            String::from_utf8(stdout_of(&["merge", input])).unwrap(),
            times_cut
        );
        let kept = String::from_utf8(stdout_of(&["merge", "--keep-time", input])).unwrap();
        assert_eq!(kept.lines().collect::<Vec<_>>(), without_syncs);
    }
}

#[test]
fn a_text_trace_is_merged_from_standard_input() {
    let (folder, path, _) = recorded(Recording::default());
    let file = path.to_str().unwrap();
    let text = folder.path().join("t.tsv");
    std::fs::write(
        &text,
        stdout_of(&["export", file, "--format", "tsv", "--ordered"]),
    )
    .unwrap();
    let output = unspool(&["merge"])
        .stdin(File::open(&text).unwrap())
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
    assert!(output.stdout == stdout_of(&["merge", file]));
}

/// Records into a pipe that `unspool merge` reads, and gives what it wrote and said.
fn merged_while_written() -> (Output, Vec<u8>) {
    let (_folder, path, _) = recorded(Recording::default());
    let expected = stdout_of(&["merge", path.to_str().unwrap()]);
    let mut merge = unspool(&["merge", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pipe = File::from(std::os::fd::OwnedFd::from(merge.stdin.take().unwrap()));
    let recorder = std::thread::spawn(move || {
        let recording = Recording::default();
        record_to(
            TraceWriter::from_file(pipe, &header(recording)).unwrap(),
            recording,
        );
    });
    let output = merge.wait_with_output().unwrap();
    recorder.join().unwrap();
    (output, expected)
}

#[test]
fn a_trace_is_merged_while_it_is_written_into_a_pipe() {
    let (output, expected) = merged_while_written();
    assert!(output.stdout == expected);
}

#[test]
fn a_merge_from_a_pipe_has_no_complaints() {
    let (output, _) = merged_while_written();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn exports_go_to_files_too() {
    let (folder, path, _) = recorded(Recording {
        steps: 500,
        ..Recording::default()
    });
    let file = path.to_str().unwrap();
    let target = folder.path().join("out");
    for format in ["tsv", "csv", "json"] {
        let to_stdout = stdout_of(&["export", file, "--format", format]);
        let written = stdout_of(&[
            "export",
            file,
            "--format",
            format,
            "-o",
            target.to_str().unwrap(),
        ]);
        assert!(written.is_empty() && to_stdout.len() > 5000);
        assert!(std::fs::read(&target).unwrap() == to_stdout, "{format}");
    }
    assert!(stdout_of(&["export", file, "--format", "parquet"]).is_empty());
    for table in ["accesses", "events", "modules"] {
        let table = folder.path().join(format!("t.unspool.{table}.parquet"));
        assert!(std::fs::read(table).unwrap().starts_with(b"PAR1"));
    }
    assert!(stdout_of(&["export", file, "--format", "none"]).is_empty());
}

#[test]
fn what_lines_do_not_say_stands_beside_them() {
    let (folder, path, _) = recorded(Recording::default());
    let file = path.to_str().unwrap();
    let names = || -> Vec<_> {
        let entries = std::fs::read_dir(folder.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let described = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(folder.path().join(name)).unwrap()).unwrap()
    };
    // To standard output goes nothing else, and nowhere anything else unless it is asked for.
    stdout_of(&["export", file, "--format", "csv"]);
    stdout_of(&["export", file, "--format", "csv", "-o", "/dev/null"]);
    stdout_of(&["export", file, "--format", "json", "-o", "/dev/null"]);
    assert_eq!(names(), ["t.unspool"]);
    let named = folder.path().join("named");
    let named = named.to_str().unwrap();
    stdout_of(&["export", file, "--format", "tsv", "--description", named]);
    assert_eq!(names(), ["named", "t.unspool"]);

    let lines = folder.path().join("lines");
    let lines = lines.to_str().unwrap();
    for command in [
        &["export", file, "--format", "csv"][..],
        &["export", file, "--format", "tsv"],
        &["merge", file],
    ] {
        stdout_of(&[command, &["-o", lines]].concat());
        assert_eq!(described("lines.trace.json"), described("named"));
        std::fs::remove_file(folder.path().join("lines.trace.json")).unwrap();
    }
    let mut merge = unspool(&["merge", "-o", lines]);
    merge.stdin(File::open(&path).unwrap());
    assert!(merge.status().unwrap().success());
    assert_eq!(described("lines.trace.json"), described("named"));

    let description = described("named");
    assert_eq!(description["order"], "line-atomic");
    assert_eq!(description["arguments"][1], "4");
    assert_eq!(description["modules"][0]["base"], "0x400000");
    assert_eq!(description["complete"], true);
    let refused = ["export", file, "--format", "json", "--description", named];
    assert!(failure_of(&refused).contains("first line"));
}

#[test]
fn verify_says_yes_and_no() {
    let (_folder, path, _) = recorded(Recording {
        values: true,
        ..Recording::default()
    });
    let text = String::from_utf8(stdout_of(&["verify", path.to_str().unwrap()])).unwrap();
    assert!(text.starts_with("passed: "), "{text}");

    let recording = Recording {
        values: true,
        order: Order::None,
        ..Recording::default()
    };
    let (_folder, path, _) = recorded(recording);
    let output = run(&["verify", "--show", "3", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(ANSWER_IS_NO));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.matches("expected").count(), 3, "{text}");
    assert!(text.contains("failed"), "{text}");
    let output = run(&["verify", "--json", "--show", "2", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(ANSWER_IS_NO));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&json["passed"], &json["order"]),
        (&false.into(), &"none".into())
    );
    assert_eq!(json["mismatches"].as_array().unwrap().len(), 2);
    assert!(json["mismatch_count"].as_u64().unwrap() > 100);

    let (_folder, path, _) = recorded(Recording::default());
    let talk = failure_of(&["verify", path.to_str().unwrap()]);
    assert!(
        talk.contains("help: record them with unspool trace --verify"),
        "{talk}"
    );
}

#[test]
fn verify_never_passes_what_it_did_not_see() {
    let (_folder, cut) = cut_off();
    let cut = cut.to_str().unwrap();
    for arguments in [
        &["verify", cut][..],
        // A file that was cut off is not whole, however much of what is left is unchecked.
        &["verify", "--unchecked", "100", cut],
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(INPUT_DAMAGED));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.starts_with("partly checked: "), "{text}");
        assert!(text.contains("could not be checked\n"), "{text}");
    }
    let output = run(&["verify", "--json", cut]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["verdict"], "partly_checked");
    assert_eq!(
        (&json["passed"], &json["trace_is_whole"]),
        (&false.into(), &false.into())
    );
    assert!(json["unexplained_after_loss"].as_u64().unwrap() > 0);
    assert!(json["accesses_unchecked"].as_u64() < json["accesses"].as_u64());
}

#[test]
fn traces_are_read_from_pipes() {
    let (_folder, path, _) = recorded(Recording {
        values: true,
        ..Recording::default()
    });
    for arguments in [
        &["info", "-"][..],
        &["info", "/dev/stdin"],
        &["verify", "-"],
        &["export", "-", "--format", "csv"],
        &["replay-increments", "-", "--address", "0x7f0000001000"],
    ] {
        let through = |standard_input: Stdio| {
            let mut command = unspool(arguments);
            command.stdin(standard_input).stdout(Stdio::piped());
            command.stderr(Stdio::piped());
            command
        };
        let mut piped = through(Stdio::piped()).spawn().unwrap();
        let mut pipe = piped.stdin.take().unwrap();
        pipe.write_all(&std::fs::read(&path).unwrap()).unwrap();
        drop(pipe);
        let piped = piped.wait_with_output().unwrap();
        let talk = String::from_utf8_lossy(&piped.stderr);
        assert!(piped.status.success(), "{arguments:?}: {talk}");
        let file = File::open(&path).unwrap();
        let from_file = through(file.into()).output().unwrap();
        assert!(piped.stdout == from_file.stdout && !piped.stdout.is_empty());
    }
    let mut rubbish = unspool(&["info", "-"])
        .stdin(Stdio::from(File::open("/dev/zero").unwrap()))
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut talk = String::new();
    let mut pipe = rubbish.stderr.take().unwrap();
    pipe.read_to_string(&mut talk).unwrap();
    assert_eq!(rubbish.wait().unwrap().code(), Some(FAILED));
    assert!(talk.contains("not an Unspool trace"), "{talk}");
}

/// Whoever forgets the dashes before a program is told so, and nobody else is.
#[test]
fn a_program_is_no_trace() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text");
    std::fs::write(&text, "no program\n".repeat(20)).unwrap();
    // Shorter than the header of a trace.
    let [short, script] = ["short", "script"].map(|name| folder.path().join(name));
    std::fs::write(&short, "no program\n").unwrap();
    std::fs::write(&script, "#!/bin/true\n").unwrap();
    for (path, help) in [
        (Path::new("/bin/true"), "unspool race -- /bin/true"),
        (&text, "unspool merge"),
        (&short, "unspool merge"),
        (&script, "unspool race -- "),
    ] {
        for command in ["race", "info"] {
            let tried = unspool(&[command]).arg(path).output().unwrap();
            let talk = String::from_utf8_lossy(&tried.stderr);
            assert_eq!(tried.status.code(), Some(FAILED), "{talk}");
            assert!(talk.contains("not an Unspool trace"), "{talk}");
            assert!(talk.contains(help), "{talk}");
        }
    }
}

#[test]
fn increments_are_recounted() {
    let (_folder, path, truth) = recorded(Recording::default());
    let address = format!("{FIRST_WORD:#x}");
    let arguments = [
        "replay-increments",
        path.to_str().unwrap(),
        "--address",
        &address,
    ];
    let text = String::from_utf8(stdout_of(&arguments)).unwrap();
    for (thread, (increments, evens)) in truth.increments.iter().enumerate() {
        let line = format!(
            "\n{thread}\t-\t{increments}\t{evens}\t{}\t",
            truth.failed_swaps[thread]
        );
        assert!(text.contains(&line), "{line} is not in {text}");
    }
    let output = run(&[
        "replay-increments",
        path.to_str().unwrap(),
        "--address",
        "16",
    ]);
    assert_eq!(output.status.code(), Some(ANSWER_IS_NO));
}

#[test]
fn information_is_text_or_json() {
    let (_folder, path, _) = recorded(Recording::default());
    let text = String::from_utf8(stdout_of(&["info", path.to_str().unwrap()])).unwrap();
    assert!(
        text.contains("line-atomic") && text.contains("whole"),
        "{text}"
    );
    let json = stdout_of(&["info", "--json", path.to_str().unwrap()]);
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["schema"], "unspool-information");
    assert_eq!(json["counts"]["events"]["thread_start"], 4);
    let quick = stdout_of(&["info", "--json", "--quick", path.to_str().unwrap()]);
    let quick: serde_json::Value = serde_json::from_slice(&quick).unwrap();
    assert_eq!(
        (&quick["totals"], &quick["counts"]),
        (&json["totals"], &serde_json::Value::Null)
    );
}

#[test]
fn damage_is_told_and_the_rest_is_used() {
    let (_folder, cut) = cut_off();
    let cut = cut.to_str().unwrap();
    for arguments in [
        &["info", cut][..],
        &["verify", cut],
        &["merge", cut],
        &["export", cut, "--format", "csv"],
        &["replay-increments", cut, "--address", "0x7f0000001000"],
    ] {
        let output = run(arguments);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.code(),
            Some(INPUT_DAMAGED),
            "{arguments:?}: {talk}"
        );
        let told = if arguments[0] == "info" {
            &output.stdout
        } else {
            &output.stderr
        };
        assert!(
            !told.is_empty() && output.stdout.len() > 100,
            "{arguments:?}: {talk}"
        );
        assert!(!talk.contains("panicked"), "{talk}");
    }
}

#[test]
fn progress_is_told_on_request_and_of_long_work_only() {
    let (_folder, path, _) = recorded(Recording::default());
    let file = path.to_str().unwrap();
    for command in [
        &["export", file, "--format", "csv"][..],
        &["merge", file],
        &["export", file, "--format", "none"],
    ] {
        // Nobody is kept waiting by these.
        stdout_of(&[command, &["--progress", "always"]].concat());
    }
    // A pipe that gives its text late makes the same work long.
    let text = stdout_of(&["export", file, "--format", "tsv", "--ordered"]);
    let talk = |when: &str| {
        let mut merge = unspool(&["merge", "--progress", when]);
        let mut merge = merge
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = merge.stdin.take().unwrap();
        input.write_all(&text[..text.len() / 2]).unwrap();
        std::thread::sleep(Duration::from_millis(2500));
        input.write_all(&text[text.len() / 2..]).unwrap();
        drop(input);
        String::from_utf8(merge.wait_with_output().unwrap().stderr).unwrap()
    };
    let told = talk("always");
    assert!(told.starts_with("unspool: 0.") && told.contains(" million bytes, "));
    assert!(
        told.ends_with(" a second\n") && told.lines().count() == 1,
        "{told}"
    );
    assert_eq!([talk("auto"), talk("never")], ["", ""]);
}

/// A whole trace with a changed byte in the chunk at this share of the file.
fn changed_at(share: f64) -> (tempfile::TempDir, PathBuf) {
    let (folder, path, _) = recorded(Recording {
        flush_every: 20,
        ..Recording::default()
    });
    let mut bytes = std::fs::read(&path).unwrap();
    let at = (bytes.len() as f64 * share) as usize;
    bytes[at] ^= 0x41;
    std::fs::write(&path, bytes).unwrap();
    (folder, path)
}

#[test]
fn a_part_is_shown_without_the_rest_being_read() {
    let (_folder, whole, _) = recorded(Recording {
        flush_every: 20,
        ..Recording::default()
    });
    let shown = |path: &Path, options: &[&str]| {
        let output = run(&[&["show", path.to_str().unwrap()], options].concat());
        let lines = String::from_utf8(output.stdout).unwrap();
        let lines = lines.lines().filter(|line| !line.starts_with('#'));
        let lines: Vec<String> = lines.map(str::to_owned).collect();
        (output.status.code().unwrap(), lines)
    };
    let (_, all) = shown(&whole, &[]);
    let time = |line: &String| -> u64 { line.split(' ').next().unwrap().parse().unwrap() };
    let last = time(all.last().unwrap());
    let between = |from: u64, to: u64| -> Vec<String> {
        let lines = all.iter().filter(|line| (from..=to).contains(&time(line)));
        lines.cloned().collect()
    };
    let (late, early) = (last - last / 10, last / 10);
    for (share, option, bound, expected) in [
        (0.2, "--from", late, between(late, last)),
        (0.6, "--to", early, between(0, early)),
    ] {
        let (_folder, damaged) = changed_at(share);
        // The damage is in what is not asked for: it shows in the whole only.
        let (status, lines) = shown(&damaged, &[]);
        assert!(status == INPUT_DAMAGED && lines.len() < all.len());
        let bound = bound.to_string();
        assert_eq!(shown(&damaged, &[option, &bound]), (0, expected));
    }
    let (status, one) = shown(&whole, &["--thread", "2"]);
    assert!(status == 0 && one.len() > 500);
    let of_thread = |line: &&String| line.split_whitespace().nth(1) == Some("2");
    assert!(one.iter().eq(all.iter().filter(of_thread)));
    let address = format!("{FIRST_WORD:#x}");
    let (_, counter) = shown(&whole, &["--address", &address]);
    let touches = |line: &&String| line.contains(&format!("8 {address}"));
    assert!(counter.len() > 500 && counter.iter().eq(all.iter().filter(touches)));
}

#[test]
fn what_cannot_be_used_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let rubbish = folder.path().join("rubbish");
    std::fs::write(
        &rubbish,
        "not a trace at all, but long enough to hold a header\n",
    )
    .unwrap();
    let rubbish = rubbish.to_str().unwrap();
    for input in [rubbish, "/no/such/file", "/"] {
        for arguments in [
            &["info", input][..],
            &["verify", input],
            &["export", input, "--format", "tsv"],
            &["merge", input],
        ] {
            let talk = failure_of(arguments);
            assert!(talk.contains(input), "{arguments:?}: {talk}");
            assert!(!talk.contains('\x1b'), "colour outside a terminal: {talk}");
        }
    }
    let (_folder, path, _) = recorded(Recording {
        steps: 10,
        ..Recording::default()
    });
    let file = path.to_str().unwrap();
    failure_of(&[
        "export",
        file,
        "--format",
        "tsv",
        "-o",
        "/no/such/folder/out",
    ]);
    let full = failure_of(&["export", file, "--format", "csv", "-o", "/dev/full"]);
    assert!(full.contains("caused by: No space left"), "{full}");
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let (_folder, path, _) = recorded(Recording {
        steps: 50_000,
        ..Recording::default()
    });
    let mut export = unspool(&["export", path.to_str().unwrap(), "--format", "json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut some = [0; 100];
    export.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let output = export.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_merge_that_is_killed_leaves_the_file_as_it_was() {
    let (folder, path, _) = recorded(Recording::default());
    let text = stdout_of(&["export", path.to_str().unwrap(), "--format", "tsv"]);
    let inputs = [std::fs::read(&path).unwrap(), text];
    for (number, input) in inputs.iter().enumerate() {
        let target = folder.path().join(format!("merged-{number}"));
        let is_open = || {
            let mut entries = std::fs::read_dir(folder.path()).unwrap();
            let start = format!("merged-{number}.");
            entries.any(|entry| {
                let name = entry.unwrap().file_name().into_string().unwrap();
                name.starts_with(&start) && name.ends_with(".partial")
            })
        };
        std::fs::write(&target, "old").unwrap();
        let mut merge = unspool(&["merge", "-o", target.to_str().unwrap()])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut pipe = merge.stdin.take().unwrap();
        pipe.write_all(&input[..input.len() / 2]).unwrap();
        while !is_open() {
            assert_eq!(std::fs::read(&target).unwrap(), b"old");
            assert!(
                merge.try_wait().unwrap().is_none(),
                "it ended before its input"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        merge.kill().unwrap();
        merge.wait().unwrap();
        drop(pipe);
        assert_eq!(std::fs::read(&target).unwrap(), b"old");
        let whole = unspool(&["merge", "-o", target.to_str().unwrap()])
            .stdin(File::open(&path).unwrap())
            .status();
        assert!(whole.unwrap().success());
        assert!(std::fs::read(&target).unwrap() == stdout_of(&["merge", path.to_str().unwrap()]));
    }
}

#[test]
fn late_and_unreadable_lines_are_told() {
    let merge = |text: &str| {
        let mut merge = unspool(&["merge"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        merge
            .stdin
            .take()
            .unwrap()
            .write_all(text.as_bytes())
            .unwrap();
        merge.wait_with_output().unwrap()
    };
    let output = merge("2\t0\ttr\nrubbish\n1\t1\ttr\n");
    assert_eq!(output.status.code(), Some(INPUT_DAMAGED));
    assert_eq!(output.stdout, b"1\ttr\n0\ttr\n");
    assert!(String::from_utf8_lossy(&output.stderr).contains("line 2"));
    assert!(merge("").status.success());
}

#[test]
fn the_manual_and_the_completions_are_made() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("man/man1");
    stdout_of(&["manual-pages", target.to_str().unwrap()]);
    for page in ["unspool.1", "unspool-trace.1", "unspool-export.1"] {
        let text = std::fs::read_to_string(Path::new(&target).join(page)).unwrap();
        assert!(text.contains(".TH"), "{page}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = String::from_utf8(stdout_of(&["completions", shell])).unwrap();
        assert!(script.contains("registered-only"), "{shell}");
    }
}

#[test]
fn help_is_given_of_commands_and_the_book() {
    let help = |words: &[&str]| {
        let words: Vec<&str> = ["help"].iter().chain(words).copied().collect();
        String::from_utf8(stdout_of(&words)).unwrap()
    };
    assert!(help(&[]).contains("replay-increments"));
    assert!(help(&["tool", "run"]).contains("Usage: unspool tool run"));
    let contents = help(&["book"]);
    let chapters: Vec<&str> = contents
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next())
        .collect();
    assert!(chapters.contains(&"cookbook"), "{contents}");
    let all = help(&["book", "all"]);
    for chapter in chapters {
        let text = help(&["book", chapter]);
        assert!(text.starts_with("# "), "{chapter}");
        assert!(all.contains(&text), "{chapter}");
    }
    for wrong in [&["help", "no-such"][..], &["help", "book", "no-such"]] {
        let output = unspool(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{wrong:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("no-such"));
    }
}
