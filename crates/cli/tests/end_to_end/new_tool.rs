//! A tool of the user's own: a crate outside this project, built by plain `cargo build`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::Trial;
use unspool_guests::{Ending, Invocation};

use crate::observer::{Verdict, natively, run, run_well, trial, unspool, wrong};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("new_tool::builds_and_runs".to_owned(), builds_and_runs),
        trial("new_tool::probe".to_owned(), probe),
        trial("new_tool::bad_names".to_owned(), bad_names),
    ]
}

/// Where the command keeps for its user what tools are built with, and what builds have in common: for
/// all tests together.
fn kept() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("outside-tool")
}

/// `unspool tool new ARGUMENTS`. Returns the lines that it says are to be typed.
fn new(scratch: &Scratch, arguments: &[&str]) -> Result<[String; 3], Verdict> {
    let invocation = unspool(scratch, &["tool", "new"]).arguments(arguments);
    let made = run_well(scratch, &invocation.variable("XDG_CACHE_HOME", kept()))?;
    let said = made.stdout_text();
    let typed = said.lines().filter_map(|line| line.strip_prefix("    "));
    let typed: Vec<String> = typed.map(str::to_owned).collect();
    let lines = <[String; 3]>::try_from(typed);
    lines.map_err(|_| Verdict::Wrong(format!("three lines to type, not: {said}")))
}

/// Types the first two of these lines. Returns what Cargo says.
fn build(scratch: &Scratch, [folder, build, _]: &[String; 3]) -> Result<String, Verdict> {
    let script = format!("{folder}; {build}");
    let building = with_cargo(natively(scratch, &["sh", "-euc", &script]));
    // Minutes of processor time where nothing is compiled yet, on a machine that may be busy.
    let building = building.limit(Duration::from_secs(1800));
    Ok(run_well(scratch, &building)?.stderr_text())
}

/// What `unspool tool new` makes counts what the tool of the same kind that comes with the
/// command counts, and ends as the program does.
fn builds_and_runs(scratch: &Scratch) -> Result<(), Verdict> {
    let typed = new(scratch, &["my-tool"])?;
    let said = build(scratch, &typed)?;
    if !said.contains("Compiling my-tool") {
        return Err(Verdict::Wrong(format!("what is built is named: {said}")));
    }
    let [_, _, command] = typed;
    second_is_built_alone(scratch)?;
    nothing_is_of_the_checkout(scratch)?;
    let executable = command.split(' ').next().unwrap_or_default();
    let built = scratch.work().join("my-tool").join(executable);
    std::fs::create_dir(scratch.work().join("listed"))?;

    let counted = |prefix: Invocation, program: &[&str]| {
        let invocation = prefix.arguments(program);
        let outcome = run(scratch, &invocation)?;
        let text = outcome.stderr_text();
        let last = text.lines().last().unwrap_or_default();
        let count = last.strip_suffix(" instructions");
        match count.and_then(|count| count.parse::<u64>().ok()) {
            Some(count) => Ok((count, outcome.ending, outcome.stdout_text())),
            None => Err(wrong("the number of instructions", &invocation, &outcome)),
        }
    };
    let own = || natively(scratch, &[built.as_os_str()]).arguments(["--"]);
    let shipped = || unspool(scratch, &["tool", "run", "instruction-count", "--"]);
    for program in [&["ls", "listed"][..], &["sh", "-c", "echo seen; exit 3"]] {
        let (by_own, by_shipped) = (counted(own(), program)?, counted(shipped(), program)?);
        let native = run(scratch, &natively(scratch, program))?;
        let native = (native.ending, native.stdout_text());
        // The dynamic linker's work depends on where it finds things, by a few instructions.
        let close = by_own.0.abs_diff(by_shipped.0) * 50 <= by_shipped.0;
        if !close || (by_own.1, by_own.2.clone()) != native {
            return Err(Verdict::Wrong(format!(
                "{program:?}: {by_own:?}, shipped {by_shipped:?}, natively {native:?}"
            )));
        }
    }
    let missing = natively(scratch, &[built.as_os_str()]).arguments(["--", "no-such-program"]);
    let outcome = run(scratch, &missing)?;
    if outcome.ending != Ending::Exited(127) {
        return Err(wrong("status 127", &missing, &outcome));
    }
    Ok(())
}

/// What tools are built with is compiled for the first of them.
fn second_is_built_alone(scratch: &Scratch) -> Result<(), Verdict> {
    let said = build(scratch, &new(scratch, &["second-tool"])?)?;
    let compiled = said.lines().filter(|line| line.contains("Compiling "));
    let compiled: Vec<&str> = compiled.collect();
    match compiled[..] {
        [alone] if alone.contains("second-tool") => Ok(()),
        _ => Err(Verdict::Wrong(format!("compiled again: {compiled:#?}"))),
    }
}

/// No file of this project's folder is part of a build. The control: those of the cache are.
fn nothing_is_of_the_checkout(scratch: &Scratch) -> Result<(), Verdict> {
    let release = "target/x86_64-unknown-linux-gnu/release/my-tool.d";
    let read = std::fs::read_to_string(scratch.work().join("my-tool").join(release))?;
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates");
    let checkout = checkout.canonicalize()?;
    let cached = kept().join("unspool/sources");
    let names = |folder: &Path| read.contains(&folder.display().to_string());
    if names(&checkout) || !names(&cached) {
        return Err(Verdict::Wrong(format!("what the build has read: {read}")));
    }
    Ok(())
}

