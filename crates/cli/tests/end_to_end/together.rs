//! The tracer and a tool in one run: each comes out as it would alone.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::{Ending, Guest, Invocation};

use crate::guest_programs::{self, build};
use crate::observer::{
    Verdict, exported_in_order, run, run_well, traced, trial, unspool, verified, wrong,
};
use crate::scratch::Scratch;

/// A tool of each kind: with counters, with calls at each instruction, with buffers.
const TOOLS: [&str; 3] = ["instruction-count", "control-flow", "address-sum"];

/// The 40 MB that it leaves itself are less than a thread's counters, its records and their values
/// take together.
const LEAVES_TOO_LITTLE: &str = "threads/little_memory";

/// Every guest that is traced, with one of the tools; and both compared with what each tells alone.
pub(crate) fn trials() -> Vec<Trial> {
    let guests = unspool_guests::guests().into_iter();
    let traced = guests.filter(|guest| guest.traced && guest.name != LEAVES_TOO_LITTLE);
    let traced = traced.map(Arc::new);
    let mut trials: Vec<Trial> = traced
        .zip(TOOLS.into_iter().cycle())
        .map(|(guest, tool)| {
            let name = format!("guest::trace_and_{tool}::{}", guest.name);
            trial(name, move |scratch| unnoticed(scratch, tool, &guest))
        })
        .collect();
    for order in ["none", "ticket", "line-atomic", "timestamp"] {
        trials.push(trial(
            format!("together::as_alone::{order}"),
            move |scratch| each_is_as_alone(scratch, order),
        ));
    }
    trials.push(trial(
        "together::tools_and_trace_count_the_same".to_owned(),
        count_the_same,
    ));
    trials.push(trial(
        "together::in_executed_programs".to_owned(),
        in_executed_programs,
    ));
    trials.push(trial(
        "together::unknown_tools_are_refused".to_owned(),
        unknown_tools_are_refused,
    ));
    trials
}

/// `unspool trace --tool TOOL OPTIONS -o FILE -- COMMAND`.
fn with_tool(
    scratch: &Scratch,
    tool: &str,
    options: &[&str],
    file: &Path,
    command: &[impl AsRef<OsStr>],
) -> Invocation {
    let options = [&["--tool", tool], options].concat();
    traced(scratch, &options, file, command)
}

/// What the tools say at the end of each process.
fn is_of_tool(line: &[u8]) -> bool {
    line.ends_with(b" instructions\n")
        || line.ends_with(b" where nothing led to\n")
        || String::from_utf8_lossy(line).contains(" accesses, their addresses' sum ")
}

/// A guest does what it does natively, and every value that it read is explained by the order of
/// the trace.
fn unnoticed(scratch: &Scratch, tool: &str, guest: &Guest) -> Result<(), Verdict> {
    let file = scratch.path().join("trace.unspool");
    let options = ["--order", "line-atomic", "--verify"];
    let observe = |command: &[OsString]| with_tool(scratch, tool, &options, &file, command);
    guest_programs::beside_native(scratch, guest, observe, |observed| {
        guest_programs::leave_out(observed, is_of_tool);
        Ok(())
    })?;
    if guest.ending != Ending::Signalled(9) {
        run_well(scratch, &verified(scratch, &file))?;
    }
    Ok(())
}

fn guest_program(name: &str) -> Result<PathBuf, Verdict> {
    let mut guests = unspool_guests::guests().into_iter();
    let guest = guests
        .find(|guest| guest.name == name)
        .ok_or_else(|| format!("there is no guest {name}"))?;
    build(&guest, "")
}

/// The accesses of a trace: what kind, of which instruction, how many bytes. Addresses of the stack
/// differ from run to run.
fn accesses(scratch: &Scratch, file: &Path) -> Result<Vec<(Value, Value, Value)>, Verdict> {
    let lines = exported_in_order(scratch, file)?;
    let accesses = lines.into_iter().filter(|line| line.get("size").is_some());
    let accesses = accesses.filter(|line| line.get("pc").is_some());
    Ok(accesses
        .map(|line| {
            (
                line["kind"].clone(),
                line["pc"].clone(),
                line["size"].clone(),
            )
        })
        .collect())
}

/// The last line on standard error that a tool has said.
fn told(outcome: &unspool_guests::Outcome) -> String {
    let text = outcome.stderr_text();
    let mut lines = text.lines().map(|line| format!("{line}\n"));
    lines
        .rfind(|line| is_of_tool(line.as_bytes()))
        .unwrap_or_default()
}

