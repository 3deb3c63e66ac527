//! What the tools of this crate find under the guests.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

#[path = "checks/added.rs"]
mod added;
#[path = "checks/appended.rs"]
mod appended;
#[path = "checks/changed.rs"]
mod changed;
#[path = "checks/consumed.rs"]
mod consumed;
#[path = "checks/each_access.rs"]
mod each_access;
#[path = "checks/endless.rs"]
mod endless;
#[path = "checks/grown.rs"]
mod grown;
#[path = "checks/inlining.rs"]
mod inlining;
#[path = "checks/memory_values.rs"]
mod memory_values;
#[path = "checks/raised.rs"]
mod raised;
#[path = "checks/regions.rs"]
mod regions;
#[path = "checks/rewritten.rs"]
mod rewritten;
#[path = "checks/shadows.rs"]
mod shadows;
#[path = "checks/shortage.rs"]
mod shortage;
#[path = "checks/state.rs"]
mod state;
#[path = "checks/synchronised.rs"]
mod synchronised;
#[path = "checks/told.rs"]
mod told;
#[path = "checks/versions.rs"]
mod versions;
#[path = "checks/writes.rs"]
mod writes;

use unspool_guests::{Comparison, Ending, Guest, Invocation, Outcome, Workshop};

const LIMIT: Duration = Duration::from_secs(120);

static WORKSHOP: LazyLock<Workshop> = LazyLock::new(|| {
    Workshop::new(&Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("tool-checks-guests"))
});

/// A guest's program; `None`, with the reason said, where it cannot be built or run here.
fn build(name: &str) -> Option<(Guest, PathBuf)> {
    let guest = unspool_guests::guests()
        .into_iter()
        .find(|guest| guest.name == name)
        .expect("there is such a guest");
    let missing = guest
        .requirements
        .iter()
        .find_map(unspool_guests::Requirement::reason_missing);
    if let Some(reason) = missing {
        eprintln!("{name} is left out: {reason}");
        return None;
    }
    match WORKSHOP.build(&guest, "") {
        Ok(program) => Some((guest, program)),
        Err(error) => {
            eprintln!("{name} is left out: {error}");
            None
        }
    }
}

fn run(invocation: Invocation, test: &str) -> Outcome {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test.replace('/', "-"));
    std::fs::create_dir_all(&scratch).unwrap();
    let outcome = invocation
        .folder(&scratch)
        .limit(LIMIT)
        .run(&scratch)
        .unwrap();
    let _ = std::fs::remove_dir_all(&scratch);
    outcome
}

/// A program under a tool.
fn under(tool: &[&str], program: &Path, arguments: &[String], test: &str) -> Outcome {
    let invocation = Invocation::new(env!("CARGO_BIN_EXE_tool-checks"))
        .arguments(tool)
        .arguments(["--"])
        .arguments([program])
        .arguments(arguments);
    run(invocation, test)
}

/// The guest behaves as it does natively, and what the tool says at the end of each process
/// fits. `said` tells whether a line is the tool's, and if so whether it fits. What fails says how
/// the program has ended and all that was written: a program that ends early says why itself.
fn agrees(tool: &[&str], name: &str, said: impl Fn(&str) -> Option<bool>) {
    if let Some((guest, program)) = build(name) {
        agrees_built(tool, &guest, &program, said);
    }
}

