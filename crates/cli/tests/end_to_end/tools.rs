//! The tools that come with the command: what they say is true, and the program does not
//! notice.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use libtest_mimic::Trial;
use unspool_guests::{Ending, Guest, Invocation};

use crate::guest_programs::{self, build};
use crate::observer::{Verdict, require, run_well, trial, unspool, wrong};
use crate::scratch::Scratch;
use crate::single_steps;

/// Every guest under a tool that inserts something at every instruction, and what the tools
/// tell.
pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for guest in unspool_guests::guests() {
        let guest = Arc::new(guest);
        for tool in ["instruction-count", "control-flow", "call-tree"] {
            // What is too large to be traced is too large for two calls at each instruction.
            if tool == "control-flow" && !guest.traced {
                continue;
            }
            // Its hooks are where functions are entered and left.
            let elsewhere = ["instructions/", "order/", "openmp/", "fortran/"];
            if tool == "call-tree"
                && elsewhere
                    .iter()
                    .any(|folder| guest.name.starts_with(folder))
            {
                continue;
            }
            let observed = Arc::clone(&guest);
            trials.push(trial(
                format!("guest::{tool}::{}", guest.name),
                move |scratch| unnoticed(scratch, tool, &observed),
            ));
        }
    }
    trials.push(trial(
        "tools::instruction_count_is_that_of_single_steps".to_owned(),
        counts_like_single_steps,
    ));
    trials.push(trial(
        "tools::tell_what_follows_from_the_source".to_owned(),
        tell_what_follows_from_the_source,
    ));
    trials.push(trial(
        "tools::count_each_element".to_owned(),
        count_each_element,
    ));
    trials.push(trial(
        "tools::agree_with_each_other".to_owned(),
        agree_with_each_other,
    ));
    trials.push(trial(
        "tools::look_at_a_part_of_a_run".to_owned(),
        look_at_a_part,
    ));
    trials
}

/// `unspool tool run TOOL -- COMMAND`.
fn under(scratch: &Scratch, tool: &str, command: &[impl AsRef<OsStr>]) -> Invocation {
    // Of the tree, nothing but the sum.
    let arguments = match tool {
        "call-tree" => &["-a", "1001"][..],
        _ => &[],
    };
    unspool(scratch, &["tool", "run"])
        .arguments(arguments)
        .arguments([tool, "--"])
        .arguments(command)
}

/// A guest under a tool does what it does natively. What the tool says at the end of each
/// process is left out of the comparison.
fn unnoticed(scratch: &Scratch, tool: &str, guest: &Guest) -> Result<(), Verdict> {
    let observe = |command: &[OsString]| under(scratch, tool, command);
    guest_programs::beside_native(scratch, guest, observe, |observed| {
        guest_programs::leave_out(observed, |line| {
            line.ends_with(b" instructions\n") || line.ends_with(b" where nothing led to\n")
        });
        Ok(())
    })
}

/// The guest whose instructions are counted.
fn counted_guest() -> Result<PathBuf, Verdict> {
    guest_named("instructions/counted")
}

fn guest_named(name: &str) -> Result<PathBuf, Verdict> {
    let guest = unspool_guests::guests()
        .into_iter()
        .find(|guest| guest.name == name)
        .ok_or_else(|| format!("there is no guest {name}"))?;
    build(&guest, "")
}

