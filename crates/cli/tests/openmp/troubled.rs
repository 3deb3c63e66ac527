//! Programs that end abruptly, fork, or have no OpenMP; and files that are no recordings.

use std::path::{Path, PathBuf};

use libtest_mimic::Trial;

use crate::attempts::attempt_without_plan;
use crate::command::{
    Compiler, Verdict, build, build_by, check, json, openmp, openmp_in, programs, trial,
};

/// All of them.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for compiler in [Compiler::Gcc, Compiler::Clang] {
        let name = |test: &str| format!("troubled::{test}::{}", compiler.command());
        trials.push(trial(name("killed_in_a_region"), move || {
            attempt_without_plan(|| killed(compiler))
        }));
        trials.push(trial(name("exits_in_a_region"), move || {
            attempt_without_plan(|| exits(compiler))
        }));
        trials.push(trial(name("changes_its_threads"), move || {
            attempt_without_plan(|| grows(compiler))
        }));
        trials.push(trial(name("forks"), move || forks(compiler)));
        trials.push(trial(name("forks_meanwhile"), move || {
            forks_meanwhile(compiler)
        }));
        trials.push(trial(name("short_threads"), move || {
            attempt_without_plan(|| short_threads(compiler))
        }));
        trials.push(trial(name("target"), move || {
            attempt_without_plan(|| target(compiler))
        }));
        trials.push(trial(name("nested_often"), move || nested_often(compiler)));
        trials.push(trial(name("cancels"), move || cancels(compiler)));
        trials.push(trial(name("kept_and_read_again"), move || kept(compiler)));
        trials.push(trial(name("without_lines"), move || {
            without_lines(compiler)
        }));
    }
    trials.push(trial("troubled::both_runtimes".to_owned(), both_runtimes));
    trials.push(trial("troubled::own_runtimes".to_owned(), own_runtimes));
    trials.push(trial("troubled::damaged_traces".to_owned(), damaged_traces));
    trials.push(trial("troubled::no_openmp".to_owned(), no_openmp));
    trials.push(trial("troubled::no_program".to_owned(), no_program));
    trials.push(trial(
        "troubled::damaged_recording".to_owned(),
        damaged_recording,
    ));
    trials
}

fn program(name: &str, compiler: Compiler) -> Result<String, Verdict> {
    let source = programs().join("troubled").join(name);
    build(&source, compiler, &[]).map(|path| path.to_string_lossy().into_owned())
}

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("openmp")
        .join(name)
}

/// What was counted until a SIGKILL is there, what was open is closed at the end, and the
/// status is the program's.
fn killed(compiler: Compiler) -> Result<(), Verdict> {
    let program = program("killed.c", compiler)?;
    let output = openmp(&["--json", &program]);
    check(output.status.code() == Some(128 + 9), || {
        format!("{:?}", output.status)
    })?;
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    check(talk.contains("did not end in the ordinary way"), || talk)?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| Verdict::Wrong(error.to_string()))?;
    // Two threads work for 0.2 s, then one of them for 0.3 s while the other waits.
    let productive = report["productive"].as_f64().unwrap_or(0.0);
    let barrier = report["losses"]["barrier"].as_f64().unwrap_or(0.0);
    check((0.6..1.0).contains(&productive), || {
        format!("productive {productive}")
    })?;
    check((0.2..0.6).contains(&barrier), || {
        format!("barrier {barrier}")
    })
}

/// A child that uses OpenMP itself has a record of its own.
fn forks(compiler: Compiler) -> Result<(), Verdict> {
    let report = json(&[&program("forks.c", compiler)?])?;
    let processes = report["processes"].as_array().map_or(0, Vec::len);
    check(processes == 2, || {
        format!("{processes} processes are reported")
    })
}

/// Children of a fork go on, whatever other threads were doing at that moment; each has a
/// record.
fn forks_meanwhile(compiler: Compiler) -> Result<(), Verdict> {
    let output = openmp(&["--json", &program("forks_meanwhile.c", compiler)?]);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    check(output.status.success(), || {
        format!("{:?}\n{talk}", output.status)
    })?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| Verdict::Wrong(format!("{error}\n{talk}")))?;
    let processes = report["processes"].as_array().map_or(0, Vec::len);
    check(processes == 31, || {
        format!("{processes} processes are reported")
    })
}

