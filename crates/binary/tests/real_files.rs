//! Modules of this system and modules compiled here, against what binutils says of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use unspool_binary::{
    DebugInformation, FileAddress, FileOffset, FoundFunction, FunctionKind, FunctionNames,
    LoadBias, Module, RuntimeAddress,
};

const SOURCE: &str = r#"
#include <cstdint>
#include <cstdio>
namespace ns {
    __attribute__((noinline)) int work(int number) { return number * 3 + 1; }
    __attribute__((noinline)) double work(double number) { return number * 3 + 1; }
    template <class T> __attribute__((noinline)) T twice(T value) { return value + value; }
    struct Thing {
        int value;
        __attribute__((noinline)) explicit Thing(int v) : value(v) {}
        __attribute__((noinline)) int operator()(int more) const { return value + more; }
        __attribute__((noinline)) int operator*(int more) const { return value * more; }
    };
}
namespace atomic_trace {
    __attribute__((noinline)) void start_roi() { __asm__ volatile(""); }
}
extern "C" __attribute__((noinline)) int plain(int number) { return number + 7; }
int main(int count, char **) {
    atomic_trace::start_roi();
    ns::Thing thing(count);
    std::printf("%d %f %d %f %d\n", ns::work(count), ns::work(0.5 + count), ns::twice(count),
                ns::twice(0.25 * count), plain(count) + thing(count) * (thing * count));
}
"#;

