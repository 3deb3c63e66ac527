//! Programs that are compiled here, by each compiler in many ways, with what the compiler says of each
//! instruction as the oracle.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Agreement, Wrong, compare};

/// By what a program may be compiled, for sources that end so.
const COMPILERS: [(&str, &str); 7] = [
    ("gcc", "c"),
    ("g++", "cpp"),
    ("gfortran", "f90"),
    ("clang", "c"),
    ("clang++", "cpp"),
    ("clang-19", "c"),
    ("clang++-19", "cpp"),
];
const LEVELS: [&str; 5] = ["-O0", "-O1", "-O2", "-O3", "-Os"];
const FRAME_POINTERS: [&str; 2] = ["-fomit-frame-pointer", "-fno-omit-frame-pointer"];
/// As it is, with wider vectors and whatever depends on them, and optimised when it is linked.
const OTHERS: [&str; 3] = ["-fPIE", "-mavx2", "-flto"];
/// So many of all are compiled, unless `UNSPOOL_UNWIND_MATRIX=whole` asks for all.
const SAMPLED: usize = 40;

/// One way to compile one program.
#[derive(Debug, Clone)]
struct Build {
    compiler: &'static str,
    source: PathBuf,
    options: [&'static str; 3],
}

fn sources() -> Vec<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["tests/corpus", "../../bench/programs"].map(|folder| here.join(folder));
    let entries = folders
        .iter()
        .flat_map(std::fs::read_dir)
        .flatten()
        .flatten();
    let mut sources: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    sources.sort();
    sources
}

fn builds() -> Vec<Build> {
    let mut builds = Vec::new();
    for (compiler, suffix) in COMPILERS {
        let is_its = |source: &&PathBuf| source.extension().is_some_and(|it| it == suffix);
        for source in sources().iter().filter(is_its) {
            for level in LEVELS {
                for frame_pointer in FRAME_POINTERS {
                    for other in OTHERS {
                        builds.push(Build {
                            compiler,
                            source: source.clone(),
                            options: [level, frame_pointer, other],
                        });
                    }
                }
            }
        }
    }
    builds
}

/// A sample of them, by a seed that is printed and may be given (`UNSPOOL_UNWIND_SEED`).
fn sampled(mut builds: Vec<Build>) -> Vec<Build> {
    if std::env::var("UNSPOOL_UNWIND_MATRIX").is_ok_and(|which| which == "whole") {
        return builds;
    }
    let given = std::env::var("UNSPOOL_UNWIND_SEED").ok();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(1, |time| time.as_nanos() as u64);
    let mut seed = given.and_then(|seed| seed.parse().ok()).unwrap_or(now);
    println!("UNSPOOL_UNWIND_SEED={seed}");
    let mut chosen = Vec::new();
    while chosen.len() < SAMPLED && !builds.is_empty() {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let place = (seed >> 33) as usize % builds.len();
        chosen.push(builds.swap_remove(place));
    }
    chosen
}

/// Compiles a program; none where the compiler is not there, or has no header of the runtime of OpenMP.
fn compiled(build: &Build, folder: &Path) -> Option<PathBuf> {
    let out = folder.join("program");
    let has_parallel_regions = std::fs::read_to_string(&build.source)
        .is_ok_and(|text| ["#pragma omp", "omp.h"].iter().any(|it| text.contains(it)));
    // The newer Clang has no runtime here: code of both is linked with that of the older one.
    let openmp = has_parallel_regions.then_some(["-fopenmp", "-L/usr/lib/llvm-14/lib"]);
    let done = Command::new(build.compiler)
        .current_dir(folder)
        .args(["-g1", "-w", "-pthread"])
        .args(openmp.into_iter().flatten())
        .args(build.options)
        .arg("-o")
        .arg(&out)
        .arg(&build.source)
        .arg("-lm")
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&done.stderr);
    // The header of the runtime is the older one's too.
    if said.contains("omp.h") {
        return None;
    }
    assert!(done.status.success(), "{build:?}: {said}");
    Some(out)
}

/// At least 99.9 % of the instructions of all programs have the recipe that the compiler gives; and of no
/// program, in whichever way it is compiled, fewer than 99 %.
#[test]
fn programs_of_all_compilers_agree() {
    let folder = tempfile::tempdir().unwrap();
    let (mut all, mut worst): (Agreement, Vec<(u64, String)>) = Default::default();
    let mut skipped = 0;
    for build in sampled(builds()) {
        let Some(program) = compiled(&build, folder.path()) else {
            println!("skipped: {build:?}");
            skipped += 1;
            continue;
        };
        let (agreement, wrong) = compare(program.to_str().unwrap(), |_| {});
        let good = agreement.frame.min(agreement.registers);
        let example = wrong.iter().max_by_key(|it| it.instructions);
        let example = example.map_or(String::new(), |Wrong { first, .. }| first.clone());
        worst.push((
            agreement.share(good),
            format!("{build:?} {agreement:?} {example}"),
        ));
        all.instructions += agreement.instructions;
        all.frame += agreement.frame;
        all.registers += agreement.registers;
    }
    worst.sort();
    for (share, text) in worst.iter().take(5) {
        println!("{share} of 100,000: {text}");
    }
    let (frame, registers) = (all.share(all.frame), all.share(all.registers));
    println!(
        "{} programs, {skipped} skipped, {} instructions: frame {frame}, registers {registers} of 100,000",
        worst.len(),
        all.instructions
    );
    assert!(
        worst.len() >= SAMPLED / 4,
        "{skipped} could not be compiled"
    );
    assert!(frame >= 99_900 && registers >= 99_900, "{all:?}");
    assert!(worst[0].0 >= 99_000, "{}", worst[0].1);
}