/// Threads that have ended are gone: they take no processor and do not work on.
fn short_threads(compiler: Compiler) -> Result<(), Verdict> {
    let report = json(&[&program("short_threads.c", compiler)?])?;
    conserves(&report)?;
    check(report["processors"].as_u64() == Some(3), || {
        format!("{} processors", report["processors"])
    })?;
    // The first thread waits for ten others, then works by itself: 0.02 + 0.4 + 0.4 s. The
    // others work in regions, from when they are first seen: 0.2 s; so do the workers.
    let repeated = report["losses"]["duplicated"].as_f64().unwrap_or(0.0);
    let work = report["productive"].as_f64().unwrap_or(0.0) + repeated;
    check((1.2..1.6).contains(&work), || {
        format!("{work} s of work\n{report}")
    })?;
    let factors = report["hierarchy"].as_object().into_iter().flatten();
    for (name, factor) in factors {
        check(factor.as_f64().is_none_or(|factor| factor <= 1.0), || {
            format!("{name}: {factor}")
        })?;
    }
    Ok(())
}

/// Without a device nobody waits for one: what is in target regions is work of the host's
/// threads, and none of it is lost. A runtime's own threads are none of the program's.
fn target(compiler: Compiler) -> Result<(), Verdict> {
    let program = program("target.c", compiler)?;
    for how in ["wait", "nowait"] {
        let output = openmp(&["--json", "--by", "construct", &program, how]);
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        check(
            output.status.success() && !talk.contains("warning: "),
            || format!("{:?}\n{talk}", output.status),
        )?;
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| Verdict::Wrong(error.to_string()))?;
        conserves(&report)?;
        check(report["losses"]["target"].as_f64() == Some(0.0), || {
            report["losses"].to_string()
        })?;
        // 0.1 s by one thread, four times 0.05 s by those that share them, and 0.1 s more:
        // GNU's runtime does not tell that a thread executes that while it waits.
        let work = match (how, compiler) {
            ("nowait", Compiler::Clang) => 0.4,
            _ => 0.3,
        };
        let found = report["productive"].as_f64().unwrap_or(0.0);
        check((work - 0.01..work + 0.15).contains(&found), || {
            format!("{how}: {found} s of work, not {work}\n{report}")
        })?;
        let threads = report["processors"].as_u64().unwrap_or(u64::MAX);
        check(threads <= 6, || {
            format!("{how}: {threads} threads\n{report}")
        })?;
    }
    Ok(())
}

