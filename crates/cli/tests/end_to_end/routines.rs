//! Images and routines under tools: what is told of them is what the guests do.

use std::ffi::{OsStr, OsString};

use libtest_mimic::Trial;

use crate::guest_programs;
use crate::observer::{Verdict, run_well, trial, unspool};
use crate::scratch::Scratch;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("routines::images_come_and_go".to_owned(), images),
        trial("routines::ends_of_functions".to_owned(), |scratch| {
            ends(scratch, "")
        }),
        trial("routines::ends_of_functions_static".to_owned(), |scratch| {
            ends(scratch, "static")
        }),
        trial("routines::call_tree".to_owned(), call_tree),
        trial("routines::call_profile".to_owned(), call_profile),
        trial("routines::chosen_at_the_start".to_owned(), |scratch| {
            chosen(scratch, "")
        }),
        trial(
            "routines::chosen_at_the_start_static".to_owned(),
            |scratch| chosen(scratch, "static"),
        ),
        trial(
            "routines::names_that_a_stripped_file_keeps".to_owned(),
            compressed_names,
        ),
        trial("routines::watchpoint".to_owned(), watchpoint),
        trial("routines::allocations".to_owned(), |scratch| {
            allocations(scratch, "")
        }),
        trial("routines::heap_overflow".to_owned(), |scratch| {
            heap_overflow(scratch, "")
        }),
        trial("routines::heap_overflow_static".to_owned(), |scratch| {
            heap_overflow(scratch, "static")
        }),
        trial("routines::allocations_static".to_owned(), |scratch| {
            allocations(scratch, "static")
        }),
    ]
}

/// The command that runs a guest.
fn guest(name: &str, variant: &str) -> Result<Vec<OsString>, Verdict> {
    let guest = unspool_guests::guests()
        .into_iter()
        .find(|guest| guest.name == name)
        .ok_or_else(|| format!("there is no guest {name}"))?;
    guest_programs::command(&guest, variant)
}

/// What a tool tells of a program.
fn told(
    scratch: &Scratch,
    tool: &str,
    arguments: &[&str],
    command: &[impl AsRef<OsStr>],
) -> Result<Vec<String>, Verdict> {
    let run = unspool(scratch, &["tool", "run"])
        .arguments(arguments.iter().flat_map(|it| ["-a", *it]))
        .arguments([tool, "--"])
        .arguments(command);
    let observed = run_well(scratch, &run)?;
    let lines = observed.stderr_text();
    Ok(lines.lines().map(str::to_owned).collect())
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, is: T, must: T) -> Result<(), Verdict> {
    match is == must {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("{what}: {is:?}, not {must:?}"))),
    }
}

/// A library that is opened and closed a hundred times is loaded and unloaded as often, and its
/// functions are found each time.
fn images(scratch: &Scratch) -> Result<(), Verdict> {
    let command = guest("memory/libraries_in_a_loop", "")?;
    let lines = told(scratch, "image-list", &[], &command)?;
    let count = |start: &str, part: &str| {
        let lines = lines.iter();
        lines
            .filter(|line| line.starts_with(start) && line.contains(part))
            .count()
    };
    expect("loads", count("loaded ", "/plugin.so,"), 100)?;
    expect("unloads", count("unloaded ", "/plugin.so"), 100)?;
    expect("unloads of others", count("unloaded ", ""), 100)?;
    expect("the vDSO", count("loaded [vdso]", ""), 1)?;
    let program = command[0].to_string_lossy();
    expect(
        "the first",
        lines[0].starts_with(&format!("loaded {program},")),
        true,
    )?;
    expect("the second", lines[1].contains("/ld-linux"), true)?;
    let calls = told(scratch, "function-log", &["plugin_next"], &command)?;
    expect("calls in it", calls.len(), 400)?;
    let returned = calls.iter().filter(|call| call.ends_with("= 0x65"));
    expect("those that return 101", returned.count(), 200)
}