/// The same of a guest that is built, with the arguments that it has.
fn agrees_built(tool: &[&str], guest: &Guest, program: &Path, said: impl Fn(&str) -> Option<bool>) {
    let name = &guest.name;
    let test = format!("{}-{name}", tool.join("-"));
    let native = run(Invocation::new(program).arguments(&guest.arguments), &test);
    let observed = under(tool, program, &guest.arguments, &test);
    let text = observed.stderr_text();
    let circumstances = format!(
        "{} under {tool:?} ended: {:?} (natively: {:?})\nits output:\n{}\nits error output, and what was told:\n{text}",
        program.display(),
        observed.ending,
        native.ending,
        observed.stdout_text(),
    );
    let (mut told, mut rest) = (0, String::new());
    for line in text.lines() {
        match said(line) {
            Some(fits) => {
                assert!(fits, "{name}: {line}\n{circumstances}");
                told += 1;
            }
            None => rest += &format!("{line}\n"),
        }
    }
    assert_eq!(observed.ending, native.ending, "{circumstances}");
    if guest.comparison == Comparison::Output {
        let (output, errors) = (native.stdout_text(), native.stderr_text());
        assert_eq!(observed.stdout_text(), output, "{circumstances}");
        assert_eq!(rest.trim_end(), errors.trim_end(), "{circumstances}");
    }
    let is_killed = native.ending == Ending::Signalled(9);
    assert!(told > 0 || is_killed, "nothing was told: {circumstances}");
}

fn entries_line(line: &str) -> Option<bool> {
    line.starts_with("entries ")
        .then(|| line.starts_with("entries as counted: "))
}

/// A program that loops hands over nearly full buffers by calls: without a look at them it would fill
/// each to its end.
#[test]
fn loops_hand_over_buffers_before_their_end() {
    let early = |line: &str| {
        let told = entries_line(line)?;
        Some(told && !line.ends_with(" 0 early"))
    };
    agrees(&["entries"], "order/increment", early);
}

/// Faults, traps, signals, threads, processes: buffers hold what counters count.
#[test]
fn entries_are_what_is_counted() {
    const GUESTS: &[&str] = &[
        "instructions/counted",
        "instructions/strings",
        "instructions/flags",
        "instructions/avx2",
        "signals/exact_context",
        "signals/changed_context",
        "signals/fault_repaired",
        "signals/fault_escaped",
        "signals/timers",
        "signals/to_threads",
        "signals/death_by_segv",
        "signals/red_zone",
        "signals/registers_kept",
        "control/long_jumps",
        "control/odd_returns",
        "control/unwinding",
        "threads/create_and_join_often",
        "threads/exit_while_others_run",
        "threads/mutex_kinds",
        "processes/fork_tree",
        "processes/fork_among_threads",
        "processes/vfork",
        "processes/execute",
        "processes/execute_from_thread",
        "processes/shared_memory_for_good",
        "memory/self_modifying",
        "memory/generated_code",
        "cxx/exceptions",
    ];
    for name in GUESTS {
        agrees(&["entries"], name, entries_line);
    }
}

/// A thread that has joined another one finds that the tool knows of its end.
#[test]
fn ends_are_told_before_they_are_seen() {
    agrees(&["ends"], "threads/create_and_join_often", |line| {
        let rest = line.strip_prefix("ends: ")?;
        let fits = rest.starts_with("0 before they were told, 0 without their last entries");
        Some(fits && !rest.ends_with(" of 0"))
    });
}

fn call_paths_line(line: &str) -> Option<bool> {
    line.starts_with("call paths: ")
        .then(|| line.starts_with("call paths: 0 different of "))
}

/// What is found by unwinding is what was followed call by call.
#[test]
fn call_paths_are_the_calls_that_were_made() {
    const GUESTS: &[&str] = &[
        "control/long_jumps",
        "control/unwinding",
        "memory/generated_code",
        "threads/create_and_join_often",
        "processes/fork_tree",
    ];
    for name in GUESTS {
        agrees(&["call-paths"], name, call_paths_line);
    }
}

/// A program of the machine, with libraries of other compilers' making; and a list with a gap, which
/// must be noticed.
#[test]
fn call_paths_in_a_program_of_the_machine() {
    let arguments = [
        "-c".to_owned(),
        "import json; print(json.dumps([1] * 99))".to_owned(),
    ];
    let python = Path::new("/usr/bin/python3");
    let outcome = under(&["call-paths"], python, &arguments, "call-paths-python");
    let text = outcome.stderr_text();
    assert_eq!(call_paths_line(text.trim_end()), Some(true), "{text}");
    let spoilt = under(
        &["call-paths", "spoilt"],
        python,
        &arguments,
        "call-paths-spoilt",
    );
    let text = spoilt.stderr_text();
    assert_eq!(call_paths_line(text.trim_end()), Some(false), "{text}");
}

