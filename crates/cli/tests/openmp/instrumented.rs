//! Programs instrumented in their source, compiled, run, and analysed from their traces.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;

use crate::attempts::attempt;
use crate::command::{Compiler, Verdict, check, openmp_in, programs, trial};
use crate::planted::Expectation;

/// Program, compiler, a line of the protocol, and what must stand there in milliseconds.
const PROGRAMS: &[(&str, Compiler, &str, f64)] = &[
    ("loop_dynamic.c", Compiler::Gcc, "Desync Time", 600.0),
    ("loop_dynamic.c", Compiler::Clang, "Desync Time", 600.0),
    ("loop_dynamic.f90", Compiler::Gfortran, "Desync Time", 600.0),
    ("critical.c", Compiler::Gcc, "Lost Time", 600.0),
    (
        "duplicated.f90",
        Compiler::Gfortran,
        "Insufficient Par",
        600.0,
    ),
    ("ordered.f90", Compiler::Gfortran, "Lost Time", 1200.0),
    ("locks.c", Compiler::Gcc, "Lost Time", 1800.0),
];

/// One test for each.
pub(crate) fn trials() -> Vec<Trial> {
    let planted = PROGRAMS.iter().map(|(source, compiler, key, wanted)| {
        let name = format!("instrumented::{source}::{}", compiler.command());
        trial(name, move || {
            let (folder, program) = build(&programs().join(source), *compiler)?;
            let expected = Expectation::read(&programs().join(source));
            let plan = expected.map(|expected| expected.plan());
            let plan = plan.ok_or_else(|| Verdict::Wrong("no plan is in it".to_owned()))?;
            attempt(
                plan,
                || run(&folder, &program),
                |protocol, slack| measure(protocol, key, *wanted, slack),
            )
        })
    });
    let fixed = trial(
        "instrumented::fixed_form.f::gfortran".to_owned(),
        fixed_form,
    );
    let constructs = CONSTRUCTS.iter().map(|(source, compiler)| {
        let name = format!("instrumented::{source}::{}", compiler.command());
        trial(name, move || every_construct(source, *compiler))
    });
    planted.chain([fixed]).chain(constructs).collect()
}

/// Programs with every construct, and who compiles them.
const CONSTRUCTS: &[(&str, Compiler)] = &[
    ("every_construct.f90", Compiler::Gfortran),
    ("every_construct.f90", Compiler::Flang),
    ("old_constructs.f", Compiler::Gfortran),
    ("every_construct.c", Compiler::Gcc),
    ("every_construct.c", Compiler::Clang),
    ("every_construct.cpp", Compiler::Gxx),
    ("every_construct.cpp", Compiler::Clangxx),
    ("forks.c", Compiler::Gcc),
];

/// The program prints the same as without its calls, and all threads together have seen
/// each event as often as its comment says: `counts: N event`.
fn every_construct(name: &str, compiler: Compiler) -> Result<(), Verdict> {
    let source = programs().join("instrumented").join(name);
    let native = crate::command::build(&source, compiler, &["-w"])?;
    let (folder, program) = build(&source, compiler)?;
    let run_in = |program: &Path| {
        let output = Command::new(program)
            .env("OMP_NUM_THREADS", "2")
            .env("OMP_WAIT_POLICY", "passive")
            .current_dir(&folder)
            .output();
        output.map_err(|error| Verdict::Wrong(error.to_string()))
    };
    forget_traces(&folder);
    let (expected, found) = (run_in(&native)?, run_in(&program)?);
    let is_same = found.status == expected.status && found.stdout == expected.stdout;
    check(is_same, || format!("{expected:?}\n{found:?}"))?;
    let readable = readable(&folder)?;
    let text = std::fs::read_to_string(&source).unwrap_or_default();
    let counts = text.lines().filter_map(|line| {
        let (_, count) = line.split_once("counts: ")?;
        let (count, event) = count.split_once(' ')?;
        Some((count.parse::<u64>().ok()?, event))
    });
    let mut seen = 0;
    for (wanted, event) in counts {
        let counter = |line: &str| -> Option<u64> {
            let (_, rest) = line.split_once(' ')?;
            let (what, rest) = rest.split_once(" src=")?;
            let (_, counter) = rest.split_once("counter=")?;
            let counter = counter.split(' ').next()?.parse().ok()?;
            (what == event).then_some(counter)
        };
        let found: u64 = readable.lines().filter_map(counter).sum();
        seen += 1;
        check(found == wanted, || {
            format!("{event}: {found} times, not {wanted}\n{readable}")
        })?;
    }
    check(seen > 0, || format!("{name} does not say what it counts"))
}

fn names_of_traces(folder: &Path) -> Vec<std::ffi::OsString> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = files.map(|entry| entry.file_name());
    names
        .filter(|name| name.to_string_lossy().ends_with(".mtr"))
        .collect()
}

fn forget_traces(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path
            .extension()
            .is_some_and(|end| end == "mtr" || end == "rtr")
        {
            let _gone = std::fs::remove_file(path);
        }
    }
}

/// The readable traces of all threads.
fn readable(folder: &Path) -> Result<String, Verdict> {
    let output = openmp_in(folder, &["-make-all-traces"]);
    check(output.status.success(), || {
        String::from_utf8_lossy(&output.stderr).into_owned()
    })?;
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_readable = |path: &PathBuf| path.extension().is_some_and(|end| end == "rtr");
    let texts = files.map(|entry| entry.path()).filter(is_readable);
    Ok(texts
        .map(|path| std::fs::read_to_string(path).unwrap_or_default())
        .collect())
}

