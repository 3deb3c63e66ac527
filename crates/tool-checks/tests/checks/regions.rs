//! Regions of a controller, in a guest of which it is known how many instructions are in them: three
//! threads, each of which calls `step` and `other` in turn, 900 times each, while signals come.

use std::process::Command;
use std::time::{Duration, Instant};

use unspool_guests::Ending;

use super::{agrees, build, under};

const THREADS: u64 = 3;
const STEPS: u64 = 900;
/// Instructions of `step`, and of `other`.
const LENGTH: u64 = 302;

/// What is told: instructions of `step` in regions, those of `other` there, those of `step`
/// elsewhere; regions begun and ended.
fn line([inside, others, missed, begun, ended]: [u64; 5]) -> String {
    format!(
        "regions: {inside} inside, {others} of others, {missed} missed, {begun} begun, {ended} ended, 0 wrong"
    )
}

/// The same of each thread, in calls.
fn of_threads(calls: [u64; 3], regions: u64) -> String {
    let [inside, others, missed] = calls.map(|calls| calls * LENGTH * THREADS);
    let regions = regions * THREADS;
    line([inside, others, missed, regions, regions])
}

fn tells(words: &[&str], expected: &str) {
    let Some((guest, program)) = build("functions/regions") else {
        return;
    };
    let tool = [&["regions"], words].concat();
    let outcome = under(&tool, &program, &guest.arguments, &tool.join("-"));
    let text = outcome.stderr_text();
    assert_eq!(outcome.ending, Ending::Exited(0), "{words:?}: {text}");
    assert_eq!(text.trim_end(), expected, "{words:?}");
    let said = format!("{STEPS} steps of each of {THREADS} threads\n");
    assert_eq!(outcome.stdout_text(), said);
}

#[test]
fn regions_are_bounded_by_routines() {
    // Several times: signals come anywhere.
    for _ in 0..10 {
        tells(&["each"], &of_threads([STEPS, 0, 0], STEPS));
        // Of four steps the last two, and between them one of the others.
        let half = STEPS / 2;
        tells(&["some"], &of_threads([half, STEPS / 4, half], STEPS / 4));
        tells(&["once"], &of_threads([5, 4, STEPS - 5], 1));
        tells(&["between"], &of_threads([half, half, half], half));
    }
}

#[test]
fn regions_of_all_threads_are_bounded_by_one() {
    let phase = STEPS / 3 * LENGTH * THREADS;
    tells(&["together"], &line([phase, phase, 2 * phase, 1, 1]));
}

#[test]
fn regions_are_bounded_by_what_the_program_says() {
    let (phase, all) = (STEPS / 3, STEPS);
    for _ in 0..10 {
        tells(&["marked"], &of_threads([phase, phase, all - phase], 1));
        // Nobody says it twice.
        tells(&["marked-twice"], &of_threads([0, 0, all], 0));
        let inside = phase * LENGTH * THREADS;
        tells(&["registered"], &line([inside, inside, 2 * inside, 1, 1]));
    }
}

#[test]
fn regions_are_bounded_by_an_instruction() {
    let Some((_, program)) = build("functions/regions") else {
        return;
    };
    let symbols = Command::new("nm").arg(&program).output().unwrap();
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let symbol = symbols.lines().find(|line| line.ends_with(" step_body"));
    let address = symbol.and_then(|line| line.split(' ').next()).unwrap();
    // The first instruction of each call is elsewhere.
    let calls = STEPS * THREADS;
    let expected = line([calls * (LENGTH - 1), 0, calls, calls, calls]);
    tells(&["address", address], &expected);
}

#[test]
fn regions_are_as_many_instructions_as_told() {
    let is_told = |line: &str| line.contains(" regions, ");
    for lengths in [["1", "1"], ["1000", "500"], ["64", "4000"]] {
        let tool = [&["counted-regions"], &lengths[..]].concat();
        agrees(&tool, "functions/regions", |line| {
            is_told(line).then_some(line == "many regions, 0 late, none wrong")
        });
    }
    for guest in [
        "processes/fork_tree",
        "threads/create_and_join_often",
        "signals/registers_kept",
        "signals/fault_repaired",
    ] {
        agrees(&["counted-regions", "64", "4000"], guest, |line| {
            is_told(line).then(|| line.ends_with(" regions, 0 late, none wrong"))
        });
    }
    // What is counted outside regions is found out.
    let tool = ["counted-regions", "1000", "500", "elsewhere"];
    agrees(&tool, "functions/regions", |line| {
        is_told(line).then_some(line == "many regions, 0 late, some wrong")
    });
}

/// What the tool says that looks when regions of such lengths, in milliseconds, begin and end; the guest
/// ends when it has seen eight of that, or at the limit.
fn timed(lengths: [u64; 2], limit: u64) -> Option<String> {
    let (_, program) = build("functions/timed")?;
    let lengths = lengths.map(|length| length.to_string());
    let tool = ["timed-regions", &lengths[0], &lengths[1]];
    let outcome = under(&tool, &program, &[limit.to_string()], &tool.join("-"));
    let text = outcome.stderr_text();
    assert_eq!(outcome.ending, Ending::Exited(0), "{lengths:?}: {text}");
    assert_eq!(outcome.stdout_text(), "2 threads\n");
    Some(text.trim_end().to_owned())
}