/// Calls with their first two arguments, and how they ended.
fn ends(scratch: &Scratch, variant: &str) -> Result<(), Verdict> {
    let names = [
        "returns",
        "jumps",
        "recursive",
        "passes",
        "leaps",
        "even",
        "floats",
    ];
    let command = guest("functions/ends", variant)?;
    let lines = told(scratch, "function-log", &names, &command)?;
    let short = |line: &String| {
        let (call, end) = line.trim().rsplit_once(')')?;
        let (call, _) = call.rsplit_once(", ")?;
        Some(format!("{call}){end}"))
    };
    let calls: Vec<String> = lines.iter().filter_map(short).collect();
    // Some are told only by their beginning: what they get or return is in other registers.
    let must = [
        "returns(0x1, 0x2) = 0xc",
        "returns(0x3, 0x4) = 0x22",
        "returns(0x6, 0x6) = 0x42",
        "jumps(0x5, 0x6) = 0x42",
        "recursive(0x0, 0x0) = 0x1",
        "recursive(0x1, 0x0) = 0x3",
        "recursive(0x2, 0x0) = 0x7",
        "recursive(0x3, 0x0) = 0xf",
        "recursive(0x4, 0x0) = 0x1f",
        "recursive(0x5, 0x0) = 0x3f",
        "even(0xa, 0x0) = 0x1",
        "passes(0x0, 0x0) = 0x1",
        "leaps(0x7, 0x0) did not return",
        "passes(0x1, 0x0) did not return",
        "leaps(0x7, 0x0) did not return",
        "passes(0x2, 0x0) did not return",
        "leaps(0x7, 0x0) did not return",
        "floats(0x2, ",
    ];
    expect("calls", calls.len(), 2 * must.len())?;
    for (call, must) in calls.iter().zip(must.iter().cycle()) {
        if !call.starts_with(must) {
            expect("a call", call.as_str(), must)?;
        }
    }
    Ok(())
}

/// A line of the tree.
struct Row {
    inclusive: u64,
    itself: u64,
    calls: u64,
    name: String,
}

/// What is executed belongs to the function that executes it, whatever was left before.
fn call_tree(scratch: &Scratch) -> Result<(), Verdict> {
    let lines = told(scratch, "call-tree", &["0"], &guest("functions/ends", "")?)?;
    let row = |line: &String| {
        let mut words = line.split_whitespace();
        let mut number = || words.next()?.parse::<u64>().ok();
        let (inclusive, itself, calls) = (number()?, number()?, number()?);
        Some(Row {
            inclusive,
            itself,
            calls,
            name: words.next()?.to_owned(),
        })
    };
    let rows: Vec<Row> = lines.iter().filter_map(row).collect();
    let of = |name: &'static str| rows.iter().filter(move |row| row.name == name);
    let total = lines[0].trim_end_matches(" instructions").parse::<u64>();
    let total = total.map_err(|_| lines[0].clone())?;
    let sum: u64 = rows.iter().map(|row| row.itself).sum();
    expect(
        "the sum is the total or less",
        sum <= total && sum > 0,
        true,
    )?;
    expect("loops", of("loops").map(|row| row.calls).sum(), 2_u64)?;
    let mut loops = of("loops").map(|row| (row.inclusive, row.itself));
    let first = loops.next().unwrap_or_default();
    expect("a loop by itself", first.0, first.1)?;
    expect("a hundred thousand rounds", first.0 > 300_000, true)?;
    expect("the other loop", loops.next(), Some(first))?;
    expect("returns", of("returns").map(|row| row.calls).sum(), 6_u64)?;
    expect(
        "recursive",
        of("recursive").map(|row| row.calls).sum(),
        12_u64,
    )?;
    // The control: the loop follows what was left by a leap, and is not in it.
    for name in ["leaps", "passes_leap", "passes", "throws"] {
        let most = of(name).map(|row| row.inclusive).max().unwrap_or_default();
        expect(name, most > 0 && most < 200_000, true)?;
    }
    Ok(())
}

