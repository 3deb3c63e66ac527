//! Programs that are linked with the annotation library of atomic-memory-trace are recognised as
//! they are, by the names of its functions.

use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use unspool_guests::{Outcome, Requirement};

use crate::observer::{Verdict, natively, require, run_well, traced, trial, unspool};
use crate::scratch::Scratch;

/// The library, as its README has it.
const LIBRARY: &str = "
namespace atomic_trace {
void register_thread(NUMBER number) { __asm__ volatile(\"\" : : \"r\"(number)); }
void start_roi() { __asm__ volatile(\"\"); }
void end_roi() { __asm__ volatile(\"\"); }
}
";

const PROGRAM: &str = r#"
#include <cstdio>
#include <thread>
namespace atomic_trace {
void register_thread(NUMBER number);
void start_roi();
void end_roi();
}
volatile long before, in, after, other;
extern "C" __attribute__((noinline)) long named_function(long value) { return value + 2; }
int main(int count, char **) {
    auto place = [](volatile long &variable) { return (unsigned long)&variable; };
    std::printf("before %lu\nin %lu\nafter %lu\nother %lu\n", place(before), place(in),
                place(after), place(other));
    std::thread([] {
        before = 1;
        atomic_trace::register_thread(-7);
        atomic_trace::start_roi();
        in = named_function(40);
        std::thread([] { other = 1; }).join();
        atomic_trace::end_roi();
        after = 1;
    }).join();
    return count > 5;
}
"#;

/// A program that registers nothing and has no region.
const SILENT: &str = "int named_function(void) { return 0; } int main(void) { return 0; }";

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for linking in [Linking::Shared, Linking::Archive, Linking::Static] {
        for number in ["int", "long"] {
            trials.push(trial(
                format!("original_library::{}::{number}", linking.name()),
                move |scratch| recognised(scratch, linking, number),
            ));
        }
    }
    trials.push(trial(
        "original_library::nothing_selected".to_owned(),
        nothing_selected,
    ));
    trials
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Linking {
    Shared,
    Archive,
    Static,
}

impl Linking {
    fn name(self) -> &'static str {
        match self {
            Linking::Shared => "shared",
            Linking::Archive => "archive",
            Linking::Static => "static",
        }
    }
}

fn build(scratch: &Scratch, linking: Linking, number: &str) -> Result<PathBuf, Verdict> {
    require([&Requirement::Program("g++".to_owned())])?;
    let work = scratch.work();
    std::fs::write(work.join("annotation.cpp"), LIBRARY)?;
    std::fs::write(work.join("program.cpp"), PROGRAM)?;
    let library = match linking {
        Linking::Shared => {
            "g++ $f -shared -fPIC annotation.cpp -o libannotation.so; g++ $f program.cpp -L. \
             -lannotation -Wl,-rpath,$PWD -o program"
        }
        Linking::Archive => {
            "g++ $f -c annotation.cpp; ar rc libannotation.a annotation.o; g++ $f program.cpp -L. \
             -lannotation -o program"
        }
        Linking::Static => "g++ $f -static program.cpp annotation.cpp -o program",
    };
    let script = format!("f='-O1 -pthread -DNUMBER={number}'; {library}");
    run_well(scratch, &natively(scratch, &["bash", "-euc", &script]))?;
    Ok(work.join("program"))
}

/// The trace as text, and what the program and the recording said.
fn record(
    scratch: &Scratch,
    options: &[&str],
    program: &Path,
) -> Result<(Vec<Vec<String>>, Outcome), Verdict> {
    let file = scratch.path().join("trace.unspool");
    let outcome = run_well(scratch, &traced(scratch, options, &file, &[program]))?;
    let export = ["export", "--format", "tsv", "--ordered"].map(std::ffi::OsStr::new);
    let export = [&export[..], &[file.as_os_str()]].concat();
    let text = run_well(scratch, &unspool(scratch, &export))?.stdout_text();
    let split = |line: &str| line.split('\t').map(str::to_owned).collect();
    Ok((text.lines().map(split).collect(), outcome))
}

fn recognised(scratch: &Scratch, linking: Linking, number: &str) -> Result<(), Verdict> {
    let program = build(scratch, linking, number)?;
    let functions = scratch.path().join("functions");
    std::fs::write(&functions, "atomic_trace::start_roi\nnamed_function\n")?;
    let functions = functions.display().to_string();
    let both = ["--registered-only", "--roi", "--functions", &functions];
    for (options, expected) in [
        // Before the region, in it, behind it, and by another thread.
        (&both[..], [0, 1, 0, 0]),
        (&["--registered-only"], [0, 1, 1, 0]),
        (&["--roi"], [0, 1, 0, 1]),
        (&[], [1, 1, 1, 1]),
    ] {
        let (lines, outcome) = record(scratch, options, &program)?;
        let said = outcome.stdout_text();
        let addresses = said.lines().filter_map(|line| line.split_once(' '));
        let writes = addresses.map(|(_, address)| {
            let is_write = |line: &&Vec<String>| {
                line.windows(2)
                    .any(|pair| pair[0] == "w" && pair[1] == address)
            };
            lines.iter().filter(is_write).count()
        });
        let found: Vec<usize> = writes.collect();
        if found != expected {
            return Err(Verdict::Wrong(format!(
                "{options:?}: {found:?}, not {expected:?}"
            )));
        }
        let of_kind = |kind: &str| {
            lines
                .iter()
                .filter(|line| line.len() > 2 && line[2] == kind)
                .count()
        };
        let counts = ["start_roi", "end_roi"].map(of_kind);
        if counts != [1, 1] || outcome.stderr_text().contains("nothing was selected") {
            return Err(Verdict::Wrong(format!("{options:?}: regions {counts:?}")));
        }
        if options == both {
            let called = |name: &str| {
                lines.iter().any(|line| {
                    line.len() > 3 && line[1] == "-7" && line[2] == "fc" && line[3] == name
                })
            };
            if !called("named_function") || !called("atomic_trace::start_roi") {
                return Err(Verdict::Wrong(
                    "the named functions are not traced".to_owned(),
                ));
            }
        }
    }
    Ok(())
}

/// One line says what was asked for, and what there was.
fn nothing_selected(scratch: &Scratch) -> Result<(), Verdict> {
    std::fs::write(scratch.work().join("silent.c"), SILENT)?;
    let build = natively(scratch, &["gcc", "-O0", "silent.c", "-o", "silent"]);
    run_well(scratch, &build)?;
    let program = scratch.work().join("silent");
    let functions = scratch.path().join("functions");
    std::fs::write(&functions, "named_function\nno_such_function\n")?;
    let functions = functions.display().to_string();
    for (options, parts) in [
        (
            &["--registered-only"][..],
            &["--registered-only", "of 1 none did"][..],
        ),
        (&["--roi"], &["--roi", "none began"]),
        (
            &["--functions", &functions],
            &["not called: named_function", "library: no_such_function"],
        ),
        (&[], &[]),
    ] {
        let (_, outcome) = record(scratch, options, &program)?;
        let text = outcome.stderr_text();
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("nothing was selected"))
            .collect();
        let expected = usize::from(!parts.is_empty());
        let holds = lines.len() == expected
            && lines
                .iter()
                .all(|line| parts.iter().all(|part| line.contains(part)));
        if !holds {
            return Err(Verdict::Wrong(format!("{options:?}: {text}")));
        }
    }
    Ok(())
}
