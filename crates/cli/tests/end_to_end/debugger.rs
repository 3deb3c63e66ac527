//! gdb on observed programs: what it shows is what it shows natively.

mod remote;

use std::path::{Path, PathBuf};
use std::time::Instant;

use libtest_mimic::Trial;
use unspool_guests::{Ending, Invocation, Outcome, Requirement};

use self::remote::{Remote, first_thread};
use crate::guest_programs::build;
use crate::observer::{Verdict, example, natively, require, run, trial, unspool, wrong};
use crate::scratch::Scratch;

type Test = fn(&Scratch) -> Result<(), Verdict>;

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 15] = [
        ("breakpoints_are_hit_as_often", breakpoints),
        ("steps_are_those_of_the_processor", steps),
        ("threads_and_functions_are_named", threads),
        ("values_can_be_changed", values),
        ("watched_memory_names_the_writer", watches),
        ("writers_beside_system_calls_are_named", callers),
        (
            "watching_costs_less_than_a_hundredth_of_steps",
            watching_costs,
        ),
        ("watching_a_string_instruction", strings),
        ("ends_are_reported", ends),
        ("code_loaded_later_has_breakpoints", loaded_later),
        ("children_and_other_programs_go_on", processes),
        ("tools_stop_and_answer", own_tool),
        ("interrupts_and_detaches", interrupts),
        ("a_client_that_talks_nonsense_goes", nonsense),
        ("other_machines_cannot_connect", loopback),
    ];
    let named = tests.into_iter();
    named
        .map(|(name, test)| trial(format!("debugger::{name}"), test))
        .collect()
}

pub(super) fn guest(name: &str) -> Result<PathBuf, Verdict> {
    let guest = unspool_guests::guests()
        .into_iter()
        .find(|guest| guest.name == name)
        .ok_or_else(|| format!("there is no guest {name}"))?;
    build(&guest, "")
}

/// `gdb` without what its user has set up, with a script of commands.
fn gdb(scratch: &Scratch, arguments: &[&str], commands: &str) -> Result<Invocation, Verdict> {
    require(&[Requirement::Program("gdb".to_owned())])?;
    let script = scratch.path().join("commands");
    std::fs::write(&script, commands)?;
    let script = script.display().to_string();
    let always = [
        "gdb",
        "-q",
        "-nx",
        "-batch",
        "-iex",
        "set auto-load off",
        "-iex",
        "set debuginfod enabled off",
        "-iex",
        "set disable-randomization off",
        "-iex",
        "set style enabled off",
        "-iex",
        "set width 0",
    ];
    let command: Vec<&str> = always
        .iter()
        .chain(arguments)
        .copied()
        .chain(["-x", &script])
        .collect();
    Ok(natively(scratch, &command))
}

/// Runs a program under `unspool OPTIONS --gdb` with gdb at it. Returns what gdb has said, and
/// what became of the program.
pub(super) fn debugged(
    scratch: &Scratch,
    options: &[&str],
    command: &[&Path],
    commands: &str,
) -> Result<(String, Outcome), Verdict> {
    converse(scratch, Remote::start(scratch, options, command)?, commands)
}

/// What gdb says to commands, and what becomes of the program.
fn converse(
    scratch: &Scratch,
    remote: Remote,
    commands: &str,
) -> Result<(String, Outcome), Verdict> {
    let target = format!("target remote {}", remote.socket().display());
    let said = run(scratch, &gdb(scratch, &["-ex", &target], commands)?)?;
    // What a tool answers goes to standard error.
    let all = said.stdout_text() + &said.stderr_text();
    Ok((all, remote.outcome()?))
}

pub(super) fn expect(text: &str, parts: &[&str]) -> Result<(), Verdict> {
    for part in parts {
        if !text.contains(part) {
            return Err(format!("gdb does not say `{part}`, but:\n{text}").into());
        }
    }
    Ok(())
}

fn expect_status(outcome: &Outcome, status: i32) -> Result<(), Verdict> {
    if outcome.ending != Ending::Exited(status) {
        return Err(format!("{:?} instead of {status}", outcome.ending).into());
    }
    Ok(())
}