/// Calls that the guest counts itself are seen to end, and each as the one that was entered.
#[test]
fn calls_end_as_they_were_entered() {
    let name = "functions/nested";
    agrees(&["calls"], name, |line| {
        line.starts_with("calls ")
            .then(|| line.starts_with("calls agree: "))
    });
    let (guest, program) = build(name).expect("it needs nothing but gcc");
    let observed = under(&["calls"], &program, &guest.arguments, "calls");
    let (told, counted) = (observed.stderr_text(), observed.stdout_text());
    let counted = format!("calls agree: {}", counted.trim_end());
    assert!(
        told.lines().any(|line| line == counted),
        "{counted}: {told}"
    );
}

/// The control: arguments that are not what they were are noticed.
#[test]
fn other_arguments_at_the_end_are_noticed() {
    let (guest, program) = build("functions/nested").expect("it needs nothing but gcc");
    let tool = ["calls", "spoilt"];
    let text = under(&tool, &program, &guest.arguments, "calls-spoilt").stderr_text();
    assert!(text.contains("calls do NOT agree"), "{text}");
}

/// The control: an entry too many is noticed.
#[test]
fn an_entry_too_many_is_noticed() {
    let (guest, program) = build("instructions/counted").expect("it needs nothing but gcc");
    let observed = under(&["entries", "spoilt"], &program, &guest.arguments, "spoilt");
    let text = observed.stderr_text();
    assert!(text.contains("entries NOT as counted"), "{text}");
}

/// Rounds of the guest `instructions/marked`, in both threads together.
const ROUNDS: i64 = 6000;

/// What the guest and the tool tell of the markers, and what the guest says was changed.
fn marked(words: &[&str], test: &str) -> (String, String, String) {
    let (_, program) = build("instructions/marked").expect("it needs nothing but gcc");
    let observed = under(&[&["arguments"], words].concat(), &program, &[], test);
    let text = observed.stderr_text();
    assert_eq!(observed.ending, Ending::Exited(0), "{text}");
    let said = observed.stdout_text();
    let (changed, told): (Vec<&str>, Vec<&str>) =
        said.lines().partition(|line| line.starts_with("changed"));
    (changed.join("\n"), told.join("\n"), text)
}

/// Functions get the values that the guest computes, and what they change is changed.
#[test]
fn arguments_are_what_the_program_has() {
    for words in [
        &[][..],
        &["gated"],
        &["rarely"],
        &["buffered"],
        &["followed"],
        &["followed", "gated"],
        &["followed", "rarely"],
    ] {
        let (changed, told, text) = marked(words, &format!("arguments{}", words.concat()));
        assert_eq!(text.trim_end(), format!("{told}\n0 wrong"), "{words:?}");
        // Markers 16 and 17 skip an addition, 18 a jump over one; 12 skips another one. 24 skips a
        // call, 25 a return before an addition, 26 a system call, which leaves its number; 27 to 29
        // lead over an addition, from behind an instruction, a jump, and one that is not made.
        let expected = [
            (2, 37 * 1000 + 1),
            (12, 5 * 1000 + 7),
            (16, -1),
            (17, -1),
            (18, 1),
            (21, 64),
            (24, -1),
            (25, 10),
            (26, 110),
            (27, -1),
            (28, -1),
            (29, -1),
        ];
        let expected = expected.map(|(marker, by)| format!("changed {marker} by {}", by * ROUNDS));
        assert_eq!(changed, expected.join("\n"), "{words:?}");
    }
}

/// The control: a wrong value is noticed.
#[test]
fn a_wrong_argument_is_noticed() {
    let (_, told, text) = marked(&["spoilt"], "arguments-spoilt");
    assert_ne!(text.trim_end(), format!("{told}\n0 wrong"));
}

