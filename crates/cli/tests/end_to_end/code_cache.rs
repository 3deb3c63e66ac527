//! A code cache that is full starts anew, as often as need be, with all threads in it.

use libtest_mimic::Trial;
use unspool_guests::Requirement;

use crate::comparison::runs_alike;
use crate::observer::{Verdict, natively, require, run_well, traced, trial, unspool};
use crate::order::guest_command;
use crate::scratch::Scratch;

/// Threads that use much of the interpreter, a lock between them, and a child process.
const THREADS: &str = "\
import json, re, subprocess, threading
total, lock = [0], threading.Lock()
def work(number):
    for turn in range(6):
        text = json.dumps({str(i): [i, number] * turn for i in range(20)})
        found = len(re.findall('[0-9]+', text))
        with lock:
            total[0] += found
    try:
        int('x')
    except ValueError:
        pass
threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(total[0], subprocess.check_output(['echo', 'child']))
";

const PROGRAM: &str = "\
#include <algorithm>
#include <map>
#include <string>
int count(const std::map<std::string, int> &words) {
    return std::count_if(words.begin(), words.end(), [](auto &word) {
        return word.second > 1;
    });
}
";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("code_cache::threads::run".to_owned(), |scratch| {
            threads(scratch, None)
        }),
        trial("code_cache::threads::ticket".to_owned(), |scratch| {
            threads(scratch, Some("ticket"))
        }),
        trial("code_cache::threads::line_atomic".to_owned(), |scratch| {
            threads(scratch, Some("line-atomic"))
        }),
        trial("code_cache::verified".to_owned(), verified),
        trial("code_cache::compiler".to_owned(), compiler),
    ]
}

fn threads(scratch: &Scratch, order: Option<&str>) -> Result<(), Verdict> {
    let python = "/usr/bin/python3";
    require(&[Requirement::File(python.into())])?;
    let command = [python, "-c", THREADS];
    let native_run = natively(scratch, &command);
    let file = scratch.path().join("flushed.unspool");
    let observed_run = match order {
        None => unspool(scratch, &["run", "--code-cache", "1M"]).arguments(command),
        Some(order) => {
            let options = ["--code-cache", "4M", "--order", order];
            traced(scratch, &options, &file, &command)
        }
    };
    runs_alike(scratch, &native_run, &observed_run)?;
    match order {
        Some(_) => flushed(scratch, &file),
        None => Ok(()),
    }
}

/// The order holds over flushes.
fn verified(scratch: &Scratch) -> Result<(), Verdict> {
    let command = guest_command("cxx/threads_and_futures", &[])?;
    let file = scratch.path().join("verified.unspool");
    let options = ["--code-cache", "1M", "--verify"];
    run_well(scratch, &traced(scratch, &options, &file, &command))?;
    run_well(scratch, &crate::observer::verified(scratch, &file))?;
    flushed(scratch, &file)
}

/// The cache was full more than once, or this has shown nothing.
fn flushed(scratch: &Scratch, file: &std::path::Path) -> Result<(), Verdict> {
    let info = ["info".as_ref(), "--json".as_ref(), file.as_os_str()];
    let outcome = run_well(scratch, &unspool(scratch, &info))?;
    let parsed: Result<serde_json::Value, _> = serde_json::from_slice(&outcome.stdout);
    let information = parsed.map_err(|problem| Verdict::Wrong(problem.to_string()))?;
    match information["totals"]["code_cache_flushes"].as_u64() {
        Some(2..) => Ok(()),
        other => Err(Verdict::Wrong(format!("{other:?} flushes"))),
    }
}

fn compiler(scratch: &Scratch) -> Result<(), Verdict> {
    require(&[Requirement::Program("g++".to_owned())])?;
    let command = [
        "g++",
        "-std=c++17",
        "-O1",
        "-c",
        "program.cpp",
        "-o",
        "out.o",
    ];
    let object = |run: &unspool_guests::Invocation| -> Result<Vec<u8>, Verdict> {
        std::fs::write(scratch.work().join("program.cpp"), PROGRAM)?;
        run_well(scratch, run)?;
        let bytes = std::fs::read(scratch.work().join("out.o"))?;
        std::fs::remove_file(scratch.work().join("out.o"))?;
        Ok(bytes)
    };
    let native = object(&natively(scratch, &command))?;
    let small = unspool(scratch, &["run", "--code-cache", "2M"]).arguments(command);
    match object(&small)? == native {
        true => Ok(()),
        false => Err(Verdict::Wrong(
            "the compiler made another object".to_owned(),
        )),
    }
}