/// The trace holds the same accesses, and the tool says the same, as when each is alone. The
/// control: with an argument the guest does more, and both say so.
fn each_is_as_alone(scratch: &Scratch, order: &str) -> Result<(), Verdict> {
    let program = guest_program("memory/walks")?;
    let order = ["--order", order];
    let mut lengths = Vec::new();
    for arguments in [&[][..], &["more"]] {
        let mut command = vec![program.as_os_str()];
        command.extend(arguments.iter().map(OsStr::new));
        let alone = scratch.path().join("alone.unspool");
        run_well(scratch, &traced(scratch, &order, &alone, &command))?;
        let alone = accesses(scratch, &alone)?;
        for tool in ["instruction-count", "control-flow", "call-count"] {
            let tool_alone = unspool(scratch, &["tool", "run", tool, "--"]).arguments(&command);
            let tool_alone = run_well(scratch, &tool_alone)?;
            let file = scratch.path().join("trace.unspool");
            let both = with_tool(scratch, tool, &order, &file, &command);
            let outcome = run_well(scratch, &both)?;
            let said = tool_alone.stderr_text();
            if said.is_empty() || !outcome.stderr_text().contains(&said) {
                return Err(wrong(&format!("{tool} alone: {said}"), &both, &outcome));
            }
            let found = accesses(scratch, &file)?;
            if found != alone {
                let expected = format!("{} accesses as without {tool}", alone.len());
                return Err(wrong(&expected, &both, &outcome));
            }
        }
        lengths.push(alone.len());
    }
    if lengths[0] == 0 || lengths[0] >= lengths[1] {
        return Err(Verdict::Wrong(format!("the control fails: {lengths:?}")));
    }
    Ok(())
}

/// In one run the tool counts what the trace holds.
fn count_the_same(scratch: &Scratch) -> Result<(), Verdict> {
    let program = guest_program("memory/walks")?;
    for arguments in [&[][..], &["more"]] {
        let mut command = vec![program.as_os_str()];
        command.extend(arguments.iter().map(OsStr::new));
        for (tool, row) in [
            ("instruction-count", "instructions"),
            ("address-sum", "accesses"),
        ] {
            let file = scratch.path().join("trace.unspool");
            let both = with_tool(scratch, tool, &[], &file, &command);
            let outcome = run_well(scratch, &both)?;
            let counted = told(&outcome);
            let counted = counted.split(' ').next().unwrap_or_default();
            let info = run_well(scratch, &unspool(scratch, &["info"]).arguments([&file]))?;
            let info = info.stdout_text();
            let rows = info.lines().map(|line| line.replace(',', ""));
            let mut rows = rows.filter(|line| line.starts_with(row));
            let recorded = rows.next().unwrap_or_default();
            let recorded = recorded.split_whitespace().nth(1).unwrap_or_default();
            if counted.is_empty() || counted != recorded {
                let expected = format!("{row}: {recorded} in the trace, {counted} by {tool}");
                return Err(wrong(&expected, &both, &outcome));
            }
        }
    }
    Ok(())
}

/// Both go on in what the program executes and starts.
fn in_executed_programs(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("trace.unspool");
    let command = ["sh", "-c", "true; (exit 3); exec sh -c 'exit 0'"];
    let both = with_tool(scratch, "instruction-count", &["--verify"], &file, &command);
    let outcome = run_well(scratch, &both)?;
    let said = outcome.stderr_text();
    let counts = said.lines().filter(|line| line.ends_with(" instructions"));
    // One of the subshell, one where the shell executes another, one of that.
    let counts = counts.count();
    let folder = std::fs::read_dir(scratch.path())?.filter_map(Result::ok);
    let is_trace = |path: &PathBuf| path.extension().is_some_and(|it| it == "unspool");
    let files: Vec<PathBuf> = folder.map(|it| it.path()).filter(is_trace).collect();
    if counts < 2 || files.len() != counts {
        let expected = format!("as many traces ({}) as counts ({counts})", files.len());
        return Err(wrong(&expected, &both, &outcome));
    }
    for file in files {
        run_well(scratch, &verified(scratch, &file))?;
    }
    Ok(())
}

fn unknown_tools_are_refused(scratch: &Scratch) -> Result<(), Verdict> {
    let file = scratch.path().join("trace.unspool");
    let both = with_tool(scratch, "no-such-tool", &[], &file, &["true"]);
    let outcome = run(scratch, &both)?;
    let says = outcome
        .stderr_text()
        .contains("there is no tool `no-such-tool`");
    if outcome.ending != Ending::Exited(125) || !says || file.exists() {
        return Err(wrong("status 125, and why", &both, &outcome));
    }
    Ok(())
}