/// The shares of two functions are those of their calls, and so is their number. The control: with
/// other arguments they are others.
fn call_profile(scratch: &Scratch) -> Result<(), Verdict> {
    const ROUNDS: u64 = 300_000;
    for calls in [3_u64, 1] {
        let mut command = guest("functions/often", "")?;
        command.truncate(1);
        command.extend([ROUNDS, calls].map(|number| number.to_string().into()));
        let lines = told(scratch, "call-profile", &[], &command)?;
        let mut all = lines[0]
            .split(' ')
            .filter_map(|word| word.parse::<u64>().ok());
        let (samples, about) = (all.next(), all.next());
        let near = |is: f64, must: f64, by: f64| (is - must).abs() <= by;
        let must = (ROUNDS * (1 + calls)) as f64;
        let is = about.unwrap_or(0) as f64;
        // The loader's calls are a thousandth of them; a period varies by a fifth at most.
        expect(&lines[0], near(is, must, must * 0.03), true)?;
        let share = |name: &str| {
            let line = lines.iter().find(|line| line.ends_with(name));
            let number = line?.split_whitespace().next()?;
            number.parse::<f64>().ok()
        };
        // Five times the deviation that independent samples would have.
        let by = 500.0 * (0.25 / samples.unwrap_or(1) as f64).sqrt();
        let often = 100.0 * calls as f64 / (1 + calls) as f64;
        for (name, must) in [(" often", often), (" seldom", 100.0 - often)] {
            let is = share(name).unwrap_or(-100.0);
            expect(&format!("{calls}: {lines:?}"), near(is, must, by), true)?;
        }
    }
    Ok(())
}

/// A function of which the program chooses one of several when it starts is hooked by its name,
/// whichever it is. The control: one more is called, and one more is told.
fn chosen(scratch: &Scratch, variant: &str) -> Result<(), Verdict> {
    let mut command = guest("functions/chosen", variant)?;
    for times in [5, 6] {
        command.truncate(1);
        command.push(times.to_string().into());
        let names = ["chosen", "strlen", "memcpy"];
        let lines = told(scratch, "function-log", &names, &command)?;
        let told = |start: &str, part: &str| {
            let lines = lines.iter().map(|line| line.trim());
            lines
                .filter(|line| line.starts_with(start) && line.contains(part))
                .count()
        };
        expect("those of its own", told("chosen(", ") = 0x100"), times)?;
        expect("lengths", told("strlen(", ") = 0x1235"), times)?;
        expect("copies", told("memcpy(", ", 0x1135) = "), times)?;
    }
    Ok(())
}

/// The functions of a stripped file are found in the compressed symbols that it carries (see
/// "MiniDebugInfo" in gdb's manual). The control: without them they are not.
fn compressed_names(scratch: &Scratch) -> Result<(), Verdict> {
    let command = guest("functions/often", "")?;
    let script = "set -e
        strip --strip-all -o bare \"$0\"
        objcopy --only-keep-debug \"$0\" names
        xz --keep names
        objcopy --add-section .gnu_debugdata=names.xz bare with_names";
    let folder = scratch.work();
    let output = std::process::Command::new("sh")
        .args(["-c".as_ref(), script.as_ref(), command[0].as_os_str()])
        .current_dir(folder)
        .output()?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(Verdict::CannotTell(text));
    }
    for (program, calls) in [("with_names", 12), ("bare", 0)] {
        let command = [
            folder.join(program).into_os_string(),
            "4".into(),
            "2".into(),
        ];
        let lines = told(scratch, "function-log", &["often", "seldom"], &command)?;
        expect(program, lines.len(), calls)?;
    }
    Ok(())
}

