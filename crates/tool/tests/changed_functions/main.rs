//! A tool that wraps and replaces functions changes just what it says, whatever way they end.
//!
//! This program is the tool too: it is one if its arguments name a program behind `--`.

mod changes;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use libtest_mimic::{Arguments, Trial};

/// The guest, built; none, with a word on why, where there is no compiler.
fn build(flags: &[&str]) -> Option<PathBuf> {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/programs/functions/ends.cpp");
    let name = format!("ends{}", flags.concat());
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let status = Command::new("g++")
        .args(["-O2", "-fno-inline", "-pthread"])
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&program)
        .status();
    match status {
        Ok(status) => assert!(status.success(), "g++ {flags:?}"),
        Err(_) => {
            eprintln!("skipped: there is no g++");
            return None;
        }
    }
    Some(program)
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn check(flags: &[&str], entered: u32) {
    let Some(program) = build(flags) else { return };
    let native = Command::new(&program).output().expect("it starts");
    assert_eq!(said(&native).0, "2208 2208\n");
    let changed = Command::new(std::env::current_exe().expect("a program has a file"))
        .arg("--")
        .arg(&program)
        .output()
        .expect("it starts");
    // 12 + 34 + 66 became 33 + 77 + 132, 63 became 1000, and 9 became 12.
    let text = "2208 + 130 + 937 + 3: 3278 3278\n";
    let (stdout, stderr) = said(&changed);
    assert!(
        text.ends_with(&stdout) && !stdout.is_empty(),
        "{stdout}{stderr}"
    );
    assert_eq!(changed.status.code(), Some(0));
    // Exceptions leave two calls in each thread, leaps three.
    let ends = format!("thread 1: 5\nthread 0: 5\n{entered} entered, 10 left in the middle\n");
    assert_eq!(stderr, ends);
}

fn main() {
    if std::env::args_os().any(|argument| argument == "--") {
        changes::run();
    }
    let trial = |name: &str, flags: &'static [&'static str], entered| {
        Trial::test(name, move || {
            check(flags, entered);
            Ok(())
        })
    };
    // In each thread `passes` thrice and `passes_leap` thrice; `even` and `odd` once where they
    // jump to each other, because a function that others jump back to goes on, and eleven times
    // where they call each other.
    let trials = vec![
        trial("with_libraries", &[], 16),
        trial("without", &["-static"], 16),
        trial("unoptimised", &["-O0"], 34),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