/// Instruments and builds a program in a folder of its own.
fn build(source: &Path, compiler: Compiler) -> Result<(PathBuf, PathBuf), Verdict> {
    let wrong = |error: std::io::Error| Verdict::Wrong(error.to_string());
    let name = source
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("openmp")
        .join(format!("instrumented-{name}-{}", compiler.command()));
    std::fs::create_dir_all(&folder).map_err(wrong)?;
    let instrumented = format!("dbg_{name}");
    let steps = [
        vec![
            "--output",
            &instrumented,
            "instrument",
            source.to_str().unwrap_or_default(),
        ],
        vec!["--output", "libunspool_dbg.so", "runtime"],
    ];
    for words in steps {
        let output = openmp_in(&folder, &words);
        check(output.status.success(), || {
            String::from_utf8_lossy(&output.stderr).into_owned()
        })?;
    }
    let program = folder.join("program");
    let mut command = compiler.start()?;
    command
        .args(["-w", "-o", "program"])
        .args(shared_module(source))
        .arg(&instrumented)
        .arg("-I")
        .arg(programs())
        .args(["-L.", "-l:libunspool_dbg.so"])
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .current_dir(&folder);
    compiler.finish(&mut command)?;
    Ok((folder, program))
}

/// The module that planted programs in Fortran use; it is not instrumented.
fn shared_module(source: &Path) -> Option<PathBuf> {
    let is_fortran = source
        .extension()
        .is_some_and(|extension| extension == "f90");
    is_fortran.then(|| programs().join("shared/planted.f90"))
}

/// Runs a program, which removes the traces of earlier runs; the protocol, and what it said.
fn run(folder: &Path, program: &Path) -> Result<(String, String), Verdict> {
    let status = Command::new(program)
        .env("OMP_WAIT_POLICY", "passive")
        .current_dir(folder)
        .output();
    let status = status.map_err(|error| Verdict::Wrong(error.to_string()))?;
    check(status.status.success(), || {
        format!("{}: {:?}", program.display(), status.status)
    })?;
    let output = openmp_in(folder, &["-analize"]);
    check(output.status.success(), || {
        String::from_utf8_lossy(&output.stderr).into_owned()
    })?;
    let talk = String::from_utf8_lossy(&status.stderr).into_owned();
    Ok((String::from_utf8_lossy(&output.stdout).into_owned(), talk))
}

fn measure(protocol: &str, key: &str, wanted: f64, slack: f64) -> Result<(), Verdict> {
    let figure = |key: &str| {
        let line = protocol
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        line.and_then(|figure| figure.parse::<f64>().ok())
            .unwrap_or(f64::NAN)
    };
    let sum = figure("Productive Time") + figure("Lost Time") + figure("Idle Time");
    check((sum - figure("Total Time")).abs() < 0.01, || {
        protocol.to_owned()
    })?;
    check(
        (figure(key) - wanted).abs() <= 0.03 * wanted + 1e3 * slack,
        || format!("{key}: {wanted} planted\n{protocol}"),
    )
}

/// Labelled loops, directives that are continued, and an interval, in fixed form.
fn fixed_form() -> Result<(), Verdict> {
    let source = programs().join("instrumented/fixed_form.f");
    let (folder, program) = build(&source, Compiler::Gfortran)?;
    // Of an earlier run there is nothing left, though its threads had other numbers.
    run(&folder, &program)?;
    let earlier = names_of_traces(&folder);
    let (protocol, _) = run(&folder, &program)?;
    let names = names_of_traces(&folder);
    let is_new = names.iter().all(|name| !earlier.contains(name));
    check(names.len() == earlier.len() && is_new, || {
        format!("{earlier:?}, then {names:?}")
    })?;
    // However a trace is named, it is one of its run, and counts once.
    let name = names[0].to_string_lossy().into_owned();
    let event = |path: &str| {
        let output = openmp_in(&folder, &["-make-trace", path, "event=3"]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let (bare, absolute) = (event(&name), folder.join(&name));
    for path in [format!("./{name}"), absolute.to_string_lossy().into_owned()] {
        let found = event(&path);
        check(!bare.is_empty() && found == bare, || {
            format!("{path}: {found}instead of {bare}")
        })?;
    }
    let refused = openmp_in(&folder, &["-intervals=9999", "-make-all-traces"]);
    let talk = String::from_utf8_lossy(&refused.stderr);
    check(talk.contains("no interval has this number"), || {
        format!("{refused:?}")
    })?;
    check(protocol.contains("OMP_instance=critical"), || {
        protocol.clone()
    })?;
    let interval = readable(&folder)?.contains("user interval begins MAIN src=fixed_form.f(6:20)");
    check(interval, || "no readable trace has the interval".to_owned())?;
    // The interval is seen from outside too.
    let output = openmp_in(&folder, &["--json", &program.to_string_lossy()]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| Verdict::Wrong(error.to_string()))?;
    let interval = &report["intervals"][0];
    check(interval["name"] == "MAIN", || {
        report["intervals"].to_string()
    })?;
    let number = |key: &str| interval[key].as_f64().unwrap_or(f64::NAN);
    let sum = number("productive") + number("lost") + number("idle");
    check((sum - number("total")).abs() < 1e-6, || {
        interval.to_string()
    })
}
