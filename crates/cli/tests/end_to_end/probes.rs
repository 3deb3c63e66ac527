//! Probes: what they say of natively running programs is true, and the program does not notice.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use libtest_mimic::Trial;
use unspool_guests::{Ending, Guest, Invocation};

use crate::guest_programs;
use crate::observer::{Verdict, natively, run, run_well, trial, unspool, wrong};
use crate::scratch::Scratch;

type Body = fn(&Scratch) -> Result<(), Verdict>;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = Vec::new();
    for guest in unspool_guests::guests() {
        let guest = Arc::new(guest);
        let name = format!("guest::probe::{}", guest.name);
        trials.push(trial(name, move |scratch| unnoticed(scratch, &guest)));
    }
    let others: [(&str, Body); 8] = [
        ("malloc_count_says_what_the_tool_says", like_the_tool),
        ("entries_of_every_kind", entries),
        ("libraries_come_and_go_among_threads", libraries),
        ("environment_is_the_programs_own", environment),
        ("children", children),
        ("processes_end_in_every_way", endings),
        ("refusals", refusals),
        ("voice", voice),
    ];
    trials.extend(others.map(|(name, body)| trial(format!("probes::{name}"), body)));
    trials
}

/// `unspool tool run --probe OPTIONS PROBE -- COMMAND`.
fn probed(
    scratch: &Scratch,
    options: &[&str],
    probe: &str,
    command: &[impl AsRef<OsStr>],
) -> Invocation {
    unspool(scratch, &["tool", "run", "--probe"])
        .arguments(options)
        .arguments([probe, "--"])
        .arguments(command)
}

/// `-a NAME` for each of some names.
fn named<'a>(names: &[&'a str]) -> Vec<&'a str> {
    names.iter().flat_map(|name| ["-a", *name]).collect()
}

fn command(name: &str) -> Result<Vec<OsString>, Verdict> {
    let guest = unspool_guests::guests()
        .into_iter()
        .find(|guest| guest.name == name)
        .ok_or_else(|| format!("there is no guest {name}"))?;
    guest_programs::command(&guest, "")
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, is: T, must: T) -> Result<(), Verdict> {
    match is == must {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{what}: {is:?}, not {must:?}"))),
    }
}

/// A guest behaves as it does natively.
fn unnoticed(scratch: &Scratch, guest: &Guest) -> Result<(), Verdict> {
    let observe = |command: &[OsString]| probed(scratch, &[], "malloc-count", command);
    guest_programs::beside_native(scratch, guest, observe, |observed| {
        let said = observed.stderr_text();
        if said.contains("a static program, into which nothing can be loaded") {
            return Err(Verdict::CannotTell("the guest is static".to_owned()));
        }
        guest_programs::leave_out(observed, |line| {
            String::from_utf8_lossy(line).contains(" blocks allocated by malloc, ")
        });
        Ok(())
    })
}

/// The probe and the tool of the same name say the same.
fn like_the_tool(scratch: &Scratch) -> Result<(), Verdict> {
    let allocations = |count: &str| {
        let mut words = command("functions/allocations")?;
        words.truncate(1);
        words.push(count.into());
        Ok::<_, Verdict>(words)
    };
    let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
    let mut told = Vec::new();
    for command in [
        allocations("20")?,
        allocations("21")?,
        words(&["ls", "/"]),
        words(&["sh", "-c", "echo $(ls /); exit 0"]),
        words(&["env", "LC_ALL=C.UTF-8", "sort", "--version"]),
    ] {
        let tool = unspool(scratch, &["tool", "run", "malloc-count", "--"]).arguments(&command);
        let tool = run_well(scratch, &tool)?.stderr_text();
        let probe = probed(scratch, &[], "malloc-count", &command);
        let probe = run_well(scratch, &probe)?.stderr_text();
        expect(&format!("{command:?}"), &probe, &tool)?;
        told.push(probe);
    }
    expect(
        "twenty",
        told[0].as_str(),
        "20 blocks allocated by malloc, 200 bytes\n",
    )?;
    // The control: another count is told as another.
    expect(
        "one more",
        told[1].as_str(),
        "21 blocks allocated by malloc, 210 bytes\n",
    )
}

