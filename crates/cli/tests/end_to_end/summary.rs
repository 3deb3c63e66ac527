//! What the user is told of a recording at its end, and what the file keeps of it.

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::{Ending, Outcome};

use crate::observer::{Verdict, natively, run, run_well, traced, trial, unspool, wrong};
use crate::order::guest_command;
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial(
            "summary::counts_and_the_way_to_the_slowdown".to_owned(),
            counts,
        ),
        trial("summary::slowdown".to_owned(), slowdown),
        trial(
            "summary::input_that_cannot_be_read_twice".to_owned(),
            input_that_cannot_be_read_twice,
        ),
        trial("summary::of_the_whole_run".to_owned(), whole_run),
        trial("summary::of_a_run_into_a_pipe".to_owned(), into_a_pipe),
        trial("summary::of_killed_children".to_owned(), killed_children),
        trial("summary::strict_is_the_first_process_s".to_owned(), strict),
    ]
}

/// The line that tells what was recorded.
fn summary_of(outcome: &Outcome) -> Result<String, Verdict> {
    let text = outcome.stderr_text();
    let line = text
        .lines()
        .find(|line| line.starts_with("unspool: process "));
    line.map(str::to_owned)
        .ok_or_else(|| Verdict::Wrong(format!("there is no summary in: {text}")))
}

/// The totals as `info --json` has them.
fn totals(scratch: &Scratch, file: &std::path::Path) -> Result<Value, Verdict> {
    let info = unspool(
        scratch,
        &["info".as_ref(), "--json".as_ref(), file.as_os_str()],
    );
    let outcome = run(scratch, &info)?;
    let parsed: Result<Value, _> = serde_json::from_slice(&outcome.stdout);
    parsed
        .map(|information| information["totals"].clone())
        .map_err(|problem| wrong(&format!("JSON: {problem}"), &info, &outcome))
}

fn expect(what: &str, holds: bool, found: &dyn std::fmt::Display) -> Result<(), Verdict> {
    match holds {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{what}, but: {found}"))),
    }
}

/// The summary's numbers are those of the file; a file that was cut off tells no measurements.
fn counts(scratch: &Scratch) -> Result<(), Verdict> {
    let command = guest_command("order/increment", &["3", "300"])?;
    let file = scratch.path().join("counted.unspool");
    let outcome = run_well(scratch, &traced(scratch, &[], &file, &command))?;
    let line = summary_of(&outcome)?;
    let totals_whole = totals(scratch, &file)?;
    let number = |name: &str| totals_whole[name].as_u64().unwrap_or(0);
    let parts = [
        "4 threads".to_owned(),
        format!("{} accesses", number("accesses")),
        format!("{} bytes", number("file_bytes")),
        "slowdown: --measure-slowdown".to_owned(),
        "nothing dropped".to_owned(),
    ];
    for part in parts {
        expect(&format!("`{part}` is said"), line.contains(&part), &line)?;
    }
    let measured = number("translated_code_bytes") > 1000
        // Four threads, of which all but perhaps one had a buffer at the same time.
        && number("buffer_bytes") >= 3 * 8 * (1 << 15)
        && number("processor_ns") > 0
        && totals_whole["slowdown"].is_null();
    expect(
        "code, buffers and time are measured",
        measured,
        &totals_whole,
    )?;

    let mut bytes = std::fs::read(&file)?;
    bytes.truncate(bytes.len() * 9 / 10);
    std::fs::write(&file, bytes)?;
    let totals_cut = totals(scratch, &file)?;
    let absent = ["translated_code_bytes", "buffer_bytes", "processor_ns"]
        .iter()
        .all(|name| totals_cut[*name].is_null());
    expect("a file that was cut off tells none", absent, &totals_cut)
}

/// The program runs natively first; only what the observed run prints is seen.
fn slowdown(scratch: &Scratch) -> Result<(), Verdict> {
    let input = scratch.work().join("input");
    let lines: String = (0..60_000)
        .map(|number| format!("{}\n", number * 7919 % 60_013))
        .collect();
    std::fs::write(&input, lines)?;
    let file = scratch.path().join("slowdown.unspool");
    // `tee` notes each run in a file: it is run twice.
    let script = "sort -n | tee -a sorted; echo done >&2";
    let command = ["bash", "-c", script];
    let options = ["--measure-slowdown", "--order", "ticket"];
    let native = run_well(scratch, &natively(scratch, &command).stdin(&input))?;
    std::fs::remove_file(scratch.work().join("sorted"))?;
    let observed_run = traced(scratch, &options, &file, &command).stdin(&input);
    let observed = run_well(scratch, &observed_run)?;
    let twice = native.stdout.len() * 2;
    let sorted = std::fs::read(scratch.work().join("sorted"))?.len();
    if observed.stdout != native.stdout || sorted != twice {
        return Err(wrong(
            "both runs read all, one is seen",
            &observed_run,
            &observed,
        ));
    }
    expect(
        "standard error is seen once",
        observed.stderr_text().matches("done").count() == 1,
        &observed.stderr_text(),
    )?;
    let line = summary_of(&observed)?;
    let told: Option<f64> = line
        .split_once("slowdown ")
        .and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    let told = told.ok_or_else(|| Verdict::Wrong(format!("no slowdown in: {line}")))?;
    let totals = totals(scratch, &file)?;
    let kept = totals["slowdown"].as_f64().unwrap_or(0.0);
    expect("observing is slower", kept > 1.0, &totals)?;
    expect(
        "summary and file agree",
        (told - kept).abs() <= 0.06,
        &format!("{told} and {kept}"),
    )
}