/// What is recorded of nested regions, whose threads are others each time, does not grow with
/// the number of passages.
fn nested_often(compiler: Compiler) -> Result<(), Verdict> {
    let program = program("nested_often.c", compiler)?;
    let size = |passages: &str| -> Result<u64, Verdict> {
        // Nobody but the program's own processes sees the record as it is collected.
        let script = "\"$0\" \"$1\" && wc -c < \"$(echo \"$UNSPOOL_OPENMP_DIRECTORY\"/*.openmp)\"";
        let output = openmp(&[
            "--report",
            "/dev/null",
            "sh",
            "-c",
            script,
            &program,
            passages,
        ]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let size = text.trim().parse();
        size.map_err(|_| Verdict::Wrong(format!("{output:?}")))
    };
    let (few, many) = (size("20")?, size("400")?);
    check(few > 0 && many <= 2 * few, || {
        format!("{few} bytes after 20 passages, {many} after 400")
    })
}

fn cancels(compiler: Compiler) -> Result<(), Verdict> {
    let report = json(&[
        "env",
        "OMP_CANCELLATION=true",
        &program("cancels.c", compiler)?,
    ])?;
    let cancelled = report["processes"][0]["cancelled"].as_u64().unwrap_or(0);
    check(cancelled > 0, || "no cancellation is reported".to_owned())?;
    let (total, parts) = (report["total"].as_f64(), ["productive", "lost", "idle"]);
    let sum: f64 = parts.iter().filter_map(|part| report[part].as_f64()).sum();
    check(
        total.is_some_and(|total| (total - sum).abs() < 1e-6),
        || format!("{total:?}, {sum}"),
    )
}

/// A recording says the same when it is read again; it compares with itself as equal.
fn kept(compiler: Compiler) -> Result<(), Verdict> {
    let program = program("forks.c", compiler)?;
    let file = scratch(&format!("kept-{}.recording", compiler.command()));
    let timeline = scratch(&format!("timeline-{}.json", compiler.command()));
    let (file, timeline) = (file.to_string_lossy(), timeline.to_string_lossy());
    let first = json(&[
        "--output",
        &file,
        "--timeline",
        &timeline,
        "--by",
        "construct",
        &program,
    ])?;
    let again = json(&["--by", "construct", &file])?;
    check(first == again, || "the two reports differ".to_owned())?;
    let [passages, arrows] = of_time_line(&timeline)?;
    check(passages >= 4 && arrows >= 1, || {
        format!("{passages} passages and {arrows} arrows are in the time line")
    })?;
    // Another time line of the same recording, which has less and says so.
    let few = ["--timeline", &timeline, "--timeline-passages", "3", &file];
    let said = String::from_utf8_lossy(&openmp(&few).stderr).into_owned();
    let [kept, _] = of_time_line(&timeline)?;
    check(kept == 3 && said.contains("the longest 3 of"), || {
        format!("{kept} passages, {said}")
    })?;
    let compared = json(&["--compare", &file, &file])?;
    check(compared["speed_up"].as_f64() == Some(1.0), || {
        compared["speed_up"].to_string()
    })
}

/// How many passages a time line has, and how many arrows lead to one.
fn of_time_line(file: &str) -> Result<[usize; 2], Verdict> {
    let text = std::fs::read(file).map_err(|error| Verdict::Wrong(error.to_string()))?;
    let events: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| Verdict::Wrong(error.to_string()))?;
    let all = events["traceEvents"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    // What is waited for within a passage is a slice of its own, without arguments.
    let passages = all
        .iter()
        .filter(|it| it["ph"] == "X" && it["args"].is_object());
    let arrows = all.iter().filter(|it| it["ph"] == "f");
    Ok([passages.count(), arrows.count()])
}

fn no_openmp() -> Result<(), Verdict> {
    let output = openmp(&["true"]);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    check(
        output.status.code() == Some(125) && talk.contains("OpenMP"),
        || talk,
    )
}

fn no_program() -> Result<(), Verdict> {
    let output = openmp(&["./no-such-program"]);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    check(
        output.status.code() == Some(127) && talk.contains("no-such-program"),
        || talk,
    )
}

fn damaged_recording() -> Result<(), Verdict> {
    let file = scratch("damaged.recording");
    let write = |text: &[u8]| {
        std::fs::create_dir_all(scratch(""))
            .and_then(|()| std::fs::write(&file, text))
            .map_err(|error| Verdict::Wrong(error.to_string()))
    };
    for text in [
        &b"unspool openmp recording 2\n\x28\xb5"[..],
        b"unspool openmp recording 7\n",
    ] {
        write(text)?;
        let output = openmp(&[&file.to_string_lossy()]);
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        check(
            output.status.code() == Some(125) && talk.contains("damaged.recording"),
            || talk,
        )?;
    }
    Ok(())
}

/// A process that ends by itself in a region leaves what was counted until then.
fn exits(compiler: Compiler) -> Result<(), Verdict> {
    let program = program("exits.c", compiler)?;
    for (how, status) in [("exit", 3), ("abort", 128 + 6)] {
        let output = openmp(&["--json", &program, how]);
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        check(output.status.code() == Some(status), || {
            format!("{how}: {:?}\n{talk}", output.status)
        })?;
        let report: serde_json::Value = serde_json::from_slice(&output.stdout)
            .map_err(|error| Verdict::Wrong(format!("{error}\n{talk}")))?;
        conserves(&report)?;
        // Three threads work for 0.1 s, one for 0.2 s more while two wait at the barrier.
        let barrier = report["losses"]["barrier"].as_f64().unwrap_or(0.0);
        check((0.35..0.6).contains(&barrier), || {
            format!("{how}: {barrier} s at the barrier\n{report}")
        })?;
    }
    Ok(())
}

/// Threads are those that were there at one time at most; the others had no part.
fn grows(compiler: Compiler) -> Result<(), Verdict> {
    let report = json(&["--by", "construct", &program("grows.c", compiler)?])?;
    conserves(&report)?;
    check(report["processors"].as_u64() == Some(4), || {
        report["processors"].to_string()
    })?;
    let productive = report["productive"].as_f64().unwrap_or(0.0);
    // Ten times 0.05 s of work, of which all but one in each region repeat it.
    let repeated = report["losses"]["duplicated"].as_f64().unwrap_or(0.0);
    let work = productive + repeated;
    check((0.48..0.8).contains(&work), || {
        format!("{work} s of work\n{report}")
    })
}

fn conserves(report: &serde_json::Value) -> Result<(), Verdict> {
    let (total, parts) = (report["total"].as_f64(), ["productive", "lost", "idle"]);
    let sum: f64 = parts.iter().filter_map(|part| report[part].as_f64()).sum();
    check(
        total.is_some_and(|total| (total - sum).abs() < 1e-6),
        || format!("{total:?}, {sum}"),
    )
}

/// Two runtimes in one process are both seen, and the user is told.
fn both_runtimes() -> Result<(), Verdict> {
    let folder = programs().join("troubled");
    let library = build(
        &folder.join("other_runtime.c"),
        Compiler::Clang,
        &["-shared", "-fPIC"],
    )?;
    let library = library.to_string_lossy().into_owned();
    let program = build(
        &folder.join("both_runtimes.c"),
        Compiler::Gcc,
        &["-Wl,--allow-shlib-undefined", &library],
    )?;
    let output = openmp(&["--json", &program.to_string_lossy()]);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    check(output.status.success(), || {
        format!("{:?}\n{talk}", output.status)
    })?;
    check(talk.contains("two OpenMP runtimes"), || talk.clone())?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| Verdict::Wrong(format!("{error}\n{talk}")))?;
    conserves(&report)?;
    let constructs = report["processes"][0]["constructs"].as_array();
    let regions = constructs.into_iter().flatten();
    let regions = regions
        .filter(|one| one["kind"] == "parallel region")
        .count();
    check(regions == 2, || format!("{regions} regions\n{report}"))
}