/// Functions whose entries can be changed are counted exactly; the others are named.
fn entries(scratch: &Scratch) -> Result<(), Verdict> {
    let guest = command("functions/entries")?;
    let native = run_well(scratch, &natively(scratch, &guest))?.stdout_text();
    let counts: [(&str, u64); 15] = [
        ("called_itself", 4000),
        ("calls_first", 1000),
        ("chosen", 1000),
        ("entered_in_the_middle", 0),
        ("enters", 1000),
        ("leaf", 1000),
        ("loops_to_entry", 0),
        ("marked", 1000),
        ("mixed", 1000),
        ("rip_first", 2000),
        ("shared", 4000),
        ("short_branch", 1000),
        ("six", 1000),
        ("tiny", 0),
        ("tiny_padded", 1000),
    ];
    let reasons = [
        ("entered_in_the_middle", "branches into its first bytes"),
        ("loops_to_entry", "branches back to its first bytes"),
        ("tiny", "it has 3 bytes, and a jump takes 5"),
    ];
    let names: Vec<&str> = counts.iter().map(|(name, _)| *name).collect();
    let observed = run_well(
        scratch,
        &probed(scratch, &named(&names), "function-count", &guest),
    )?;
    expect("output", observed.stdout_text(), native)?;
    let said = observed.stderr_text();
    for (name, count) in counts {
        let refused = reasons.iter().find(|(refused, _)| *refused == name);
        let line = match refused {
            Some(_) => format!("{name} was not probed"),
            None => format!("{count} calls of {name}"),
        };
        expect(&line, said.lines().any(|said| said == line), true)?;
        let warned = said
            .lines()
            .find(|line| line.starts_with(&format!("warning: {name} in ")));
        let as_expected = match (refused, warned) {
            (Some((_, reason)), Some(line)) => line.contains(reason),
            (None, None) => true,
            _ => false,
        };
        expect(
            &format!("a warning of {name}: {warned:?}"),
            as_expected,
            true,
        )?;
    }
    Ok(())
}

/// A library that comes and goes while threads call its function: none of the calls is missed,
/// those of its constructor neither.
fn libraries(scratch: &Scratch) -> Result<(), Verdict> {
    let guest = command("functions/libraries_and_threads")?;
    for _ in 0..5 {
        let run = probed(
            scratch,
            &named(&["hammered", "note_call"]),
            "function-count",
            &guest,
        );
        let observed = run_well(scratch, &run)?;
        let own = observed.stdout_text();
        let own = own.trim_end();
        let told = format!("{own} of hammered\n{own} of note_call\n");
        expect("calls", observed.stderr_text(), told)?;
    }
    let guest = command("memory/libraries_in_a_loop")?;
    let run = probed(scratch, &named(&["plugin_next"]), "function-count", &guest);
    let told = run_well(scratch, &run)?.stderr_text();
    expect("calls", told.as_str(), "400 calls of plugin_next\n")
}

/// The program's environment, and its children's, are as without a probe.
fn environment(scratch: &Scratch) -> Result<(), Verdict> {
    let script = "env | sort; sh -c env | sort; sh -c 'exec env' | sort; env -i LD_PRELOAD= env";
    let native = natively(scratch, &["sh", "-c", script]);
    let native = run_well(scratch, &native)?.stdout_text();
    let observed = run_well(
        scratch,
        &probed(scratch, &[], "malloc-count", &["sh", "-c", script]),
    )?;
    expect("environment", observed.stdout_text(), native)?;
    // Every process had the probe all the same.
    let reports = observed.stderr_text().lines().count();
    expect("more than four reports", reports > 4, true)?;
    // What the user has preloaded stays.
    let guest = command("processes/preloaded")?;
    let own = guest[0].clone();
    let script = format!("echo $LD_PRELOAD; {} 2>&1 | head -0", own.display());
    let preloaded = probed(scratch, &[], "malloc-count", &["sh", "-c", &script]);
    let library = "/no/such/library.so";
    let observed = run_well(scratch, &preloaded.variable("LD_PRELOAD", library))?;
    expect("LD_PRELOAD", observed.stdout_text(), format!("{library}\n"))
}

/// Children are probed, or left alone.
fn children(scratch: &Scratch) -> Result<(), Verdict> {
    let guest = command("functions/allocations")?;
    let program = guest[0].to_string_lossy();
    let script = format!("{program} 3; {program} 4; ({program} 5); exec {program} 6");
    let words = ["sh", "-c", &script];
    let told = |options: &[&str]| {
        let run = probed(scratch, options, "malloc-count", &words);
        Ok::<_, Verdict>(run_well(scratch, &run)?.stderr_text())
    };
    let told_all = told(&[])?;
    for count in [3, 4, 5, 6] {
        let line = format!("{count} blocks allocated by malloc, {count}0 bytes");
        expect(
            &line,
            told_all.lines().filter(|said| *said == line).count(),
            1,
        )?;
    }
    // The shell itself tells what it did until it becomes the last of them, the others nothing.
    let told_one = told(&["--children=leave"])?;
    for count in [3, 4, 5, 6] {
        let line = format!("{count} blocks allocated by malloc, {count}0 bytes");
        expect(&line, told_one.lines().any(|said| said == line), false)?;
    }
    expect("reports", told_one.lines().count() > 0, true)
}

