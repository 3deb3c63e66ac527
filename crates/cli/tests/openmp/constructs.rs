//! Every construct is seen, exactly as often as threads pass it, and at its line.

use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;

use crate::command::{Compiler, Verdict, build, build_by, check, json, programs, trial};

/// One test for each language and runtime.
pub(crate) fn trials() -> Vec<Trial> {
    let pairs = [
        ("instrumented/every_construct.c", Compiler::Gcc),
        ("instrumented/every_construct.c", Compiler::Clang),
        ("instrumented/every_construct.f90", Compiler::Gfortran),
        ("constructs/separate_start_and_end.c", Compiler::Gcc),
    ];
    let one = |(path, compiler): (&'static str, Compiler)| {
        let name = path.rsplit('/').next().unwrap_or(path);
        trial(
            format!("constructs::{name}::{}", compiler.command()),
            move || test(path, compiler),
        )
    };
    let counts = pairs.into_iter().map(one);
    let optimised = ["-O0", "-O1", "-O2", "-O3"].into_iter().map(|level| {
        trial(format!("constructs::lines::clang{level}"), move || {
            lines_of_clang(level)
        })
    });
    let fortran = ["-O0", "-O1", "-O2"].into_iter().map(|level| {
        trial(format!("constructs::lines::gfortran{level}"), move || {
            lines_of_gfortran(level)
        })
    });
    let optimised = optimised.chain(fortran);
    let intervals = [
        (Compiler::Gcc, ["-O2", "-fno-pie", "-no-pie"]),
        (Compiler::Clang, ["-O2", "-fPIE", "-pie"]),
    ];
    let intervals = intervals.into_iter().map(|(compiler, flags)| {
        let name = format!("constructs::intervals::{}", compiler.command());
        trial(name, move || intervals_of_the_program(compiler, &flags))
    });
    let rust = trial("constructs::intervals::rustc".to_owned(), intervals_in_rust);
    let all = counts.chain(optimised).chain(intervals);
    all.chain([rust]).collect()
}

/// The same in Rust, by the crate `unspool-annotate`.
fn intervals_in_rust() -> Result<(), Verdict> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("openmp");
    let crate_source = concat!(env!("CARGO_MANIFEST_DIR"), "/../annotate/src/lib.rs");
    let of_folder = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let (library, object) = (of_folder("libunspool_annotate.rlib"), of_folder("region.o"));
    let program = of_folder("intervals-rust");
    let source = |name: &str| {
        let path = programs().join("constructs").join(name);
        path.to_string_lossy().into_owned()
    };
    let rustc = Path::new(env!("CARGO")).with_file_name("rustc");
    let rustc = |words: &[&str]| {
        let mut command = Command::new(&rustc);
        command.args(["--edition", "2024", "-O"]).args(words);
        command
    };
    let (part, main) = (source("region.c"), source("intervals.rs"));
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-g", "-fopenmp", "-c", "-o", &object, &part]);
    let annotate = ["--crate-type", "rlib", "--crate-name", "unspool_annotate"];
    let annotate: Vec<&str> = annotate
        .into_iter()
        .chain(["-o", &library, crate_source])
        .collect();
    let external = format!("unspool_annotate={library}");
    let linked = format!("link-args={object} -fopenmp");
    let words = ["--extern", &external, "-C", &linked, "-o", &program, &main];
    for mut command in [gcc, rustc(&annotate), rustc(&words)] {
        let made = command.output();
        let made = made.map_err(|error| Verdict::Wrong(error.to_string()))?;
        check(made.status.success(), || {
            String::from_utf8_lossy(&made.stderr).into_owned()
        })?;
    }
    told_intervals(Path::new(&program))
}

/// Intervals that the program tells of by the header have their names, levels and counts; alone, the
/// program does the same.
fn intervals_of_the_program(compiler: Compiler, flags: &[&str]) -> Result<(), Verdict> {
    let source = programs().join("constructs/intervals.c");
    let header = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../annotate/include");
    let flags: Vec<&str> = flags.iter().copied().chain([header]).collect();
    told_intervals(&build(&source, compiler, &flags)?)
}

fn told_intervals(program: &Path) -> Result<(), Verdict> {
    let alone = Command::new(program).output();
    let alone = alone.map_err(|error| Verdict::Wrong(error.to_string()))?;
    check(alone.status.success() && alone.stdout == b"done\n", || {
        format!("{alone:?}")
    })?;
    let report = json(&[&program.to_string_lossy()])?;
    let all = report["intervals"].as_array().into_iter().flatten();
    let found: Vec<(&str, u64, u64)> = all
        .filter_map(|one| {
            let (level, count) = (one["level"].as_u64()?, one["count"].as_u64()?);
            Some((one["name"].as_str()?, level, count))
        })
        .collect();
    let wanted = [("step", 0, 2), ("inner", 1, 2), ("alone", 0, 1)];
    check(found == wanted, || format!("{found:?}"))
}