/// Without debugging information places are addresses, each its own, and the report says how to see
/// lines; compiled as it says, there are lines, and nothing is said.
fn without_lines(compiler: Compiler) -> Result<(), Verdict> {
    let source = programs().join("troubled/short_threads.c");
    let hint = "compile with -g to see lines";
    for (flags, has_lines) in [(&["-g0"][..], false), (&["-g"], true)] {
        // Under a name of its own: other tests build the same source.
        let name = format!("short_threads{}-{}", flags[0], compiler.command());
        let finish = |command: &mut _| compiler.finish(command);
        let program = build_by(compiler.start()?, &source, &name, flags, finish)?;
        let output = openmp(&[&program.to_string_lossy()]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        check(output.status.success(), || format!("{:?}", output.status))?;
        check(text.contains(hint) != has_lines, || text.clone())?;
        let place = if has_lines {
            " at short_threads.c:"
        } else {
            "+0x"
        };
        check(text.contains(place), || text)?;
    }
    Ok(())
}

/// Plugins that carry libgomp under names of their own, as Python's packages do: each goes on with
/// its own copy, and is counted.
fn own_runtimes() -> Result<(), Verdict> {
    let wrong = |error: std::io::Error| Verdict::Wrong(error.to_string());
    let folder = scratch("own-runtimes");
    std::fs::create_dir_all(&folder).map_err(wrong)?;
    let found = std::process::Command::new("gcc")
        .arg("-print-file-name=libgomp.so.1")
        .output()
        .map_err(wrong)?;
    let original = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    let original = std::fs::read(&original)
        .map_err(|_| Verdict::CannotTell("libgomp.so.1 is not installed".to_owned()))?;
    let sources = programs().join("troubled");
    let mut words = Vec::new();
    for name in ["one", "two"] {
        // Another name for the loader, no longer than the first.
        let copy = folder.join(format!("own_{name}.so"));
        let file_name = format!("own_{name}.so");
        std::fs::write(&copy, renamed(&original, file_name.as_bytes())?).map_err(wrong)?;
        let plugin = folder.join(format!("{name}.so"));
        let mut gcc = std::process::Command::new("gcc");
        gcc.args([
            "-O1",
            "-g",
            "-fopenmp",
            "-c",
            "-fPIC",
            "-D_GNU_SOURCE",
            "-o",
        ])
        .arg(folder.join(format!("{name}.o")))
        .arg(sources.join("plugin.c"));
        let compiled = gcc.status().map_err(wrong)?;
        let mut gcc = std::process::Command::new("gcc");
        gcc.args(["-shared", "-o"])
            .arg(&plugin)
            .arg(folder.join(format!("{name}.o")))
            .arg(&copy)
            .arg(format!("-Wl,-rpath,{}", folder.display()));
        let linked = gcc.status().map_err(wrong)?;
        check(compiled.success() && linked.success(), || {
            format!("{name} is not built")
        })?;
        words.push(plugin.to_string_lossy().into_owned());
    }
    let host = build(&sources.join("plugins.c"), Compiler::Gcc, &["-fno-openmp"])?;
    let mut all = vec!["--json".to_owned(), host.to_string_lossy().into_owned()];
    all.extend(words);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let output = openmp(&all);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    check(output.status.success(), || {
        format!("{:?}\n{talk}", output.status)
    })?;
    let told = "4950 by the first runtime\n4950 by another\n".repeat(3);
    check(talk.contains(&told), || talk.clone())?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| Verdict::Wrong(format!("{error}\n{talk}")))?;
    conserves(&report)?;
    let constructs = report["processes"][0]["constructs"].as_array();
    let passages: Vec<u64> = constructs
        .into_iter()
        .flatten()
        .filter(|one| one["kind"] == "parallel region")
        .flat_map(|one| one["threads"].as_array().cloned().unwrap_or_default())
        .filter_map(|thread| thread["count"].as_u64())
        .collect();
    check(passages == [3; 8], || {
        format!("passages of four regions by two threads: {passages:?}\n{report:#}")
    })
}

