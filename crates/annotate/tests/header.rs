//! The header compiles everywhere without a warning, does nothing, and marks the right
//! places with the right values.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use unspool_annotate::MARKER;

const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// Calls everything once. Where a breakpoint stands in a mark's place, it tells what the
/// registers hold.
const PROBE: &str = r#"
#define _GNU_SOURCE 1
#include <signal.h>
#include <stdio.h>
#include <ucontext.h>
#include "unspool.h"

static void tell(int number, siginfo_t *information, void *context)
{
    long long *registers = (long long *)((ucontext_t *)context)->uc_mcontext.gregs;
    const char *name = (const char *)registers[REG_RDX];
    (void)number, (void)information;
    printf("%lld %lld %s\n", registers[REG_RDI], registers[REG_RSI], name ? name : "none");
}

int main(void)
{
    struct sigaction action = {};
    action.sa_sigaction = tell;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, 0);
    unspool_register_thread(-5, "a name");
    unspool_start_region();
    unspool_end_region();
    unspool_begin_interval("an interval");
    unspool_end_interval();
#ifdef __cplusplus
    atomic_trace::register_thread(1LL << 40);
    atomic_trace::start_roi();
    atomic_trace::end_roi();
#endif
    puts("done");
}
"#;

fn header_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

/// Compiles; none, with a word on why, without that compiler.
fn compile(source: &Path, compiler: &str, flags: &[&str], output: &Path) -> Option<()> {
    let result = Command::new(compiler)
        .args(flags)
        .arg("-I")
        .arg(header_directory())
        .arg(source)
        .arg("-o")
        .arg(output)
        .output();
    let Ok(result) = result else {
        eprintln!("skipped: there is no {compiler}");
        return None;
    };
    let errors = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success(), "{compiler} {flags:?}: {errors}");
    Some(())
}

fn run(program: &Path) -> String {
    let output = Command::new(program).output().expect("a program");
    assert!(output.status.success(), "{}", program.display());
    String::from_utf8(output.stdout).expect("text")
}

/// Puts a breakpoint in place of every mark, with a no-operation of seven bytes behind it.
fn break_at_marks(program: &Path) -> usize {
    let mut bytes = std::fs::read(program).expect("a program");
    let mut count = 0;
    while let Some(position) = bytes.windows(MARKER.len()).position(|part| part == MARKER) {
        bytes[position..position + 8].copy_from_slice(&[0xcc, 0x0f, 0x1f, 0x80, 0, 0, 0, 0]);
        count += 1;
    }
    std::fs::write(program, bytes).expect("our own file");
    count
}

#[test]
fn marks_do_nothing_and_carry_their_values() {
    let directory = TempDir::new().expect("a temporary directory");
    let c_values = "1 -5 a name\n2 0 none\n3 0 none\n";
    let cpp_values = "1 1099511627776 none\n2 0 none\n3 0 none\n";
    let variants = [
        ("probe.c", "gcc", "-std=gnu99", c_values.to_owned()),
        ("probe.c", "clang", "-std=gnu11", c_values.to_owned()),
        (
            "probe.cpp",
            "g++",
            "-std=c++11",
            format!("{c_values}{cpp_values}"),
        ),
        (
            "probe.cpp",
            "clang++",
            "-std=c++17",
            format!("{c_values}{cpp_values}"),
        ),
    ];
    for (name, compiler, standard, values) in variants {
        let source = directory.path().join(name);
        std::fs::write(&source, PROBE).expect("a writable directory");
        for optimisation in ["-O0", "-O2", "-O3"] {
            let program = directory.path().join(format!("{compiler}{optimisation}"));
            let flags = ["-Wall", "-Wextra", standard, optimisation];
            if compile(&source, compiler, &flags, &program).is_none() {
                break;
            }
            assert_eq!(run(&program), "done\n", "{compiler} {optimisation}");
            let marks = break_at_marks(&program);
            assert!(
                marks >= values.lines().count(),
                "{marks} marks by {compiler}"
            );
            assert_eq!(
                run(&program),
                format!("{values}done\n"),
                "{compiler} {optimisation}"
            );
        }
    }
}

#[test]
fn the_header_compiles_without_a_warning() {
    let directory = TempDir::new().expect("a temporary directory");
    let text = "#include \"unspool.h\"\n#include \"unspool.h\"\nint use(void);\n\
                int use(void) { unspool_start_region(); return 0; }\n";
    let variants: [(&str, &str, &[&str]); 6] = [
        ("use.c", "gcc", &["-std=c99"]),
        ("use.c", "gcc", &["-std=c17", "-Wconversion", "-Wshadow"]),
        ("use.c", "clang", &["-std=c11"]),
        (
            "use.cpp",
            "g++",
            &["-std=c++11", "-Wold-style-cast", "-Wconversion"],
        ),
        (
            "use.cpp",
            "g++",
            &["-std=c++20", "-DUNSPOOL_WITHOUT_ATOMIC_TRACE"],
        ),
        ("use.cpp", "clang++", &["-std=c++11"]),
    ];
    for (name, compiler, flags) in variants {
        let source = directory.path().join(name);
        std::fs::write(&source, text).expect("a writable directory");
        let object = directory.path().join("use.o");
        compile(
            &source,
            compiler,
            &[flags, &STRICT, &["-c", "-O1"]].concat(),
            &object,
        );
    }
}

#[test]
fn names_of_atomic_memory_trace_are_functions_of_their_own() {
    let directory = TempDir::new().expect("a temporary directory");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/atomic_trace_names.cpp");
    let program = directory.path().join("program");
    let flags = [&STRICT[..], &["-std=c++11", "-O3", "-pthread"]].concat();
    if compile(&source, "g++", &flags, &program).is_none() {
        return;
    }
    assert_eq!(run(&program), "1000\n");
    let Ok(listing) = Command::new("nm").arg("-C").arg(&program).output() else {
        eprintln!("skipped: there is no nm");
        return;
    };
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    for name in ["register_thread(long)", "start_roi()", "end_roi()"] {
        let count = listing
            .lines()
            .filter(|line| line.ends_with(&format!("atomic_trace::{name}")));
        assert_eq!(count.count(), 1, "{name}: {listing}");
    }
}

#[test]
fn the_c_example_runs() {
    let directory = TempDir::new().expect("a temporary directory");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/named_threads.c");
    let program = directory.path().join("program");
    let flags = [&STRICT[..], &["-std=c99", "-O2", "-pthread"]].concat();
    if compile(&source, "gcc", &flags, &program).is_some() {
        assert_eq!(run(&program), "3000\n");
    }
}