/// A breakpoint counts what all threads do; one in code that is never reached is not hit. It makes
/// no difference to the program, and none whether a tool is at work.
fn breakpoints(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest("debugging/threads")?;
    let commands = "break visit\nignore 1 1000000\nbreak never\ncontinue\ninfo breakpoints\n";
    for options in [&["run"][..], &["tool", "run", "edge-profile"]] {
        let (said, outcome) = debugged(scratch, options, &[&program], commands)?;
        expect(
            &said,
            &["breakpoint already hit 61 times", "exited normally"],
        )?;
        if said.matches("already hit").count() != 1 {
            return Err(format!("a breakpoint was hit that nobody passed:\n{said}").into());
        }
        expect_status(&outcome, 0)?;
        if outcome.stdout_text() != "61 visits, limit 1, quiet 5\n" {
            return Err(format!("the program said {}", outcome.stdout_text()).into());
        }
    }
    Ok(())
}

/// Program counter, flags and registers after each single step are those of native steps.
fn steps(scratch: &Scratch) -> Result<(), Verdict> {
    const STEPS: &str = "handle SIGUSR1 nostop noprint pass\nset $count = 0\n\
        while $count < 72\n\
        printf \"step %#lx %#x %lx %lx %lx %g %d %x\\n\", $pc, $eflags & ~0x100, $rcx, $rdx, \
        $rsi, $st0, $xmm1.v4_int32[0], $ftag\n\
        stepi\nset $count = $count + 1\nend\ncontinue\n";
    let program = guest("debugging/instructions")?;
    let (said, outcome) = debugged(scratch, &["run"], &[&program], STEPS)?;
    let name = program.display().to_string();
    let native = run(scratch, &gdb(scratch, &[&name, "-ex", "starti"], STEPS)?)?.stdout_text();
    let steps = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("step "));
        lines.map(str::to_owned).collect()
    };
    let (observed, native) = (steps(&said), steps(&native));
    if native.len() != 72 {
        return Err(Verdict::CannotTell(
            "gdb cannot step natively here".to_owned(),
        ));
    }
    let differs = observed.iter().zip(&native).position(|(a, b)| a != b);
    if let Some(at) = differs.or((observed.len() != native.len()).then_some(observed.len())) {
        let (observed, native) = (observed.get(at), native.get(at));
        return Err(format!("step {at}: {observed:?}, natively {native:?}\n{said}").into());
    }
    expect_status(&outcome, 0)
}

/// Symbols of executable and libraries, callers, and threads' numbers and names; `finish`, `next`
/// and breakpoints of one thread.
fn threads(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest("debugging/threads")?;
    let commands = "tbreak main\ncontinue\nnext\ninfo sharedlibrary\n\
        break visit if thread == 2 && index == 2\ncontinue\nbacktrace\ninfo threads\n\
        finish\nnext\nprint $_thread\ndelete\ncontinue\n";
    let (said, outcome) = debugged(scratch, &["run"], &[&program], commands)?;
    expect(
        &said,
        &[
            "libc.so.6",
            "index@entry=2",
            "in work (argument=0x2)",
            "start_thread",
            "(debugging-",
            "exited normally",
        ],
    )?;
    expect_status(&outcome, 0)
}

/// Registers, memory and code that gdb changes; a function that it has called.
fn values(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest("debugging/threads")?;
    let commands = "break visit if index == 3\ncontinue\nup\nset var state.limit = 1234\n\
        frame 0\nset var $rsi = 2\nprint never()\n\
        print state.quiet\nset var state.quiet = 5\ncontinue\n";
    let (said, outcome) = debugged(scratch, &["run"], &[&program], commands)?;
    expect(&said, &["= 6"])?;
    let told = outcome.stdout_text();
    if told != "61 visits, limit 1234, quiet 5\n" {
        return Err(format!("the program said {told}{said}").into());
    }
    Ok(())
}