/// A library under another name for the loader.
fn renamed(library: &[u8], name: &[u8]) -> Result<Vec<u8>, Verdict> {
    const NAME: &[u8] = b"\0libgomp.so.1\0";
    let mut renamed = library.to_vec();
    let at = library
        .windows(NAME.len())
        .position(|bytes| bytes == NAME)
        .ok_or_else(|| Verdict::CannotTell("libgomp has another name".to_owned()))?;
    let mut new = vec![0; NAME.len()];
    new[1..=name.len()].copy_from_slice(name);
    renamed[at..at + NAME.len()].copy_from_slice(&new);
    Ok(renamed)
}

/// Context strings and traces that break their grammar: what can be read is analysed, each
/// damaged line is named, and the status says so.
fn damaged_traces() -> Result<(), Verdict> {
    let folder = scratch("damaged-traces");
    let wrong = |error: std::io::Error| Verdict::Wrong(error.to_string());
    let strings = "31*type=barrier*line1=1*line2=1**\n2**\nno length**\n5*type**\n";
    let trace = "Trace for thread 7\nThread is master\n1:0:5:1:5:0:5:5:5:5:0:0\n\
                 B2:0:9:1:9:9\n1:oops\nE3\n";
    for (name, strings, trace, problems) in [
        (
            "strings",
            strings,
            "Trace for thread 7\nThread is master\n1:0:5:1:5:0:5:5:5:5:0:0\n",
            &["cstrings.csf: line 3", "cstrings.csf: line 4"][..],
        ),
        (
            "trace",
            "31*type=barrier*line1=1*line2=1**\n2**\n",
            trace,
            &["trace.7.mtr"][..],
        ),
    ] {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).map_err(wrong)?;
        std::fs::write(folder.join("cstrings.csf"), strings).map_err(wrong)?;
        std::fs::write(folder.join("trace.7.mtr"), trace).map_err(wrong)?;
        let output = openmp_in(&folder, &["-analize"]);
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        let protocol = String::from_utf8_lossy(&output.stdout).into_owned();
        for problem in problems {
            check(talk.contains(problem), || format!("{problem}\n{talk}"))?;
        }
        check(output.status.code() == Some(2), || {
            format!("{:?}\n{talk}", output.status)
        })?;
        check(protocol.contains("OMP_instance=barrier"), || {
            protocol.clone()
        })?;
    }
    let output = openmp_in(&folder.join("trace"), &["-main-thread=8", "-analize"]);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    check(
        !output.status.success() && talk.contains("traces are of the threads 7"),
        || talk,
    )?;
    let output = openmp_in(&folder, &["-analize"]);
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    check(
        !output.status.success() && talk.contains("cstrings.csf"),
        || talk,
    )
}
