//! Every construct is seen, exactly as often as threads pass it.

use libtest_mimic::Trial;

use crate::command::{Compiler, Verdict, build, check, json, programs, trial};

/// One test for each language and runtime.
pub(crate) fn trials() -> Vec<Trial> {
    let pairs = [
        ("every_construct.c", Compiler::Gcc),
        ("every_construct.c", Compiler::Clang),
        ("every_construct.f90", Compiler::Gfortran),
    ];
    let one = |(name, compiler): (&'static str, Compiler)| {
        trial(
            format!("constructs::{name}::{}", compiler.command()),
            move || test(name, compiler),
        )
    };
    pairs.into_iter().map(one).collect()
}

/// The program's comment says `seen: COMPILER COUNT KIND`.
fn test(name: &str, compiler: Compiler) -> Result<(), Verdict> {
    let source = programs().join("instrumented").join(name);
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
    check(any, || format!("{name} does not say what is seen"))
}