/// What the tools count by different means is the same.
fn agree_with_each_other(scratch: &Scratch) -> Result<(), Verdict> {
    let program = counted_guest()?;
    let told = |tool| {
        let observed = run_well(scratch, &under(scratch, tool, &[&program]))?;
        Ok::<String, Verdict>(observed.stderr_text())
    };
    // The numbers in a text's first line.
    let numbers = |text: &str| -> Vec<u64> {
        let words = text.lines().next().unwrap_or_default().split(' ');
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let mix = told("opcode-mix")?;
    // The sum of all whose names a predicate holds for.
    let of = |wanted: fn(&str) -> bool| -> u64 {
        let lines = mix.lines().skip(1).map(|line| line.split_whitespace());
        lines
            .filter_map(|mut words| Some((words.next()?.parse::<u64>().ok()?, words.last()?)))
            .filter(|(_, name)| wanted(name))
            .map(|(count, _)| count)
            .sum()
    };
    let all = numbers(&told("instruction-count")?)[0];
    let conditional = of(|name| name.starts_with('j') && name != "jmp" || name == "loop");
    let edges = numbers(&told("edge-profile")?);
    // The calls whose stack is not there are begun twice, and complete once.
    let calls = of(|name| name == "call") + 2;
    let flow = numbers(&told("control-flow")?);
    let facts = [
        ("instructions in the mix", numbers(&mix)[0], all),
        ("the mix's sum", of(|_| true), all),
        ("edges", edges[0] + edges[1], conditional),
        (
            "branches predicted",
            numbers(&told("branch-prediction")?)[0],
            conditional,
        ),
        ("calls", numbers(&told("call-count")?)[0], calls),
        // Faults: a load, another one, half a string, and two calls.
        ("instructions begun", flow[0], all + 5),
        ("instructions out of place", flow[1], 0),
    ];
    let wrong = facts.iter().filter(|(_, is, must)| is != must);
    let wrong: Vec<String> = wrong
        .map(|(what, is, must)| format!("{what}: {is}, not {must}"))
        .collect();
    if conditional == 0 || !wrong.is_empty() {
        return Err(Verdict::Wrong(format!("{}\n{mix}", wrong.join("\n"))));
    }
    Ok(())
}

/// Of a guest that walks through arrays it is known what its accesses are. The control: with an
/// argument it walks once more.
fn tell_what_follows_from_the_source(scratch: &Scratch) -> Result<(), Verdict> {
    let guest = unspool_guests::guests()
        .into_iter()
        .find(|guest| guest.name == "memory/walks")
        .ok_or_else(|| "there is no guest memory/walks".to_owned())?;
    let program = build(&guest, "")?;
    // The number of arguments; two rounds through 2048 words; one more.
    for (arguments, reads, misses) in [
        (&[][..], 1 + 2 * 2048, 1 + 256),
        (&["more"], 1 + 3 * 2048, 1 + 2 * 256),
    ] {
        let writes = 2 * 8192;
        let accesses = reads + writes;
        let mut command = vec![program.as_os_str()];
        command.extend(arguments.iter().map(OsStr::new));
        let cases = [
            (
                "cache",
                format!("{reads} reads, {misses} misses; {writes} writes, 2048 misses\n"),
            ),
            (
                "working-set",
                "pages in each 1000000 accesses:\nthread 0: 1 windows, 21.0 on average, 21 at most\n"
                    .to_owned(),
            ),
            (
                "memory-footprint",
                format!(
                    "{} bytes read, {} written, in 1281 lines on 21 pages\n",
                    reads * 8,
                    writes * 8
                ),
            ),
            ("address-trace", "addresses are in addresses.out.*\n".to_owned()),
        ];
        for (tool, expected) in cases {
            let observed_run = under(scratch, tool, &command);
            let observed = run_well(scratch, &observed_run)?;
            if observed.stderr_text() != expected {
                return Err(wrong(&expected, &observed_run, &observed));
            }
        }
        let text = take_address_trace(scratch)?;
        let mut sum = 0_u64;
        let mut kinds = [0; 2];
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [kind, address, "8"] = words[..] else {
                return Err(Verdict::Wrong(format!("not an access: {line}")));
            };
            let address = address.trim_start_matches("0x");
            sum = sum.wrapping_add(u64::from_str_radix(address, 16).unwrap_or(0));
            kinds[usize::from(kind == "W")] += 1;
        }
        if kinds != [reads, writes] {
            return Err(Verdict::Wrong(format!(
                "{kinds:?}, not {reads} and {writes}"
            )));
        }
        // The stack may lie elsewhere the next time.
        let stack = text.lines().next().unwrap_or_default();
        let stack = stack.split(' ').nth(1).unwrap_or_default();
        let stack = u64::from_str_radix(stack.trim_start_matches("0x"), 16).unwrap_or(0);
        let observed_run = under(scratch, "address-sum", &command);
        let observed = run_well(scratch, &observed_run)?;
        let said = observed.stderr_text();
        let numbers: Vec<&str> = said.trim().split(' ').collect();
        let told = numbers.last().unwrap_or(&"").trim_start_matches("0x");
        let told = u64::from_str_radix(told, 16).unwrap_or(0);
        let difference = told.wrapping_sub(sum.wrapping_sub(stack));
        if numbers[0] != accesses.to_string() || difference % 16 != 0 || difference >> 47 != 0 {
            return Err(wrong("as many, and the same sum", &observed_run, &observed));
        }
    }
    Ok(())
}