/// The program's lines end with `at: KIND`, and clang inlines the block that they are in.
fn lines_of_clang(level: &'static str) -> Result<(), Verdict> {
    let source = programs().join("lines/one_region.c");
    let mut clang = Command::new("clang");
    clang.args(["-fopenmp", "-g", level]);
    let name = format!("one_region{level}");
    let program = build_by(clang, &source, &name, &[], |command| {
        Compiler::Clang.finish(command)
    })?;
    let report = json(&[&program.to_string_lossy()])?;
    let text = std::fs::read_to_string(&source).unwrap_or_default();
    let mut wanted: Vec<(u64, &str)> = (1..)
        .zip(text.lines())
        .filter_map(|(number, line)| Some((number, line.split_once("// at: ")?.1)))
        .collect();
    let all = report["processes"][0]["constructs"].as_array();
    let mut found: Vec<(u64, &str)> = all
        .into_iter()
        .flatten()
        .filter_map(|one| Some((one["location"]["line"].as_u64()?, one["kind"].as_str()?)))
        .filter(|(_, kind)| *kind != "implicit barrier")
        .collect();
    wanted.sort_unstable();
    found.sort_unstable();
    check(found == wanted && wanted.len() == 8, || {
        format!("{found:?} instead of {wanted:?}")
    })
}

/// The program's lines end with `at: KIND, KIND`; gfortran gives calls lines of what stands before.
fn lines_of_gfortran(level: &'static str) -> Result<(), Verdict> {
    let source = programs().join("lines/regions.f90");
    let mut gfortran = Command::new("gfortran");
    gfortran.args(["-fopenmp", "-g", level]);
    let name = format!("regions{level}");
    let program = build_by(gfortran, &source, &name, &[], |command| {
        Compiler::Gfortran.finish(command)
    })?;
    let report = json(&["env", "OMP_NUM_THREADS=2", &program.to_string_lossy()])?;
    let text = std::fs::read_to_string(&source).unwrap_or_default();
    let mut wanted: Vec<(u64, &str)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let kinds = line.split_once("! at: ").map_or("", |(_, kinds)| kinds);
        let kinds = kinds.split(", ").filter(|kind| !kind.is_empty());
        wanted.extend(kinds.map(|kind| (number, kind)));
    }
    let all = report["processes"][0]["constructs"].as_array();
    let mut found: Vec<(u64, &str)> = all
        .into_iter()
        .flatten()
        .filter_map(|one| Some((one["location"]["line"].as_u64()?, one["kind"].as_str()?)))
        .collect();
    found.sort_unstable();
    wanted.sort_unstable_by_key(|(line, kind)| (*line, *kind));
    check(found == wanted && wanted.len() == 7, || {
        format!("{found:?} instead of {wanted:?}")
    })
}

/// The program's comment says `seen: COMPILER COUNT KIND`.
fn test(path: &str, compiler: Compiler) -> Result<(), Verdict> {
    let source = programs().join(path);
    let program = build(&source, compiler, &["-w"])?;
    let program = program.to_string_lossy();
    let report = json(&["env", "OMP_NUM_THREADS=2", &program])?;
    let text = std::fs::read_to_string(&source).unwrap_or_default();
    let mut any = false;
    for line in text.lines() {
        let Some((_, words)) = line.split_once("seen: ") else {
            continue;
        };
        let mut words = words.splitn(3, ' ');
        let (who, count, kind) = (words.next(), words.next(), words.next());
        if who != Some(compiler.command()) {
            continue;
        }
        any = true;
        let wanted: Option<u64> = count.and_then(|count| count.parse().ok());
        let all = report["processes"][0]["constructs"].as_array();
        let of_kind = all.into_iter().flatten();
        let of_kind = of_kind.filter(|one| one["kind"].as_str() == kind);
        let shares = of_kind.flat_map(|one| one["threads"].as_array().into_iter().flatten());
        let found: u64 = shares.filter_map(|share| share["count"].as_u64()).sum();
        check(wanted == Some(found), || {
            format!("{kind:?}: {found} times, not {wanted:?}\n{report}")
        })?;
    }
    check(any, || format!("{path} does not say what is seen"))
}