/// A tool's function that fails is to blame, wherever its code is. The control: the same program
/// under a tool that does not fail ends well.
#[test]
fn failures_are_the_tools() {
    let (_, program) = build("instructions/counted").expect("it needs nothing but gcc");
    for kind in ["panic", "fault"] {
        for way in ["copied", "looping", "floating", "rarely"] {
            let tool = ["failing", kind, way];
            let outcome = under(&tool, &program, &[], &tool.join("-"));
            let text = outcome.stderr_text();
            assert_eq!(outcome.ending, Ending::Exited(125), "{tool:?}: {text}");
            assert!(text.contains("the tool failed: "), "{tool:?}: {text}");
            let line = text.contains("failing.rs:");
            assert!(line || kind == "fault", "{tool:?}: {text}");
        }
    }
}

/// What does not fit at once is done in parts, and what cannot fit is said.
#[test]
fn insertions_that_do_not_fit() {
    let (_, program) = build("instructions/counted").expect("it needs nothing but gcc");
    let outcome = under(&["crowded"], &program, &[], "crowded");
    let text = outcome.stderr_text();
    let mut words = text.split_whitespace();
    let (executed, rounds) = (words.next(), words.nth(1));
    assert!(
        executed.is_some() && outcome.ending == Ending::Exited(0),
        "{text}"
    );
    // The instructions that fault, five of them, are begun twice.
    let number = |word: Option<&str>| word.and_then(|it| it.parse::<u64>().ok());
    assert_eq!(number(executed).map(|it| it + 5), number(rounds), "{text}");
    let outcome = under(&["crowded", "too-much"], &program, &[], "too-much");
    let text = outcome.stderr_text();
    assert!(text.contains("the tool has more inserted"), "{text}");
    assert_ne!(outcome.ending, Ending::Exited(0), "{text}");
}

/// The alignment-check flag is the program's alone.
#[test]
fn functions_need_not_align_what_they_access() {
    for way in ["copied", "looping", "floating", "rarely"] {
        agrees(
            &["misaligned", way],
            "instructions/alignment_check",
            |line| {
                line.starts_with("misaligned: ")
                    .then(|| line.starts_with("misaligned: as many"))
            },
        );
    }
}

fn says(start: &'static str, good: &'static str) -> impl Fn(&str) -> Option<bool> {
    move |line| {
        line.starts_with(start)
            .then(|| line[start.len()..].starts_with(good))
    }
}

/// However many addresses are in an entry, and whatever registers they are made of, they are what a
/// function called there gets. The control: not what another one gets.
#[test]
fn wide_entries_are_what_is_called_with() {
    for name in [
        "instructions/strings",
        "threads/mutex_kinds",
        "cxx/exceptions",
    ] {
        agrees(&["wide"], name, says("wide entries ", "as called"));
    }
    let (guest, program) = build("instructions/strings").expect("it needs nothing but gcc");
    let spoilt = under(
        &["wide", "spoilt"],
        &program,
        &guest.arguments,
        "spoilt-wide",
    );
    let text = spoilt.stderr_text();
    assert!(text.contains("wide entries NOT as called"), "{text}");
}

/// Sampled calls come at the n-th passage, and calls behind a test of shadow memory exactly where
/// calls each time find a mark.
#[test]
fn rare_calls_are_made_when_due() {
    for name in [
        "instructions/counted",
        "instructions/strings",
        "threads/mutex_kinds",
        "signals/timers",
    ] {
        agrees(&["rarely"], name, says("rare calls ", "as often as due"));
    }
    // Signals that come in all places where a thread may be stepped through such a call.
    for _ in 0..10 {
        let said = says("rare calls ", "as often as due");
        agrees(&["rarely"], "signals/timers", said);
    }
    // The controls: another period, and another mark.
    let (guest, program) = build("instructions/counted").expect("it needs nothing but gcc");
    for way in ["spoilt", "blind"] {
        let tool = ["rarely", way];
        let outcome = under(&tool, &program, &guest.arguments, &tool.join("-"));
        let text = outcome.stderr_text();
        assert!(text.contains("rare calls NOT as often as due"), "{text}");
    }
}