/// Each element of gathers, masked operands and repeated string instructions is an access to all tools
/// that look at memory. The control: with an argument there are twenty more, in two more lines.
fn count_each_element(scratch: &Scratch) -> Result<(), Verdict> {
    let guest = unspool_guests::guests()
        .into_iter()
        .find(|guest| guest.name == "memory/elements")
        .ok_or_else(|| "there is no guest memory/elements".to_owned())?;
    require(&guest.requirements)?;
    let program = build(&guest, "")?;
    for (arguments, more, lines) in [(&[][..], 0, 0), (&["more"], 10, 1)] {
        let mut command = vec![program.as_os_str()];
        command.extend(arguments.iter().map(OsStr::new));
        let (reads, writes) = (1 + 100 + 2 * 42 + 2 + 8 + more, 100 + 64 + 1 + 4 + more);
        let accesses = reads + writes;
        let said = |tool: &str, expected: &str| {
            let invocation = under(scratch, tool, &command);
            let observed = run_well(scratch, &invocation)?;
            match observed.stderr_text().starts_with(expected) {
                true => Ok(()),
                false => Err(wrong(expected, &invocation, &observed)),
            }
        };
        said(
            "cache",
            &format!(
                "{reads} reads, {} misses; {writes} writes, {} misses\n",
                10 + lines,
                7 + lines
            ),
        )?;
        said("address-sum", &format!("{accesses} accesses, "))?;
        said(
            "working-set",
            "pages in each 1000000 accesses:\nthread 0: 1 windows, 4.0 on average, 4 at most\n",
        )?;
        said(
            "memory-footprint",
            &format!(
                "{} bytes read, {} written, in {} lines on 4 pages\n",
                8 + 100 + 2 * 42 + 2 * 32 + 8 * 4 + more,
                100 + 64 * 4 + 1 + 4 * 4 + more,
                17 + 2 * lines
            ),
        )?;
        said("address-trace", "addresses are in")?;
        let written = take_address_trace(scratch)?.lines().count();
        if written != accesses {
            return Err(Verdict::Wrong(format!("{written} lines, not {accesses}")));
        }
    }
    Ok(())
}

/// What `address-trace` has written, which is removed.
fn take_address_trace(scratch: &Scratch) -> Result<String, Verdict> {
    let file = std::fs::read_dir(scratch.work())?
        .filter_map(Result::ok)
        .find(|entry| {
            let name = entry.file_name();
            name.to_string_lossy().starts_with("addresses.out.")
        })
        .ok_or_else(|| "no addresses were written".to_owned())?
        .path();
    let text = std::fs::read_to_string(&file)?;
    std::fs::remove_file(&file)?;
    Ok(text)
}

/// The number of executed instructions is exactly what the kernel's single steps give. The
/// control: with an argument the guest executes more, in both.
fn counts_like_single_steps(scratch: &Scratch) -> Result<(), Verdict> {
    let program = counted_guest()?;
    let mut counts = Vec::new();
    for arguments in [&[][..], &["longer"]] {
        let mut command = vec![program.as_os_str()];
        command.extend(arguments.iter().map(OsStr::new));
        let observed_run = under(scratch, "instruction-count", &command);
        let observed = run_well(scratch, &observed_run)?;
        let steps = single_steps::count(&program, arguments)?;
        if observed.stderr_text() != format!("{steps} instructions\n") {
            return Err(wrong(
                &format!("{steps} single steps"),
                &observed_run,
                &observed,
            ));
        }
        counts.push(steps);
    }
    if counts[0] + 10_000 > counts[1] {
        return Err(Verdict::Wrong(format!("the control fails: {counts:?}")));
    }
    Ok(())
}

/// A tool looks at the part of a run that the user names. One that looks at no code cannot.
fn look_at_a_part(scratch: &Scratch) -> Result<(), Verdict> {
    let counted = [counted_guest()?];
    let run = |control: &str, tool: &str, command: &[PathBuf]| {
        unspool(scratch, &["tool", "run", "--control", control, tool, "--"]).arguments(command)
    };
    let count = |control: &str, command: &[PathBuf]| {
        let invocation = run(control, "instruction-count", command);
        let observed = run_well(scratch, &invocation)?;
        let text = observed.stderr_text();
        let number = text.strip_suffix(" instructions\n");
        number
            .and_then(|number| number.parse::<u64>().ok())
            .ok_or_else(|| wrong("a number", &invocation, &observed))
    };
    // What comes in front of the second superblock is not looked at.
    let all = count("start:icount:1", &counted)?;
    let steps = single_steps::count(&counted[0], &[])?;
    let often = [guest_named("functions/often")?, "1000".into(), "3".into()];
    let from_start = count("start:icount:1", &often)?;
    let from_main = count("start:enter_func:main", &often)?;
    let within_main = count("start:enter_func:main,stop:exit_func:main", &often)?;
    let is_right = (steps - 200..steps).contains(&all)
        && from_main < from_start
        && (1..from_main).contains(&within_main);
    if !is_right {
        return Err(Verdict::Wrong(format!(
            "{all} of {steps}, {from_start}, {from_main}, {within_main}"
        )));
    }
    for (control, tool, said) in [
        (
            "start:roi,stop:roi",
            "malloc-count",
            "looks at the whole run",
        ),
        ("main", "instruction-count", "does not say `start:EVENT"),
    ] {
        let invocation = run(control, tool, &counted);
        let observed = crate::observer::run(scratch, &invocation)?;
        if observed.ending == Ending::Exited(0) || !observed.stderr_text().contains(said) {
            return Err(wrong(said, &invocation, &observed));
        }
    }
    Ok(())
}