/// The compiled program; none, with a word on why, without a compiler.
fn compile(directory: &TempDir, flags: &[&str]) -> Option<PathBuf> {
    let source = directory.path().join("program.cpp");
    std::fs::write(&source, SOURCE).expect("a writable directory");
    let program = directory.path().join("program");
    let status = Command::new("g++")
        .args(["-O1", "-g0"])
        .args(flags)
        .arg(&source)
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

fn run(program: &str, arguments: &[&Path]) -> Option<String> {
    let output = Command::new(program)
        .env("LC_ALL", "C")
        .args(arguments)
        .output();
    let Ok(output) = output else {
        eprintln!("skipped: there is no {program}");
        return None;
    };
    assert!(output.status.success(), "{program} {arguments:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn found(module: &Module, name: &str) -> Vec<String> {
    let names = FunctionNames::new([name]);
    let mut list: Vec<String> = module
        .functions_named(&names)
        .iter()
        .map(|found| {
            assert_eq!(found.asked, name);
            found.function.name()
        })
        .collect();
    list.sort();
    list
}

#[test]
fn functions_are_found_by_all_their_names() {
    let directory = TempDir::new().expect("a temporary directory");
    let Some(program) = compile(&directory, &[]) else {
        return;
    };
    let module = Module::open(&program).expect("a program");
    assert_eq!(module.problems(), []);
    assert_eq!(
        found(&module, "ns::work"),
        ["ns::work(double)", "ns::work(int)"]
    );
    assert_eq!(found(&module, "ns::work(int)"), ["ns::work(int)"]);
    assert_eq!(found(&module, "_ZN2ns4workEi"), ["ns::work(int)"]);
    assert_eq!(
        found(&module, "ns::twice"),
        [
            "double ns::twice<double>(double)",
            "int ns::twice<int>(int)"
        ]
    );
    assert_eq!(
        found(&module, "ns::twice<int>"),
        ["int ns::twice<int>(int)"]
    );
    assert_eq!(
        found(&module, "ns::Thing::operator()"),
        ["ns::Thing::operator()(int) const"]
    );
    assert_eq!(
        found(&module, "atomic_trace::start_roi"),
        ["atomic_trace::start_roi()"]
    );
    assert_eq!(
        found(&module, "ns::Thing::operator*"),
        ["ns::Thing::operator*(int) const"]
    );
    assert_eq!(found(&module, "plain"), ["plain"]);
    assert_eq!(found(&module, "pla*"), ["plain"]);
    assert_eq!(
        found(&module, "_ZN2ns4work*"),
        ["ns::work(double)", "ns::work(int)"]
    );
    let names = FunctionNames::new(["pla*", "ns::work(int)"]);
    let named = module.functions_named(&names);
    let mut named: Vec<_> = named.iter().map(FoundFunction::name).collect();
    named.sort();
    assert_eq!(named, ["ns::work(int)", "plain"]);
    assert_eq!(found(&module, "main"), ["main"]);
    assert!(!found(&module, "ns::Thing::Thing").is_empty());
    for absent in [
        "work",
        "ns",
        "*",
        "lain*",
        "ns::wor",
        "printf",
        "ns::work(long)",
        "",
    ] {
        assert_eq!(found(&module, absent), Vec::<String>::new(), "{absent:?}");
    }
    let list = FunctionNames::parse("# comment\n\n  plain \nns::work\nplain\n");
    assert_eq!(list.iter().collect::<Vec<_>>(), ["plain", "ns::work"]);
    assert_eq!(module.functions_named(&list).len(), 3);
}

#[test]
fn functions_have_the_bounds_that_nm_says() {
    let directory = TempDir::new().expect("a temporary directory");
    for flags in [&["-no-pie"][..], &["-static"], &["-shared", "-fPIC"]] {
        let Some(program) = compile(&directory, flags) else {
            return;
        };
        let Some(listing) = run(
            "nm",
            &[Path::new("-S"), Path::new("--defined-only"), &program],
        ) else {
            return;
        };
        let module = Module::open(&program).expect("a program");
        let functions: BTreeMap<(u64, Vec<u8>), u64> = module
            .functions()
            .map(|function| {
                let size = function.end().0 - function.address().0;
                ((function.address().0, function.symbol().to_vec()), size)
            })
            .collect();
        let mut compared = 0;
        for line in listing.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let &[address, size, "t" | "T" | "w" | "W", name] = fields.as_slice() else {
                continue;
            };
            let address = u64::from_str_radix(address, 16).expect("a number");
            let size = u64::from_str_radix(size, 16).expect("a number");
            let name = name.split('@').next().unwrap_or(name);
            assert_eq!(
                functions.get(&(address, name.into())),
                Some(&size),
                "{name}"
            );
            let (inside, offset) = module
                .function_at(FileAddress(address + size - 1))
                .expect("a function");
            assert_eq!(inside.address().0 + offset, address + size - 1);
            compared += 1;
        }
        assert!(
            compared >= 6,
            "only {compared} functions were compared: {listing}"
        );
    }
}

#[test]
fn stripped_files_keep_what_they_export() {
    let directory = TempDir::new().expect("a temporary directory");
    let Some(library) = compile(&directory, &["-shared", "-fPIC"]) else {
        return;
    };
    let full = Module::open(&library).expect("a library");
    if run("strip", &[&library]).is_none() {
        return;
    }
    let stripped = Module::open(&library).expect("a library");
    assert!(stripped.functions().count() < full.functions().count());
    assert_eq!(
        found(&stripped, "ns::work"),
        ["ns::work(double)", "ns::work(int)"]
    );

    // Without section headers only the dynamic segment tells where the symbols are.
    let mut bytes = std::fs::read(&library).expect("a library");
    bytes[0x28..0x30].fill(0);
    bytes[0x3a..0x40].fill(0);
    let bare = Module::from_bytes(&library, bytes).expect("a library");
    assert_eq!(bare.problems(), []);
    assert_eq!(
        found(&bare, "ns::work"),
        ["ns::work(double)", "ns::work(int)"]
    );
    assert_eq!(bare.build_id(), stripped.build_id());
}

#[test]
fn the_build_id_is_the_linkers() {
    let directory = TempDir::new().expect("a temporary directory");
    let flag = "-Wl,--build-id=0x0123456789abcdef";
    let Some(program) = compile(&directory, &[flag]) else {
        return;
    };
    let module = Module::open(&program).expect("a program");
    let expected: &[u8] = &[0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
    assert_eq!(module.build_id(), Some(expected));
    let Some(program) = compile(&directory, &["-Wl,--build-id=none"]) else {
        return;
    };
    assert_eq!(Module::open(&program).expect("a program").build_id(), None);
}

/// A link that names what is no file: reading on would never end, or not begin.
#[test]
fn what_is_no_file_is_no_debug_file() {
    let directory = TempDir::new().expect("a temporary directory");
    let Some(program) = compile(&directory, &["-s", "-Wl,--build-id=none"]) else {
        return;
    };
    let debug = directory.path().join("program.debug");
    std::fs::write(&debug, "").expect("a writable directory");
    let mut link = std::ffi::OsString::from("--add-gnu-debuglink=");
    link.push(&debug);
    if run("objcopy", &[Path::new(&link), &program]).is_none() {
        return;
    }
    std::fs::remove_file(&debug).expect("the file from above");
    assert_eq!(Module::open(&program).expect("a program").problems(), []);

    let make_pipe = || assert!(run("mkfifo", &[&debug]).is_some());
    let make_device = || std::os::unix::fs::symlink("/dev/zero", &debug).expect("a link");
    let make_directory = || std::fs::create_dir(&debug).expect("a directory");
    let made: [&dyn Fn(); 3] = [&make_pipe, &make_device, &make_directory];
    for make in made {
        make();
        let (told, answer) = std::sync::mpsc::channel();
        let program = program.clone();
        std::thread::spawn(move || {
            let module = Module::open(&program).expect("a program");
            let parts = module.problems().iter().map(|it| it.part);
            let has_information = DebugInformation::of(&program).is_some();
            told.send((parts.collect::<Vec<_>>(), has_information))
        });
        let answer = answer.recv_timeout(Duration::from_secs(60));
        assert_eq!(answer, Ok((vec!["debug file"], false)));
        std::fs::remove_file(&debug)
            .or_else(|_| std::fs::remove_dir(&debug))
            .expect("what was made");
    }
}

#[test]
fn addresses_of_this_process_lead_back_to_its_file() {
    let module = Module::open(Path::new("/proc/self/exe")).expect("this program");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc is mounted");
    let own_path = std::env::current_exe().expect("this program");
    let own_path = own_path.to_str().expect("a plain name");
    let mut biases: Vec<LoadBias> = maps
        .lines()
        .filter(|line| line.ends_with(own_path))
        .map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let start = fields[0].split('-').next().expect("a range");
            let number = |text| u64::from_str_radix(text, 16).expect("a number");
            let address = RuntimeAddress(number(start));
            module
                .bias_of_mapping(
                    address,
                    FileOffset(number(fields[2])),
                    fields[1].contains('x'),
                )
                .expect("a mapping of a segment")
        })
        .collect();
    assert!(biases.len() > 2);
    biases.dedup();
    assert_eq!(biases.len(), 1, "all mappings agree: {biases:?}");
    let here = addresses_of_this_process_lead_back_to_its_file as fn() as usize as u64;
    let address = RuntimeAddress(here).in_file(biases[0]);
    let (function, offset) = module.function_at(address).expect("this function");
    assert!(
        function
            .name()
            .ends_with("addresses_of_this_process_lead_back_to_its_file")
    );
    assert_eq!((offset, address.in_program(biases[0]).0), (0, here));
    let in_file = module.offset_of(address).expect("code is in the file");
    assert_eq!(module.address_of(in_file), Some(address));
}

#[test]
fn every_module_of_the_system_is_read_without_problems() {
    let mut read = 0;
    for directory in ["/usr/bin", "/usr/lib/x86_64-linux-gnu"] {
        for entry in std::fs::read_dir(directory)
            .into_iter()
            .flatten()
            .flatten()
            .take(300)
        {
            let Ok(module) = Module::open(&entry.path()) else {
                continue;
            };
            assert_eq!(module.problems(), [], "{}", module.path().display());
            if let Some(function) = module.functions().last() {
                assert!(function.end() > function.address());
                assert!(module.function_at(function.address()).is_some());
            }
            read += 1;
        }
    }
    if read == 0 {
        eprintln!("skipped: this system keeps its programs elsewhere");
    }
}

#[test]
fn indirect_functions_are_told_apart() {
    let path = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    let Ok(module) = Module::open(path) else {
        eprintln!("skipped: there is no {}", path.display());
        return;
    };
    let kind = |name| {
        let names = FunctionNames::new([name]);
        module
            .functions_named(&names)
            .first()
            .map(|found| found.function.kind())
    };
    assert_eq!(kind("memcpy"), Some(FunctionKind::Resolver));
    assert_eq!(kind("malloc"), Some(FunctionKind::Function));
}