/// The one write that a defect makes is found, in its thread and line, among many watched words;
/// words that nobody writes or reads are silent. The program does not notice.
fn watches(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest("debugging/threads")?;
    let commands = "break main\ncontinue\nwatch state.limit\nwatch state.quiet\n\
        watch *(char (*)[5])((char *)&state - 4096)\nrwatch *(char *)((char *)&state - 512)\n\
        awatch *(int *)((char *)&state - 1024)\nwatch *(int *)((char *)&state - 2048)\n\
        continue\nprint thread\ninfo line\ncontinue\ninfo watchpoints\n";
    for options in [&["run"][..], &["tool", "run", "address-sum"]] {
        let (said, outcome) = debugged(scratch, options, &[&program], commands)?;
        expect(
            &said,
            &[
                "hit Hardware watchpoint 2: state.limit",
                "Old value = 1000",
                "New value = 1\n",
                "visit (thread=thread@entry=1, index=index@entry=4)",
                "exited normally",
            ],
        )?;
        if said.matches(" hit Hardware").count() != 1 || said.matches("already hit").count() != 1 {
            return Err(format!("a word that nobody touched was reported:\n{said}").into());
        }
        if outcome.stdout_text() != "61 visits, limit 1, quiet 5\n" {
            return Err(format!("the program said {}", outcome.stdout_text()).into());
        }
    }
    Ok(())
}

/// While other threads make system calls, each write is reported once, and where the thread is
/// that has written; one by the kernel in the call that has asked for it.
fn callers(scratch: &Scratch) -> Result<(), Verdict> {
    const ROUNDS: usize = 40;
    let program = guest("debugging/callers")?;
    let commands = "break main\ncontinue\nwatch word\ncommands\nsilent\n\
        printf \"stop %ld\\n\", word\nbacktrace -3\ncontinue\nend\ncontinue\n";
    let (said, outcome) = debugged(scratch, &["run"], &[&program], commands)?;
    let count = |what: &str| said.lines().filter(|line| line.contains(what)).count();
    let (stops, own, kernels) = (count("stop "), count(" change ("), count(" have_changed ("));
    if (stops, own, kernels) != (2 * ROUNDS, ROUNDS, ROUNDS) {
        let what = format!("{stops} stops, {own} and {kernels} where the writes are");
        return Err(format!("{what}:\n{said}").into());
    }
    expect_status(&outcome, 0)
}

/// A round of a loop takes less than a hundredth of the time in which gdb by itself, which steps
/// through it if it may not ask the processor to watch, comes through one. (It takes less than a
/// ten-thousandth.)
fn watching_costs(scratch: &Scratch) -> Result<(), Verdict> {
    const COMMANDS: &str = "break work\ncontinue\nwatch watched\ncontinue\ncontinue\n";
    let program = guest("debugging/rounds")?;
    let seconds = |said: String, start: Instant| -> Result<f64, Verdict> {
        expect(&said, &["Old value = 5\nNew value = 6", "exited normally"])?;
        Ok(start.elapsed().as_secs_f64())
    };
    let by_steps = |rounds: &str| {
        let name = program.display().to_string();
        let commands = format!("set can-use-hw-watchpoints 0\nstarti {rounds}\n{COMMANDS}");
        let start = Instant::now();
        let said = run(scratch, &gdb(scratch, &[&name], &commands)?)?.stdout_text();
        let cannot = |_| Verdict::CannotTell("gdb cannot step natively here".to_owned());
        seconds(said, start).map_err(cannot)
    };
    // What gdb takes to start and end is in both.
    let steps = (by_steps("3100")? - by_steps("100")?) / 3e3;
    let start = Instant::now();
    let command = [&*program, Path::new("20000000")];
    let (said, _) = debugged(scratch, &["run"], &command, COMMANDS)?;
    let watched = seconds(said, start)? / 2e7;
    if watched * 100.0 > steps {
        return Err(format!("a round takes {watched:e} s, and by steps {steps:e} s").into());
    }
    Ok(())
}