fn input_that_cannot_be_read_twice(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("piped.unspool");
    let piped = traced(scratch, &["--measure-slowdown"], &file, &["cat"]);
    let script = format!("echo text | ({})", piped.command_line());
    let refused = natively(scratch, &["bash", "-c", &script]);
    let outcome = run(scratch, &refused)?;
    let told = outcome.stderr_text().contains("help: ");
    match outcome.ending {
        Ending::Exited(125) if told && outcome.stdout.is_empty() => Ok(()),
        _ => Err(wrong("refused with a way out", &refused, &outcome)),
    }
}

/// The sum over the files in a folder, as `info --json` has it.
fn sum_of(scratch: &Scratch, folder: &std::path::Path, name: &str) -> Result<u64, Verdict> {
    let mut sum = 0;
    for entry in std::fs::read_dir(folder)? {
        sum += totals(scratch, &entry?.path())?[name].as_u64().unwrap_or(0);
    }
    Ok(sum)
}

/// Programs that take the place of others, children, and children's children: one line tells of
/// all, at the end, and none of the traces of another run beside them.
fn whole_run(scratch: &Scratch) -> Result<(), Verdict> {
    let folder = scratch.path().join("traces");
    std::fs::create_dir(&folder)?;
    let file = folder.join("run.unspool");
    let others = scratch.path().join("others");
    run_well(
        scratch,
        &traced(scratch, &[], &file, &["bash", "-c", "ls; true"]),
    )?;
    std::fs::rename(&folder, &others)?;
    std::fs::create_dir(&folder)?;
    for entry in std::fs::read_dir(&others)? {
        let name = entry?.file_name();
        if name != "run.unspool" {
            std::fs::copy(others.join(&name), folder.join(&name))?;
        }
    }
    let before = sum_of(scratch, &folder, "accesses")?;
    let script = "ls /usr > /dev/null; (exit 3); sh -c 'echo | cat'; exec sort /etc/passwd";
    let observed = traced(scratch, &[], &file, &["env", "A=B", "bash", "-c", script]);
    let outcome = run_well(scratch, &observed)?;
    let lines = outcome.stderr_text().matches("unspool: process ").count();
    expect("there is one line", lines == 1, &outcome.stderr_text())?;
    let line = summary_of(&outcome)?;
    // env, bash and sort are one process, with three traces.
    expect(
        "others are counted",
        line.contains(" others, ") && line.contains(" traces: "),
        &line,
    )?;
    let accesses = sum_of(scratch, &folder, "accesses")? - before;
    let told = format!("{accesses} accesses");
    expect(&format!("`{told}` is said"), line.contains(&told), &line)?;
    expect(
        "nothing is missing",
        line.ends_with("; nothing dropped"),
        &line,
    )
}

/// Where children have nowhere to write, the line says that it does not speak for them.
fn into_a_pipe(scratch: &Scratch) -> Result<(), Verdict> {
    for (destination, command) in [
        ("-o - 2> talk", "env A=B ls /usr"),
        ("--discard 2> talk", "bash -c 'ls /usr; true'"),
        ("--discard 2> talk", "env A=B ls /usr"),
    ] {
        let (options, rest) = destination.split_once(" 2>").unwrap_or((destination, ""));
        let script = format!(
            "'{}' trace {options} -- {command} 2>{rest} | cat > copied",
            crate::observer::COMMAND.display()
        );
        run_well(scratch, &natively(scratch, &["bash", "-euc", &script]))?;
        let talk = std::fs::read_to_string(scratch.work().join("talk"))?;
        let honest =
            talk.contains("what other processes and programs of the run recorded is not known");
        expect(&format!("{command}: others are not known"), honest, &talk)?;
    }
    let alone = run_well(
        scratch,
        &unspool(scratch, &["trace", "--discard", "--", "ls"]),
    )?;
    let line = summary_of(&alone)?;
    expect(
        "one that is alone is known",
        !line.contains("not known"),
        &line,
    )
}

/// A child that was killed, and one that runs on.
fn killed_children(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("killed.unspool");
    // A child's trace counts once it is there, which the parent does not wait for by itself. It has
    // two: of the shell, which is whole when `sleep` takes its place, and of that.
    let script = "
        started() { until [ -s ../killed.$1.2.unspool ]; do sleep 0.05; done; }
        sleep 1000 & started $!; sleep 1; kill -9 $!; wait
        exec 2> talk; sleep 1000 & echo $! > left; started $!";
    let command = ["bash", "-c", script];
    let outcome = run_well(scratch, &traced(scratch, &[], &file, &command))?;
    let line = summary_of(&outcome)?;
    let left = std::fs::read_to_string(scratch.work().join("left"))?;
    run_well(scratch, &natively(scratch, &["kill", "-9", left.trim()]))?;
    expect("one is cut off", line.contains("; 1 trace CUT OFF"), &line)?;
    let open = line.contains("still being written, counted so far");
    expect("one is being written", open, &line)
}

/// A child for whose trace there is no room ends as its parent expects; the run does not.
fn strict(scratch: &Scratch) -> Result<(), Verdict> {
    let guest = guest_command("order/increment", &["2", "200000"])?;
    let command = format!("'{}' 2 200000", guest[0].display());
    let script = format!(
        "(trap '' XFSZ; ulimit -f 100; exec {command}) > /dev/null; echo status $?; exit 7"
    );
    for (options, status) in [(&["--verify", "--strict"][..], 125), (&["--verify"], 7)] {
        let file = scratch.path().join(format!("strict{status}.unspool"));
        let observed = traced(scratch, options, &file, &["bash", "-c", &script]);
        let outcome = run(scratch, &observed)?;
        if outcome.ending != Ending::Exited(status) || outcome.stdout_text() != "status 0\n" {
            return Err(wrong("the run's status alone tells", &observed, &outcome));
        }
    }
    Ok(())
}