/// How much of their time had passed at the soonest, in percent, where both threads have seen enough.
fn soonest(text: &str) -> u64 {
    let all = text.strip_prefix("timed: 2 have seen enough, from ");
    let all = all.and_then(|text| text.strip_suffix(" % of the time on, something inside"));
    all.and_then(|percent| percent.parse().ok())
        .unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn regions_are_bounded_by_time() {
    // Before its time none begins.
    let Some(text) = timed([3_600_000, 1], 100) else {
        return;
    };
    assert_eq!(text, "timed: 0 have seen enough, never, nothing inside");
    for lengths in [[20, 10], [3, 15]] {
        let text = timed(lengths, 60_000).unwrap();
        assert!(soonest(&text) >= 100, "{lengths:?}: {text}");
    }
}

/// A machine that has much to do makes time late, never early, and not always half as long again; a
/// clock that went at half or twice the speed would be early each time, or as late each time. The test
/// looks at a clock of its own, too.
#[test]
fn time_of_regions_is_neither_halved_nor_doubled() {
    const LENGTHS: [u64; 2] = [300, 150];
    let least = Duration::from_millis(4 * (LENGTHS[0] + LENGTHS[1]));
    let mut all = Vec::new();
    for _ in 0..5 {
        let began = Instant::now();
        let Some(text) = timed(LENGTHS, 60_000) else {
            return;
        };
        let (took, percent) = (began.elapsed(), soonest(&text));
        assert!(took >= least, "it took {took:?}, not {least:?}");
        assert!(percent >= 100, "{text}");
        if percent < 150 {
            return;
        }
        all.push(percent);
    }
    panic!("always late: {all:?} % of the time");
}

/// The lines that are told of a program, but for what the tool itself says at each process's end.
fn warned(words: &[&str], guest: &str) -> Option<Vec<String>> {
    let (guest, program) = build(guest)?;
    let tool = [&["regions", "named"], words].concat();
    let outcome = under(&tool, &program, &guest.arguments, &tool.join("-"));
    let text = outcome.stderr_text();
    assert_eq!(outcome.ending, Ending::Exited(0), "{words:?}: {text}");
    let lines = text.lines().filter(|line| !line.starts_with("regions: "));
    Some(lines.map(str::to_owned).collect())
}

#[test]
fn routines_that_are_nowhere_are_told() {
    let Some(lines) = warned(&["stepp", "other"], "functions/regions") else {
        return;
    };
    let [warning, help] = &lines[..] else {
        panic!("{lines:?}");
    };
    let start = "warning: regions are to begin where `stepp` is entered, but process ";
    assert!(warning.starts_with(start), "{warning}");
    assert!(warning.contains("no such routine: /"), "{warning}");
    assert!(warning.contains("/libc.so.6"), "{warning}");
    assert!(help.starts_with("help: there is `step`"), "{help}");
    // The control: both are there.
    let lines = warned(&["step", "other"], "functions/regions");
    assert_eq!(lines, Some(vec![]));
}

#[test]
fn routines_of_libraries_that_come_later_are_found() {
    let guest = "functions/libraries_and_threads";
    let Some(lines) = warned(&["hammered", "hammered"], guest) else {
        return;
    };
    assert_eq!(lines, [""; 0]);
    let lines = warned(&["hammered", "not_hammered"], guest).unwrap();
    let start = "warning: regions are to end where `not_hammered` is left, but process ";
    assert!(lines[0].starts_with(start), "{lines:?}");
    assert!(lines[0].contains("/hammered.so"), "{lines:?}");
}

/// Forked children know no more than their parent.
#[test]
fn routines_that_are_nowhere_are_told_once() {
    let Some(lines) = warned(&["not_grown", "not_grown"], "processes/fork_tree") else {
        return;
    };
    let warnings = lines.iter().filter(|line| line.starts_with("warning: "));
    assert_eq!(warnings.count(), 2, "{lines:?}");
}

/// What of `step` a tool counts that is told to look at a part of a run, in calls, for each process.
fn counted(control: &str, command: &[String]) -> Vec<u64> {
    let tool = ["part", "--control", control];
    let (program, arguments) = command.split_first().expect("a program");
    let outcome = under(
        &tool,
        program.as_ref(),
        arguments,
        &format!("part-{control}"),
    );
    let text = outcome.stderr_text();
    assert_eq!(outcome.ending, Ending::Exited(0), "{control}: {text}");
    let numbers = text.lines().filter_map(|line| line.strip_prefix("part: "));
    let numbers = numbers.map(|number| number.parse::<u64>().unwrap() / LENGTH);
    numbers.collect()
}

/// A tool that knows nothing of regions looks at those that its user wants. The second phase is known.
#[test]
fn users_say_at_which_part_a_tool_looks() {
    let Some((_, program)) = build("functions/regions") else {
        return;
    };
    let program = program.display().to_string();
    let phase = STEPS / 3 * THREADS;
    for (control, expected) in [
        ("start:enter_func:begin_all,stop:enter_func:end_all", phase),
        ("start:enter_func:begin_all,stop:exit_func:end_all", phase),
        ("start:enter_func:begin_all", 2 * phase),
        ("start:enter_func:begin_all,stop:timeout:3600", 2 * phase),
        ("start:timeout:3600", 0),
        ("start:enter_func:main", 3 * phase),
        ("start:icount:1000000000", 0),
        // Each thread passes its first steps and none behind them.
        ("start:enter_func:step:count1000000", 0),
    ] {
        assert_eq!(
            counted(control, std::slice::from_ref(&program)),
            [expected],
            "{control}"
        );
    }
    // In a program that another one has become it is the same.
    let script = format!("exec {program}");
    let command = ["sh", "-c", &script].map(str::to_owned);
    let told = counted(
        "start:enter_func:begin_all,stop:enter_func:end_all",
        &command,
    );
    assert_eq!(told, [0, phase]);
    let tool = ["part", "--control", "begin_all"];
    let outcome = under(&tool, program.as_ref(), &[], "part-of-nothing");
    assert_eq!(outcome.ending, Ending::Exited(125));
    let text = outcome.stderr_text();
    assert!(
        text.contains("--control: `begin_all` does not say"),
        "{text}"
    );
}
