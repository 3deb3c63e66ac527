//! Functions that are looked for in symbols alone are where the whole module has them.

use std::ops::Range;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use unspool_binary::{FileAddress, FunctionNames, Module, SymbolTables};

/// The bounds of the functions of a name, by the whole module.
fn bounds(module: &Module, names: &FunctionNames) -> Vec<Range<FileAddress>> {
    let found = module.functions_named(names).into_iter();
    let mut bounds: Vec<_> = found
        .map(|found| found.function.address()..found.function.end())
        .collect();
    bounds.sort_by_key(|range| (range.start, range.end));
    bounds.dedup();
    bounds
}

/// Compares for symbols from all over the file, and for names of which it must be known, or not,
/// where the functions are.
fn compare(file: &Path, known: &[&str], unknown: &[&str]) {
    let module = Module::open(file).expect("a module");
    let tables = SymbolTables::open(file).expect("symbols");
    let symbols: Vec<String> = module
        .functions()
        .step_by(1 + module.functions().count() / 500)
        .map(|function| String::from_utf8_lossy(function.symbol()).into_owned())
        .collect();
    let absent = ["", "no such name", "no_such_name", "_", "e", "x::y"];
    let all = symbols.iter().map(String::as_str).chain(absent);
    for name in all.chain(known.iter().copied()) {
        let names = FunctionNames::new([name]);
        if let Some(found) = tables.find(&names) {
            assert_eq!(found, bounds(&module, &names), "{name} in {file:?}");
        }
    }
    for name in known {
        let found = tables.find(&FunctionNames::new([*name]));
        assert!(found.is_some_and(|found| !found.is_empty()), "{name}");
    }
    for name in unknown {
        assert_eq!(tables.find(&FunctionNames::new([*name])), None, "{name}");
    }
    assert_eq!(
        tables.find(&FunctionNames::new(["no_such_name"])),
        Some(Vec::new())
    );
}

#[test]
fn functions_of_this_systems_library() {
    let library = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    if !library.exists() {
        eprintln!("skipped: there is no {}", library.display());
        return;
    }
    // What chooses its code is told by the module alone.
    compare(library, &["malloc", "_exit", "execve"], &["memcpy"]);
}

#[test]
fn functions_by_the_names_of_their_source() {
    const SOURCE: &str = "
        namespace ns {
            int work(int number) { return number * 3 + 1; }
            double work(double number) { return number * 3 + 1; }
            template <class T> T twice(T value) { return value + value; }
            template int twice(int);
        }
        asm(\".globl label\\nlabel: ret\\n\");
    ";
    let directory = TempDir::new().expect("a temporary directory");
    let source = directory.path().join("library.cpp");
    std::fs::write(&source, SOURCE).expect("a writable directory");
    let library = directory.path().join("library.so");
    let compiler = Command::new("g++")
        .args(["-O1", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .status();
    match compiler {
        Ok(status) => assert!(status.success(), "g++"),
        Err(_) => {
            eprintln!("skipped: there is no g++");
            return;
        }
    }
    let known = ["ns::work", "_ZN2ns4workEd", "ns::twice"];
    // A name with parentheses is not in the symbol as it is.
    let unknown = ["ns::work(int)", "label"];
    compare(&library, &known, &unknown);
    let stripped = Command::new("strip").arg(&library).status();
    if stripped.is_ok_and(|status| status.success()) {
        compare(&library, &known, &unknown);
    }
}