/// A watched byte in the middle of what string instructions write is reported once it is written,
/// and not by one whose count is zero; reads and other writes likewise.
fn strings(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest("debugging/instructions")?;
    let commands = "watch *(char *)((long)&to + 2)\nrwatch *(char *)((long)&from + 1)\n\
        awatch *(char *)((long)&vector + 15)\nhandle SIGUSR1 nostop noprint pass\n\
        continue\ncontinue\ncontinue\ncontinue\ncontinue\n";
    let (said, outcome) = debugged(scratch, &["run"], &[&program], commands)?;
    expect(
        &said,
        &[
            "New value = 99 'c'",
            "Hardware read watchpoint 2: *(char *)((long)&from + 1)\n\nValue = 98",
            "(read/write) watchpoint 3: *(char *)((long)&vector + 15)\n\nValue",
            "Old value = 99 'c'",
            "exited normally",
        ],
    )?;
    expect_status(&outcome, 0)
}

/// Signals stop the program or not, as gdb's user wants; the way it ends is told.
fn ends(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest("debugging/threads")?;
    let crash = [&*program, Path::new("crash")];
    let commands = "continue\nx/i $pc\ncontinue\n";
    let (said, outcome) = debugged(scratch, &["run"], &crash, commands)?;
    expect(
        &said,
        &[
            "Program received signal SIGSEGV",
            "Program terminated with signal SIGSEGV",
        ],
    )?;
    if outcome.ending != Ending::Signalled(libc::SIGSEGV) {
        return Err(format!("{:?}", outcome.ending).into());
    }
    let (_, outcome) = debugged(scratch, &["run"], &crash, "kill\n")?;
    if outcome.ending != Ending::Signalled(libc::SIGKILL) {
        return Err(format!("{:?}", outcome.ending).into());
    }
    Ok(())
}

/// A breakpoint in a library that the program loads when it runs is hit as often as it is passed.
fn loaded_later(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest("debugging/processes")?;
    let commands = "set breakpoint pending on\nbreak cbrt\nbreak y0\nignore 1 100\n\
        ignore 2 100\ncontinue\ninfo breakpoints\n";
    let (said, outcome) = debugged(scratch, &["run"], &[&program], commands)?;
    expect(
        &said,
        &["breakpoint already hit 3 times", "exited normally"],
    )?;
    if said.matches("already hit").count() != 1 {
        return Err(format!("a breakpoint was hit that nobody passed:\n{said}").into());
    }
    expect_status(&outcome, 0)
}

/// A forked child, and what the program becomes, run on without gdb and are not kept by its
/// breakpoints and watchpoints; it is said that gdb will not see the latter.
fn processes(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest("debugging/processes")?;
    let again = [&*program, Path::new("again")];
    let commands = "break visit if value == 3\nwatch sum if sum == 6\ncontinue\ncontinue\n\
        info breakpoints\ncontinue\n";
    let (said, outcome) = debugged(scratch, &["run"], &again, commands)?;
    expect(&said, &["visit (value=3)", "New value = 6"])?;
    expect_status(&outcome, 4)?;
    if outcome.stdout_text() != "6, in the child 11\n" {
        return Err(format!("the program said {}{said}", outcome.stdout_text()).into());
    }
    expect(
        &outcome.stderr_text(),
        &["executes another one, which the debugger does not follow"],
    )
}