/// Of string instructions that faults and signals interrupt, each has one first repetition. The
/// control: not all of their beginnings are one.
#[test]
fn repetitions_are_first_once() {
    for (name, start) in [
        ("instructions/strings", "as completed, "),
        ("instructions/counted", "as completed, some resumed"),
        ("memory/long_strings", "as completed, some resumed"),
    ] {
        agrees(&["repetitions"], name, says("repetitions ", start));
    }
    let (guest, program) = build("instructions/counted").expect("it needs nothing but gcc");
    let spoilt = under(
        &["repetitions", "spoilt"],
        &program,
        &guest.arguments,
        "spoilt-repetitions",
    );
    let text = spoilt.stderr_text();
    assert!(text.contains("repetitions NOT as completed"), "{text}");
}

/// What comes behind the instruction of a system call is what is told of the call's end, however
/// often it is interrupted, and not if it does not return. The control: it is not something else.
#[test]
fn results_are_what_is_told() {
    for name in [
        "signals/interrupted_calls",
        "signals/queues_and_restarts",
        "signals/timers",
        "threads/mutex_kinds",
        "processes/fork_tree",
        "processes/vfork",
        "processes/execute",
    ] {
        agrees(&["results"], name, says("results ", "as told"));
    }
    let (guest, program) = build("signals/interrupted_calls").expect("it needs nothing but gcc");
    let spoilt = under(
        &["results", "spoilt"],
        &program,
        &guest.arguments,
        "spoilt-results",
    );
    let text = spoilt.stderr_text();
    assert!(text.contains("results NOT as told"), "{text}");
    // What the tool makes of a result comes there too, and is the program's.
    let script = "import os; print(os.times()[4])";
    let arguments = ["-c".to_owned(), script.to_owned()];
    let python = Path::new("/usr/bin/python3");
    if python.exists() {
        let observed = under(&["results"], python, &arguments, "changed-results");
        assert_eq!(observed.stdout_text(), "43.21\n");
        let text = observed.stderr_text();
        assert!(text.contains("results as told: "), "{text}");
    }
}

/// Guarded reads of any length end where what is readable ends, also while signals come.
#[test]
fn guarded_reads_end_where_memory_does() {
    let name = "memory/up_to_edges";
    agrees(&["reads"], name, |line| {
        let rest = line.strip_prefix("reads: ")?;
        Some(rest.starts_with("0 wrong of ") && !rest.ends_with(" of 0"))
    });
    let (_, program) = build(name).expect("it needs nothing but gcc");
    let spoilt = under(&["reads", "spoilt"], &program, &[], "spoilt-reads");
    let text = spoilt.stderr_text();
    let counts = text.trim_end().strip_prefix("reads: ");
    let (wrong, made) = counts
        .and_then(|it| it.split_once(" wrong of "))
        .expect("counts");
    assert_eq!(wrong, made);
}

/// Wrappers run where the hooks are, and by the engine: the program's results are its own, and what
/// a wrapper holds is dropped however the function is left.
#[test]
fn wrappers_are_left_as_they_were_begun() {
    /// For each round of both threads: one of each kind, and the depths of the recursion.
    const BEGUN: u64 = 2 * (3000 * 5 + 60 * (49 * 50 / 2));
    let name = "functions/wrapped";
    for tool in [&["wrappers"][..], &["wrappers", "gated"]] {
        agrees(tool, name, |line| {
            let counts = line.strip_prefix("wrappers: ")?;
            Some(counts == format!("{BEGUN} begun, {BEGUN} left"))
        });
    }
    let Some((_, program)) = build(name) else {
        return;
    };
    let spoilt = under(&["wrappers", "spoilt"], &program, &[], "spoilt-wrappers");
    assert_eq!(
        spoilt.ending,
        Ending::Exited(99),
        "{}",
        spoilt.stderr_text()
    );
}

/// Two threads that come to a return address for the first time at once find the hook there.
#[test]
fn wrappers_are_left_where_threads_call_at_once() {
    const BEGUN: u64 = 2 * 2000;
    for tool in [&["wrappers"][..], &["wrappers", "gated"]] {
        agrees(tool, "functions/first_calls", |line| {
            let counts = line.strip_prefix("wrappers: ")?;
            Some(counts == format!("{BEGUN} begun, {BEGUN} left"))
        });
    }
}

