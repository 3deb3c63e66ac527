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
        trial("new_tool::bad_names".to_owned(), bad_names),
    ]
}

/// What `unspool tool new` makes counts what the tool of the same kind that comes with the
/// command counts, and ends as the program does.
fn builds_and_runs(scratch: &Scratch) -> Result<(), Verdict> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let made = run_well(scratch, &unspool(scratch, &["tool", "new", "my-tool"]))?;
    let crate_folder = scratch.work().join("my-tool");
    // The versions that the project itself was built with are there already.
    std::fs::copy(root.join("Cargo.lock"), crate_folder.join("Cargo.lock"))?;
    // What it said is to be typed: all lines but those of the shell's folder are.
    let said = made.stdout_text();
    let typed: Vec<&str> = said
        .lines()
        .filter_map(|it| it.strip_prefix("    "))
        .collect();
    let [folder, build, command] = typed[..] else {
        return Err(Verdict::Wrong(format!("three lines to type, not: {said}")));
    };
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("outside-tool");
    let script = format!("{folder}; {build}");
    let mut cargo_path = OsString::from(Path::new(env!("CARGO")).parent().unwrap_or(&root));
    cargo_path.push(":");
    cargo_path.push(std::env::var_os("PATH").unwrap_or_default());
    let mut building = natively(scratch, &["sh", "-euc", &script])
        .variable("PATH", cargo_path)
        .variable("CARGO_TARGET_DIR", &target)
        .limit(Duration::from_secs(900));
    for kept in ["HOME", "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN"] {
        if let Some(value) = std::env::var_os(kept) {
            building = building.variable(kept, value);
        }
    }
    run_well(scratch, &building)?;
    let executable = command.split(' ').next().unwrap_or_default();
    let built = built(&target, executable)?;
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

/// Where the executable of that path below the crate's own `target` is.
fn built(target: &Path, executable: &str) -> Result<PathBuf, Verdict> {
    let below = executable.strip_prefix("target/").unwrap_or(executable);
    let built = target.join(below);
    match built.is_file() {
        true => Ok(built),
        false => Err(Verdict::Wrong(format!("{} was not built", built.display()))),
    }
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