/// A thousand allocations more are a thousand more.
fn allocations(scratch: &Scratch, variant: &str) -> Result<(), Verdict> {
    let mut command = guest("functions/allocations", variant)?;
    let mut counted = |blocks: &str| {
        command[1] = blocks.into();
        let lines = told(scratch, "malloc-count", &[], &command)?;
        let words = lines.last().map(|line| line.split(' ').collect::<Vec<_>>());
        let number = |index: usize| words.as_ref()?.get(index)?.parse::<u64>().ok();
        match (number(0), number(5)) {
            (Some(blocks), Some(bytes)) => Ok((blocks, bytes)),
            _ => Err(Verdict::Wrong(format!("two numbers, not {lines:?}"))),
        }
    };
    let (few, many) = (counted("100")?, counted("1100")?);
    expect("blocks", many.0 - few.0, 1000)?;
    expect("bytes", many.1 - few.1, 10_000)?;
    expect("at least the program's own", few.0 >= 100, true)
}

/// Each way of going beyond a block is told, with where it is; the control goes nowhere.
fn heap_overflow(scratch: &Scratch, variant: &str) -> Result<(), Verdict> {
    let mut command = guest("functions/overflows", variant)?;
    let plain = [
        ("none", "0 places"),
        ("behind", "write of 1 bytes"),
        ("before", "read of 1 bytes"),
        ("copy", "write of "),
        ("fill", "write of 1001 bytes"),
    ];
    // Here the elements that a mask leaves out lie beyond the block; there they are accessed.
    let of_elements = [
        ("within", "0 places"),
        ("gather", "read of 4 bytes"),
        ("masked", "write of 4 bytes"),
    ];
    let has_elements = is_x86_feature_detected!("avx2");
    let of_elements = of_elements.into_iter().filter(|_| has_elements);
    for (way, told_first) in plain.into_iter().chain(of_elements) {
        command.truncate(1);
        command.push(way.into());
        let lines = told(scratch, "heap-overflow", &[], &command)?;
        let first = lines.first().cloned().unwrap_or_default();
        if !first.starts_with(told_first) {
            expect(way, first.as_str(), told_first)?;
        }
        let beside = first.contains("0 bytes behind the end of a block of ")
            || first.contains("1 bytes before a block of 12");
        expect(way, beside, !["none", "within"].contains(&way))?;
    }
    Ok(())
}

/// Every write to a word is told, with its thread and its function, and none of the many to the
/// words beside it. The control: of a word that nothing writes to nothing is told.
fn watchpoint(scratch: &Scratch) -> Result<(), Verdict> {
    let mut command = guest("memory/watched", "")?;
    command.push("where".into());
    let run = unspool(scratch, &["run", "--"]).arguments(&command);
    let text = run_well(scratch, &run)?.stdout_text();
    let place = text.trim();
    let told_of = |place: &str, bytes| told(scratch, "watchpoint", &[place, bytes], &command);
    let lines = told_of(place, "8")?;
    let told: Vec<(&str, &str)> = lines
        .iter()
        .filter_map(|line| {
            let (thread, rest) = line.strip_prefix("thread ")?.split_once(' ')?;
            Some((thread, rest.split_once(" in ")?.1.split_once(' ')?.0))
        })
        .collect();
    let must = [
        ("1", "add"),
        ("0", "store"),
        ("0", "store"),
        ("0", "store_byte"),
        ("0", "store_across"),
        ("0", "fill"),
    ];
    expect("writes", told, must.to_vec())?;
    let in_source = lines.iter().filter(|line| line.contains("watched.c:"));
    expect("lines of the source", in_source.count(), must.len())?;

    let number = u64::from_str_radix(place.trim_start_matches("0x"), 16);
    let number = number.map_err(|_| format!("an address, not {place}"))?;
    let other = format!("{:#x}", number + (64 << 10));
    expect("writes elsewhere", told_of(&other, "8")?, Vec::new())
}