/// Signals, forks and new programs are told, and a signal that is swallowed does not come.
#[test]
fn events_are_told() {
    let told = |name: &str, wanted: &'static str| {
        agrees(&["events"], name, |line: &str| {
            let fits =
                line.contains(wanted) || line.contains("copy: 1") || line.contains("becomes");
            line.starts_with("events: ").then_some(fits)
        });
    };
    told("signals/fault_repaired", "5 signals, 5 faults");
    told("processes/fork_tree", "2 forks, 2 made, copy: 0");
    told("processes/execute", " signals");
    // Every call that a tool sees begin it sees end, however often it is interrupted.
    told("signals/interrupted_calls", "0 calls begun and not over");
    told("signals/queues_and_restarts", "0 calls begun and not over");

    let shell = Path::new("/bin/sh");
    let script = "trap 'echo got' USR1; kill -USR1 $$; echo after";
    let arguments = ["-c".to_owned(), script.to_owned()];
    for (tool, heard) in [
        (&["events"][..], "got\nafter\n"),
        (&["events", "swallow"], "after\n"),
    ] {
        let observed = under(tool, shell, &arguments, "swallow");
        assert_eq!(observed.stdout_text(), heard);
        assert!(observed.stderr_text().starts_with("events: 1 signals"));
    }
}

/// What the tool `events` tells of a process that is refused the next program, started by others.
/// Nothing where it cannot be had here: only root becomes another user.
fn told_of_a_refusal(by: &[&Path], test: &str) -> Option<Vec<&'static str>> {
    let (_, program) = build("processes/execute_over_limit")?;
    let tool = Path::new(env!("CARGO_BIN_EXE_tool-checks"));
    let mut all = by.to_vec();
    all.extend([tool, Path::new("events"), Path::new("--"), &program]);
    let observed = run(Invocation::new(all[0]).arguments(&all[1..]), test);
    assert_eq!(observed.stdout_text(), "refused, and goes on\n");
    let told = observed
        .stderr_text()
        .lines()
        .filter(|line| line.starts_with("events: ") && !line.contains("copy: 1"))
        .map(|line| match line {
            "events: goes on" => "goes on",
            _ if line.contains(" becomes ") => "becomes",
            _ => "ends",
        })
        .collect();
    is_root().then_some(told)
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    user.is_some_and(|user| user.split_whitespace().nth(1) == Some("0"))
}

/// Whether the kernel says beforehand whether it would execute a program: since Linux 6.14.
fn answers_beforehand() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut parts = release.split(|letter: char| !letter.is_ascii_digit());
    let mut number = || parts.next().and_then(|part| part.parse::<u32>().ok());
    (number(), number()) >= (Some(6), Some(14))
}

/// A tool is told of the end once, also where the kernel refuses the program another one before.
#[test]
fn a_refused_program_ends_nothing() {
    if !answers_beforehand() {
        eprintln!("the kernel is too old to be asked");
        return;
    }
    if let Some(told) = told_of_a_refusal(&[], "refused") {
        assert_eq!(told, ["ends"]);
    }
}

/// Where the kernel cannot be asked beforehand, a tool that was told of the end is told that the
/// program goes on, and of the end once more.
#[test]
fn a_program_refused_behind_the_end_is_told() {
    let Some((_, without)) = build("seccomp/without_execveat") else {
        return;
    };
    if let Some(told) = told_of_a_refusal(&[&without], "refused-late") {
        assert_eq!(told, ["becomes", "ends", "goes on", "ends"]);
    }
}