/// Statuses and signals are the program's.
fn endings(scratch: &Scratch) -> Result<(), Verdict> {
    for (script, ending) in [
        ("exit 3", Ending::Exited(3)),
        ("kill -9 $$", Ending::Signalled(9)),
        ("kill -TERM $$", Ending::Signalled(15)),
        ("no-such-program 2>/dev/null", Ending::Exited(127)),
    ] {
        let invocation = probed(scratch, &[], "malloc-count", &["sh", "-c", script]);
        let outcome = run(scratch, &invocation)?;
        if outcome.ending != ending {
            return Err(wrong(&format!("{ending:?}"), &invocation, &outcome));
        }
    }
    Ok(())
}

/// What cannot be probed is refused, with a way out.
fn refusals(scratch: &Scratch) -> Result<(), Verdict> {
    let guests = unspool_guests::guests();
    let allocations = guests
        .iter()
        .find(|guest| guest.name == "functions/allocations");
    let allocations = allocations.ok_or_else(|| "no such guest".to_owned())?;
    let program = guest_programs::build(allocations, "static")?;
    let program = program.to_string_lossy();
    let privileged = scratch.work().join("privileged");
    std::fs::copy("/bin/true", &privileged)?;
    std::fs::set_permissions(&privileged, PermissionsExt::from_mode(0o4755))?;
    std::fs::write(scratch.work().join("text.so"), "no library")?;
    for (arguments, status, message) in [
        (
            &["malloc-count", "--", &program][..],
            126,
            "help: run it translated, under a tool",
        ),
        (
            &["malloc-count", "--", "./privileged"],
            126,
            "privileges of their own",
        ),
        (
            &["malloc-count", "--", "no-such-program"],
            127,
            "no-such-program",
        ),
        (
            &["instruction-count", "--", "true"],
            125,
            "there is no probe `instruction-count`",
        ),
        (
            &["./missing.so", "--", "true"],
            125,
            "cannot find the probe ./missing.so",
        ),
        (
            &["./text.so", "--", "true"],
            125,
            "unspool tool new --probe NAME",
        ),
        (&["-a", "a\x1fb", "malloc-count", "--", "true"], 125, "0x1f"),
        (&["--gdb", ":0", "malloc-count", "--", "true"], 125, "--gdb"),
    ] {
        let invocation = unspool(scratch, &["tool", "run", "--probe"]).arguments(arguments);
        let outcome = run(scratch, &invocation)?;
        let is_right =
            outcome.ending == Ending::Exited(status) && outcome.stderr_text().contains(message);
        if !is_right {
            return Err(wrong(message, &invocation, &outcome));
        }
    }
    let invocation = unspool(scratch, &["tool", "run", "function-count", "--", "true"]);
    let outcome = run(scratch, &invocation)?;
    match outcome.stderr_text().contains("--probe") {
        true => Ok(()),
        false => Err(wrong("a hint at --probe", &invocation, &outcome)),
    }
}

/// What a probe says is heard even where the program has closed its standard error, and goes
/// nowhere else if the program has opened something in its place.
fn voice(scratch: &Scratch) -> Result<(), Verdict> {
    let guest = command("functions/allocations")?;
    let program = guest[0].to_string_lossy();
    let closing = format!("exec 2>&-; exec {program} 5");
    let invocation = probed(scratch, &[], "malloc-count", &["sh", "-c", &closing]);
    let outcome = run_well(scratch, &invocation)?;
    // The next program has no standard error from its start, as the shell had.
    let line = "5 blocks allocated by malloc, 50 bytes";
    let said = outcome.stderr_text();
    expect("said", said.lines().filter(|said| *said == line).count(), 0)?;
    expect("reports", said.lines().count(), 1)?;
    let script = "import os; os.closerange(0, 4096); f = os.open('kept', os.O_CREAT | os.O_WRONLY); \
                  [os.dup2(f, n) for n in range(256)]; os._exit(0)";
    let python = natively(scratch, &["python3", "-c", "pass"]);
    if run(scratch, &python).is_err() {
        return Err(Verdict::CannotTell("python3 is not installed".to_owned()));
    }
    let words = ["python3", "-c", script];
    run_well(scratch, &probed(scratch, &[], "malloc-count", &words))?;
    let kept = std::fs::read_to_string(scratch.work().join("kept"))?;
    expect("written into the program's file", kept.as_str(), "")?;
    // The control: what is left open is spoken to.
    let script = "import os; os.close(2); os._exit(0)";
    let invocation = probed(scratch, &[], "malloc-count", &["python3", "-c", script]);
    let outcome = run_well(scratch, &invocation)?;
    let said = outcome.stderr_text();
    expect("said", said.contains(" blocks allocated by malloc, "), true)
}