/// A tool of one's own has the program stopped where it wants, once, and answers to commands; one
/// that has no commands says so. Without gdb nothing is stopped.
fn own_tool(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest("debugging/recursion")?;
    let tool = example("deep_stack")?;
    let remote = Remote::start_by(scratch, |socket| {
        natively(scratch, &[&*tool])
            .arguments(["--gdb", socket, "65536", "--"])
            .arguments([&*program])
    })?;
    let commands = "monitor deepest\ncontinue\nprint depth\nmonitor deepest\n\
        monitor nonsense\ncontinue\n";
    let (said, outcome) = converse(scratch, remote, commands)?;
    expect(
        &said,
        &[
            "\n0 bytes\n",
            "SIGTRAP",
            "no tool that knows this command",
            "exited normally",
        ],
    )?;
    let after = |mark: &str| -> Option<u64> {
        let rest = said.split(mark).nth(1)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    // Each of its calls takes 1 KiB and a little.
    let depth = after("$1 = ");
    if depth.is_none_or(|depth| !(50..=64).contains(&depth)) || said.matches("SIGTRAP").count() != 1
    {
        return Err(format!("stopped at a depth of {depth:?} calls:\n{said}").into());
    }
    expect_status(&outcome, 0)?;
    let told = outcome.stderr_text();
    expect(&told, &["the stack is 6"])?;
    let without = natively(scratch, &[&*tool])
        .arguments(["65536", "--"])
        .arguments([&*program]);
    let without = run(scratch, &without)?;
    expect_status(&without, 0)?;
    if without.stdout_text() != outcome.stdout_text() {
        return Err(wrong(
            "the same output",
            &natively(scratch, &[&*tool]),
            &without,
        ));
    }
    Ok(())
}

/// Ctrl-C stops a running program; after a detach it goes on, and another debugger may come.
fn interrupts(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest("debugging/threads")?;
    let remote = Remote::start(scratch, &["run"], &[&program, Path::new("wait")])?;
    for _ in 0..3 {
        let mut client = remote.connect()?;
        client.ask("?")?;
        client.send("vCont;c")?;
        std::thread::sleep(std::time::Duration::from_millis(50));
        client.raw(b"\x03")?;
        let stop = client.answer()?;
        if !stop.starts_with("T02thread:") {
            return Err(format!("`{stop}` after an interrupt").into());
        }
        // What is not the program's cannot be read, but its own code can.
        if client.ask("m8,4")? != "E0e" {
            return Err("memory that is not there can be read".to_owned().into());
        }
        if first_thread(&client.ask("qfThreadInfo")?)? == 0 {
            return Err("there is no thread".to_owned().into());
        }
        if client.ask("D")? != "OK" {
            return Err("no OK to a detach".to_owned().into());
        }
    }
    let mut client = remote.connect()?;
    client.ask("?")?;
    client.send("k")?;
    remote.outcome()?;
    Ok(())
}

/// Whoever connects and does not speak the protocol, or goes without a word, leaves the program
/// running.
fn nonsense(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest("debugging/threads")?;
    let long = vec![b'$'; 1 << 17];
    let unfinished = b"$m0,".to_vec();
    let wrong =
        b"$vCont;s:zz;;#00$G00#00$Xffffffffffffffff,10:abc#00$Z9,0,0#00$qXfer:auxv:read::zz#00";
    let mut random = random_bytes(1 << 12);
    random.extend_from_slice(b"$m0,ffffffffffffffff#00");
    for words in [&long[..], &unfinished, wrong, &random, b""] {
        let remote = Remote::start(scratch, &["run"], &[&program])?;
        let mut client = remote.connect()?;
        // It may hang up before all is said.
        let _ = client.raw(words);
        drop(client);
        let outcome = remote.outcome()?;
        expect_status(&outcome, 0)?;
    }
    Ok(())
}

/// Bytes without any order, the same each time.
fn random_bytes(count: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..count).map(next).collect()
}

/// Another interface than the loopback one is refused, as is what cannot be had.
fn loopback(scratch: &Scratch) -> Result<(), Verdict> {
    let told = |address: &str| -> Result<String, Verdict> {
        let invocation = unspool(scratch, &["run", "--gdb", address, "--", "/bin/true"]);
        let outcome = run(scratch, &invocation)?;
        if outcome.ending == Ending::Exited(0) {
            return Err(format!("--gdb {address} is accepted").into());
        }
        Ok(outcome.stderr_text())
    };
    expect(
        &told("0.0.0.0:0")?,
        &["gdb can only connect from this machine"],
    )?;
    expect(&told("1234")?, &["not an address for gdb"])?;
    expect(
        &told("/proc/no/socket")?,
        &["cannot wait for gdb at /proc/no/socket"],
    )?;
    Ok(())
}