/// While a tool has stopped the world nothing moves, and instrumentation comes and goes. A
/// program must last for several stops, also on a fast machine.
#[test]
fn the_world_stands_still() {
    for (name, arguments) in [
        ("threads/mutex_kinds", &["20000"][..]),
        ("threads/many_at_once", &[]),
        ("threads/create_and_join_often", &[]),
        ("signals/timer_threads", &[]),
    ] {
        if let Some((mut guest, program)) = build(name) {
            guest
                .arguments
                .extend(arguments.iter().copied().map(String::from));
            agrees_built(&["world"], &guest, &program, says("world ", "stood still"));
        }
    }
}

/// What a tool does wrong is said of the tool, with its place, and ends with a status of its own.
#[test]
fn the_tool_is_blamed() {
    const CASES: &[(&str, &[&str])] = &[
        (
            "panic-in-call",
            &["this analysis is wrong, at crates/tool-checks/src/misbehave.rs:"],
        ),
        (
            "panic-in-instrument",
            &["this instrumentation is wrong, at crates/tool-checks/src/misbehave.rs:"],
        ),
        (
            "panic-in-thread",
            &["this thread is wrong, at crates/tool-checks/src/misbehave.rs:"],
        ),
        (
            "append-in-delivery",
            &["can neither append to one nor flush one", "misbehave.rs:"],
        ),
        (
            "append-in-instrument",
            &["can neither append to a buffer", "misbehave.rs:"],
        ),
        (
            "append-in-thread",
            &["only the program's threads have buffers", "misbehave.rs:"],
        ),
        (
            "panic-in-consumer",
            &["this consumer is wrong, at crates/tool-checks/src/misbehave.rs:"],
        ),
        (
            "append-with-lock",
            &["a function with a lock in hand", "misbehave.rs:"],
        ),
        (
            "block-in-consumer",
            &["it blocks the end of the program", "misbehave.rs:"],
        ),
        (
            "no-branch",
            &["is not a conditional branch", "misbehave.rs:"],
        ),
        (
            "flags",
            &["must say so: Tool::KEEPS_FLAGS", "misbehave.rs:"],
        ),
        (
            "value-too-early",
            &["the instruction has written it behind it", "misbehave.rs:"],
        ),
        (
            "value-of-another",
            &["has no such operand among its first 4", "misbehave.rs:"],
        ),
        (
            "rewrite-implied",
            &[
                "the instruction does not name it: it is implied",
                "misbehave.rs:",
            ],
        ),
        (
            "rewrite-string",
            &[
                "a string instruction goes on from register to register",
                "misbehave.rs:",
            ],
        ),
        ("rewrite-twice", &["is rewritten twice", "misbehave.rs:"]),
        (
            "original-rarely",
            &[
                "a wrapper cannot call the original function",
                "misbehave.rs:",
            ],
        ),
        (
            "rewrite-value",
            &["is wanted, which is rewritten", "misbehave.rs:"],
        ),
        (
            "block-at-end",
            &["it blocks the end of the program", "misbehave.rs:"],
        ),
        (
            "leak",
            &[
                "tool: no memory for ",
                "no memory left for ",
                "misbehave.rs:",
            ],
        ),
    ];
    for (case, wanted) in CASES {
        // Enough for translated code, which is not the tool's.
        let script = "ulimit -v 16000000; exec \"$0\" misbehave \"$1\" -- /bin/ls /usr/lib";
        let invocation = Invocation::new("/bin/sh").arguments([
            "-c",
            script,
            env!("CARGO_BIN_EXE_tool-checks"),
            case,
        ]);
        let observed = run(invocation, case);
        let text = observed.stderr_text();
        assert_eq!(observed.ending, Ending::Exited(125), "{case}: {text}");
        assert!(text.contains("error: the tool failed: "), "{case}: {text}");
        assert!(
            wanted.iter().all(|part| text.contains(part)),
            "{case}: {text}"
        );
        assert!(
            text.contains("help: this is a defect of the tool"),
            "{case}: {text}"
        );
    }
    // The control: the tool that does nothing wrong.
    let observed = under(&["misbehave"], Path::new("/bin/true"), &[], "behaves");
    assert_eq!(observed.ending, Ending::Exited(0));
    assert_eq!(observed.stderr_text(), "tool: the end\n");
}

