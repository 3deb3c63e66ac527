//! Programs instrumented in their source, compiled, run, and analysed from their traces.

use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::Trial;

use crate::command::{Compiler, Verdict, check, openmp_in, programs, trial};

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

/// A busy machine may disturb some attempts.
const ATTEMPTS: usize = 8;

/// One test for each.
pub(crate) fn trials() -> Vec<Trial> {
    let planted = PROGRAMS.iter().map(|(source, compiler, key, wanted)| {
        let name = format!("instrumented::{source}::{}", compiler.command());
        trial(name, move || {
            let (folder, program) = build(&programs().join(source), *compiler)?;
            let mut result = measure(&folder, &program, key, *wanted);
            for _ in 1..ATTEMPTS {
                if result.is_ok() {
                    break;
                }
                result = measure(&folder, &program, key, *wanted);
            }
            result
        })
    });
    let fixed = trial(
        "instrumented::fixed_form.f::gfortran".to_owned(),
        fixed_form,
    );
    planted.chain([fixed]).collect()
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
    let mut command = Command::new(compiler.command());
    command.args(["-O2", "-g", "-fopenmp", "-o", "program", &instrumented]);
    command
        .arg("-I")
        .arg(programs())
        .args(["-L.", "-l:libunspool_dbg.so"]);
    command
        .arg(format!("-Wl,-rpath,{}", folder.display()))
        .current_dir(&folder);
    let output = command
        .output()
        .map_err(|_| Verdict::CannotTell(format!("{} is not installed", compiler.command())))?;
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    if talk.contains("-lomp") || talk.contains("omp.h") {
        return Err(Verdict::CannotTell("libomp is not installed".to_owned()));
    }
    check(output.status.success(), || format!("{command:?}\n{talk}"))?;
    Ok((folder, program))
}

/// Runs a program, after the traces of an earlier run have gone.
fn run(folder: &Path, program: &Path) -> Result<String, Verdict> {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry
            .path()
            .extension()
            .is_some_and(|extension| extension == "mtr")
        {
            let _gone = std::fs::remove_file(entry.path());
        }
    }
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
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn measure(folder: &Path, program: &Path, key: &str, wanted: f64) -> Result<(), Verdict> {
    let protocol = run(folder, program)?;
    let figure = |key: &str| {
        let line = protocol
            .lines()
            .find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
        line.and_then(|figure| figure.parse::<f64>().ok())
            .unwrap_or(f64::NAN)
    };
    let sum = figure("Productive Time") + figure("Lost Time") + figure("Idle Time");
    check((sum - figure("Total Time")).abs() < 0.01, || {
        protocol.clone()
    })?;
    check((figure(key) - wanted).abs() <= 0.03 * wanted, || {
        format!("{key}: {wanted} planted\n{protocol}")
    })
}

/// Labelled loops, directives that are continued, and an interval, in fixed form.
fn fixed_form() -> Result<(), Verdict> {
    let source = programs().join("instrumented/fixed_form.f");
    let (folder, program) = build(&source, Compiler::Gfortran)?;
    let protocol = run(&folder, &program)?;
    check(protocol.contains("OMP_instance=critical"), || {
        protocol.clone()
    })?;
    let output = openmp_in(&folder, &["-make-all-traces"]);
    check(output.status.success(), || {
        String::from_utf8_lossy(&output.stderr).into_owned()
    })?;
    let readable = std::fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let is_readable = entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "rtr");
            is_readable.then(|| std::fs::read_to_string(entry.path()).unwrap_or_default())
        });
    let interval = readable
        .into_iter()
        .any(|text| text.contains("user interval begins MAIN src=fixed_form.f(6:20)"));
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