/// What `unspool tool new --probe` makes counts what the probe of the same kind counts that comes
/// with the command. With another text, its functions get arguments of all kinds, and give
/// results.
fn probe(_: &Scratch) -> Result<(), Verdict> {
    let outside = Scratch::outside("new_tool::probe")?;
    probe_in(&outside)?;
    outside.remove();
    Ok(())
}

fn probe_in(scratch: &Scratch) -> Result<(), Verdict> {
    let typed = new(scratch, &["--probe", "my-probe"])?;
    build(scratch, &typed)?;
    let command = &typed[2];
    let library = command.split(' ').nth(4).unwrap_or_default();
    let library = scratch.work().join("my-probe").join(library);
    let probed = |options: &[&str], program: &[OsString]| {
        let invocation = unspool(scratch, &["tool", "run", "--probe"])
            .arguments(options)
            .arguments([library.as_os_str(), "--".as_ref()])
            .arguments(program);
        run_well(scratch, &invocation)
    };
    let said = probed(&[], &["ls".into(), "my-probe".into()])?.stderr_text();
    let count = |text: &str| -> Vec<u64> {
        let words = text.split([' ', '\n']);
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let shipped = [
        "tool",
        "run",
        "--probe",
        "malloc-count",
        "--",
        "ls",
        "my-probe",
    ];
    let shipped = run_well(scratch, &unspool(scratch, &shipped))?.stderr_text();
    if count(&said) != count(&shipped) || count(&said).len() != 2 {
        return Err(Verdict::Wrong(format!("{said}, shipped: {shipped}")));
    }

    let text = include_str!("new_tool/checks.rs");
    std::fs::write(scratch.work().join("my-probe/src/lib.rs"), text)?;
    build(scratch, &typed)?;
    let run_with = |name: &str, options: &[&str], arguments: &[&str], expected: &[&str]| {
        let guest = unspool_guests::guests()
            .into_iter()
            .find(|guest| guest.name == name)
            .ok_or_else(|| format!("there is no guest {name}"))?;
        let mut program = vec![crate::guest_programs::build(&guest, "")?.into_os_string()];
        program.extend(arguments.iter().map(OsString::from));
        let native = run_well(scratch, &natively(scratch, &program))?;
        let observed = probed(options, &program)?;
        let said = observed.stderr_text();
        let missing = expected
            .iter()
            .find(|line| !said.lines().any(|said| said == **line));
        if observed.stdout != native.stdout || missing.is_some() {
            return Err(Verdict::Wrong(format!(
                "{name}: {said}missing: {missing:?}\n{}, natively {}",
                observed.stdout_text(),
                native.stdout_text()
            )));
        }
        Ok(())
    };
    run_with(
        "functions/entries",
        &[],
        &["1000"],
        &[
            "six: 1000 calls, sum 999000",
            "mixed: 1000 calls, sum 505500",
            "leaf: 1000 calls, sum 499500",
            "called_itself: 4000 calls",
            "shared: 4000 calls",
            "chosen: 1000 calls",
        ],
    )?;
    // Each of two threads calls three times; an exception ends two of these.
    run_with(
        "functions/ends",
        &[],
        &[],
        &[
            "passes: 6 calls, sum 2",
            "leaps: 6 calls, sum 0",
            "recursive: 12 calls",
            "dropped: 6",
        ],
    )?;
    // Children come while their parent is at its end: each has one of its own.
    let slow = ["-a", "slow"];
    run_with(
        "processes/fork_at_end",
        &slow,
        &[],
        &["six: 0 calls, sum 0"],
    )
}

/// With Cargo as it is for this project: its version, and the crates that it has fetched. What
/// it builds on the way to an executable is kept for all tests together.
pub(crate) fn with_cargo(invocation: Invocation) -> Invocation {
    let cargo = Path::new(env!("CARGO"));
    let mut path = OsString::from(cargo.parent().unwrap_or(cargo));
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let invocation = invocation
        .variable("PATH", path)
        .variable("CARGO_NET_OFFLINE", "true")
        .variable("CARGO_TARGET_DIR", "target")
        // What is built works as well, and is built sooner.
        .variable("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
        .variable("XDG_CACHE_HOME", kept());
    let inherited = ["HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"];
    inherited.iter().fold(invocation, |invocation, name| {
        match std::env::var_os(name) {
            Some(value) => invocation.variable(name, value),
            None => invocation,
        }
    })
}

/// What cannot be made is refused, and nothing is left behind.
fn bad_names(scratch: &Scratch) -> Result<(), Verdict> {
    std::fs::create_dir(scratch.work().join("taken"))?;
    for (arguments, message) in [
        (&["1st"][..], "no crate can be called `1st`"),
        (&["a b"], "no crate can be called `a b`"),
        (&["taken"], "taken is there already"),
        (&["no/folder"], "cannot write no/folder"),
        (&["x", "--library", "taken"], "unspool-tool is not in taken"),
    ] {
        let invocation = unspool(scratch, &["tool", "new"]).arguments(arguments);
        let outcome = run(scratch, &invocation)?;
        if outcome.ending != Ending::Exited(125) || !outcome.stderr_text().contains(message) {
            return Err(wrong(message, &invocation, &outcome));
        }
    }
    let left = std::fs::read_dir(scratch.work())?.count();
    match left {
        1 => Ok(()),
        _ => Err(Verdict::Wrong(format!("{left} entries are left behind"))),
    }
}
