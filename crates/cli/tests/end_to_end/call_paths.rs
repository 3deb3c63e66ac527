//! Call paths that a tool and a probe are given, in a program whose paths are known by construction:
//! through optimised code and plain, with frame pointers and without, of two compilers.

use std::path::Path;

use libtest_mimic::Trial;

use crate::observer::{Verdict, example, natively, run_well, trial, unspool};
use crate::scratch::Scratch;

const PROGRAM: &str = include_str!("call_paths/paths.c");
const LIBRARY: &str = include_str!("call_paths/library.c");

/// The size of each block, and through which calls `allocate` is called for it; `*` stands for
/// functions of libraries, at least one.
const PATHS: [(u64, &[&str]); 9] = [
    (100_001, &["inner", "outer", "main"]),
    (
        100_002,
        &["recurses", "recurses", "recurses", "recurses", "main"],
    ),
    (100_003, &["makes_room", "main"]),
    (100_004, &["aligns", "main"]),
    (100_005, &["keeps", "main"]),
    (100_006, &["compares", "*", "sorts", "main"]),
    (100_007, &["handles", "*", "traps", "interrupted", "main"]),
    (100_008, &["works", "*"]),
    (100_009, &["passes_on", "enters", "main"]),
];

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for compiler in ["gcc", "clang"] {
        for level in ["-O0", "-O2"] {
            for pointer in ["-fomit-frame-pointer", "-fno-omit-frame-pointer"] {
                let name = format!("call_paths::{compiler}{level}{pointer}");
                trials.push(trial(name, move |scratch| {
                    let options = [level, pointer];
                    by_probe(&build(scratch, compiler, &options)?)?;
                    by_tool(&build(scratch, compiler, &options)?)
                }));
            }
        }
    }
    trials.push(trial("call_paths::control".to_owned(), control));
    trials
}

/// Where the program is in the test's folder.
struct Built<'a>(&'a Scratch);

fn build<'a>(scratch: &'a Scratch, compiler: &str, options: &[&str]) -> Result<Built<'a>, Verdict> {
    if !Path::new("/usr/bin").join(compiler).exists() {
        return Err(Verdict::CannotTell(format!("{compiler} is not installed")));
    }
    std::fs::write(scratch.work().join("paths.c"), PROGRAM)?;
    std::fs::write(scratch.work().join("library.c"), LIBRARY)?;
    let compile = |more: &[&str]| {
        let invocation = natively(scratch, &[compiler]).arguments(options);
        run_well(scratch, &invocation.arguments(more))
    };
    compile(&["paths.c", "-o", "paths", "-pthread", "-ldl"])?;
    compile(&["-shared", "-fPIC", "library.c", "-o", "library.so"])?;
    Ok(Built(scratch))
}

/// Whether the functions on a path are those that are expected, and perhaps more behind: what has
/// called `main`.
fn is_path(found: &[&str], expected: &[&str]) -> bool {
    match expected {
        [] => true,
        ["*", rest @ ..] => (1..=found.len()).any(|skipped| is_path(&found[skipped..], rest)),
        [name, rest @ ..] => found.first() == Some(name) && is_path(&found[1..], rest),
    }
}

/// What the probe says: the paths by the sizes of blocks.
fn told_by_probe(Built(scratch): &Built<'_>) -> Result<String, Verdict> {
    let words = ["tool", "run", "--probe", "malloc-callers", "-a", "1000"];
    let run = unspool(scratch, &words).arguments(["--", "./paths", "./library.so"]);
    let outcome = run_well(scratch, &run)?;
    match outcome.stdout_text().as_str() {
        "done\n" => Ok(outcome.stderr_text()),
        other => Err(Verdict::Wrong(format!("the program said {other}"))),
    }
}

/// The sizes whose paths are not as expected.
fn wrong_sizes(told: &str) -> Vec<u64> {
    let is_right = |size: u64, expected: &[&str]| {
        let start = format!("{size} bytes in 1 blocks from allocate, ");
        let path = told.lines().find_map(|line| line.strip_prefix(&start));
        path.is_some_and(|path| is_path(&path.split(", ").collect::<Vec<_>>(), expected))
    };
    let wrong = PATHS.iter().filter(|(size, path)| !is_right(*size, path));
    wrong.map(|(size, _)| *size).collect()
}

fn by_probe(built: &Built<'_>) -> Result<(), Verdict> {
    let told = told_by_probe(built)?;
    match wrong_sizes(&told).as_slice() {
        [] => Ok(()),
        sizes => Err(Verdict::Wrong(format!("wrong for {sizes:?}:\n{told}"))),
    }
}

/// The tool is given the path at the first instruction of `allocate`.
fn by_tool(Built(scratch): &Built<'_>) -> Result<(), Verdict> {
    let tool = natively(scratch, &[example("callers")?]);
    let run = tool.arguments(["allocate", "--", "./paths", "./library.so"]);
    let told = run_well(scratch, &run)?.stderr_text();
    let paths: Vec<Vec<&str>> = told
        .lines()
        .filter_map(|line| line.strip_prefix("1 times from "))
        .map(|path| path.split(", ").collect())
        .collect();
    let is_told = |expected: &[&str]| paths.iter().filter(|path| is_path(path, expected)).count();
    match PATHS.iter().find(|(_, path)| is_told(path) != 1) {
        None if paths.len() == PATHS.len() => Ok(()),
        missing => Err(Verdict::Wrong(format!("{missing:?} is missing:\n{told}"))),
    }
}

/// Another path is told as another, and only that one.
fn control(scratch: &Scratch) -> Result<(), Verdict> {
    let told = told_by_probe(&build(scratch, "gcc", &["-O2", "-DANOTHER"])?)?;
    match wrong_sizes(&told).as_slice() {
        [100_001] => Ok(()),
        sizes => Err(Verdict::Wrong(format!("wrong for {sizes:?}:\n{told}"))),
    }
}