/// A thread that a tool starts by itself takes none of the program's signals.
#[test]
fn threads_of_tools_get_no_signals() {
    const GUESTS: &[&str] = &[
        "signals/waited_for",
        "signals/sent_faults_to_any",
        "signals/threads_end_meanwhile",
        "signals/information",
        "signals/mask_of_a_wait",
    ];
    for name in GUESTS {
        agrees(&["bystander"], name, |line| {
            let line = line.strip_prefix("bystander ")?;
            Some(line == "true")
        });
    }
}

fn conditions_line(line: &str) -> Option<bool> {
    line.starts_with("conditions ")
        .then(|| line.starts_with("conditions kept"))
}

/// Entries on a condition are among the others where they belong. The control finds another condition.
#[test]
fn entries_on_a_condition() {
    let forbids_the_time = "instructions/forbidden_time_stamps";
    for guest in ["memory/walks", "threads/mutex_kinds", forbids_the_time] {
        agrees(&["conditional"], guest, conditions_line);
    }
    let is_wrong = |line: &str| conditions_line(line).map(|kept| !kept);
    agrees(&["conditional", "spoilt"], "threads/mutex_kinds", is_wrong);
}

/// What cannot be is refused where the tool asks for it, before the program runs.
#[test]
fn what_cannot_be_is_refused_before_the_run() {
    for (case, wanted) in [
        ("buffer-without-room", "a buffer without room"),
        ("many-counters", " counters"),
        ("many-samplers", "a tool can have 64 samplers"),
        ("sampler-without-period", "a period of 0"),
        ("sampler-with-jitter", "a jitter of 5"),
        ("many-thread-words", "words of threads"),
        ("many-switches", "a tool can have 8 switches"),
        ("many-controllers", "a tool can have 8 "),
        ("controller-by-time", "time passes for all threads"),
        ("controller-by-count", "are counted for each thread"),
        ("trigger-before-the-first", "the one with number 1"),
        ("many-shadows", "a tool can have 4 shadow memories"),
        ("part-beyond-word", "has no 4 bytes at 2"),
        ("no-vector-register", "there are 32 vector registers"),
        ("no-mask-register", "there are eight mask registers"),
        ("early-signal", "the program is running"),
        ("no-signal", "9 is no signal that can be caught"),
        ("two-tools", "a process has one tool"),
    ] {
        let program = Path::new("/bin/echo");
        let observed = under(&["misbehave", case], program, &["ran".to_owned()], case);
        let text = observed.stderr_text();
        assert_eq!(observed.ending, Ending::Exited(101), "{case}: {text}");
        // Not somewhere in a backtrace.
        let names_the_line = text.contains(" panicked at crates/tool-checks/src/misbehave.rs:");
        assert!(text.contains(wanted) && names_the_line, "{case}: {text}");
        assert_eq!(observed.stdout_text(), "", "{case}");
    }
}

/// Buffers that do not fit are refused before the program runs, or before it runs on, and it is said
/// where they are made.
#[test]
fn buffers_that_do_not_fit() {
    for (case, status, wanted) in [
        ("endless-buffer", 101, "fit into no memory"),
        ("many-buffers", 101, "a tool can have 8 buffers"),
        ("huge-buffer", 125, "no memory for a thread's buffer of "),
    ] {
        let script = "ulimit -v 16000000; exec \"$0\" misbehave \"$1\" -- /bin/echo ran";
        let tool = env!("CARGO_BIN_EXE_tool-checks");
        let invocation = Invocation::new("/bin/sh").arguments(["-c", script, tool, case]);
        let observed = run(invocation, case);
        let text = observed.stderr_text();
        assert_eq!(observed.ending, Ending::Exited(status), "{case}: {text}");
        let place = match status {
            101 => " panicked at crates/tool-checks/src/misbehave.rs:",
            _ => "misbehave.rs:",
        };
        let names_the_line = text.contains(place);
        assert!(text.contains(wanted) && names_the_line, "{case}: {text}");
        assert_eq!(observed.stdout_text(), "", "{case}");
    }
}
