//! Functions that are traced by name: what an indirect function (`STT_GNU_IFUNC`) chooses is the
//! function, and names that nothing has are told. Memory that the program writes through files that
//! are its memory.

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::Outcome;

use crate::guest_programs::build;
use crate::observer::{Verdict, exported_in_order, run_well, traced, trial, unspool};
use crate::order::guest_command;
use crate::scratch::Scratch;

/// Calls of each function by the guest.
const TIMES: usize = 7;
/// Lengths that only the guest uses.
const LENGTH: u64 = 0x1235;
const COPIED: u64 = 0x1135;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials: Vec<Trial> = [("dynamic", ""), ("static", "static")]
        .into_iter()
        .map(|(name, variant)| {
            trial(
                format!("named_functions::chosen_when_the_program_starts::{name}"),
                move |scratch| chosen(scratch, variant),
            )
        })
        .collect();
    trials.push(trial(
        "named_functions::unknown_names_are_told".to_owned(),
        unknown,
    ));
    trials.push(trial(
        "named_functions::own_memory_written".to_owned(),
        own_memory_written,
    ));
    trials
}

fn trace_functions(
    scratch: &Scratch,
    variant: &str,
    names: &str,
) -> Result<(Outcome, Vec<Value>), Verdict> {
    let list = scratch.path().join("functions");
    std::fs::write(&list, names)?;
    let guests = unspool_guests::guests();
    let guest = guests.iter().find(|guest| guest.name == "functions/chosen");
    let guest = guest.ok_or_else(|| Verdict::Wrong("there is no such guest".to_owned()))?;
    let command = [
        build(guest, variant)?.into_os_string(),
        TIMES.to_string().into(),
    ];
    let file = scratch.path().join("trace.unspool");
    let list = list.display().to_string();
    let options = ["--functions", &list];
    let outcome = run_well(scratch, &traced(scratch, &options, &file, &command))?;
    Ok((outcome, exported_in_order(scratch, &file)?))
}

fn number(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

fn chosen(scratch: &Scratch, variant: &str) -> Result<(), Verdict> {
    let (_, rows) = trace_functions(scratch, variant, "chosen\nstrlen\nmemcpy\n")?;
    let of = |kind: &'static str, name: &'static str| {
        rows.iter()
            .filter(move |row| row["kind"] == kind && row["name"] == name)
    };
    let calls: Vec<Option<u64>> = of("function_call", "chosen")
        .map(|row| number(&row["arguments"][0]))
        .collect();
    let returns: Vec<Option<u64>> = of("function_return", "chosen")
        .map(|row| number(&row["value"]))
        .collect();
    let times = 0..TIMES as u64;
    let expected: Vec<Option<u64>> = times.clone().map(Some).collect();
    let answers: Vec<Option<u64>> = times.map(|time| Some(time + 0x1000)).collect();
    if calls != expected || returns != answers {
        return Err(Verdict::Wrong(format!("chosen: {calls:x?} {returns:x?}")));
    }
    let lengths = of("function_return", "strlen")
        .filter(|row| number(&row["value"]) == Some(LENGTH))
        .count();
    let copies = of("function_call", "memcpy")
        .filter(|row| number(&row["arguments"][2]) == Some(COPIED))
        .count();
    if (lengths, copies) != (TIMES, TIMES) {
        return Err(Verdict::Wrong(format!(
            "{lengths} lengths, {copies} copies"
        )));
    }
    Ok(())
}

fn unknown(scratch: &Scratch) -> Result<(), Verdict> {
    let (outcome, _) =
        trace_functions(scratch, "", "chosen\nno_such_function\nstrlen\nnor_this\n")?;
    let told: Vec<String> = outcome
        .stderr_text()
        .lines()
        .filter(|line| line.contains("has a function named"))
        .map(str::to_owned)
        .collect();
    match &told[..] {
        [line] if line.ends_with("named no_such_function, nor_this") => {}
        _ => return Err(Verdict::Wrong(outcome.stderr_text())),
    }
    let (outcome, _) = trace_functions(scratch, "", "chosen\nstrlen\n")?;
    match outcome.stderr_text().contains("has a function named") {
        false => Ok(()),
        true => Err(Verdict::Wrong(outcome.stderr_text())),
    }
}

/// Each write is in the trace as the kernel's, so that the order explains what is read behind it.
fn own_memory_written(scratch: &Scratch) -> Result<(), Verdict> {
    let command = guest_command("memory/own_memory_written", &[])?;
    let file = scratch.path().join("trace.unspool");
    let outcome = run_well(scratch, &traced(scratch, &["--verify"], &file, &command))?;
    let rows = exported_in_order(scratch, &file)?;
    for line in outcome.stdout_text().lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [how, address, size] = fields[..] else {
            return Err(Verdict::Wrong(format!("the guest says: {line}")));
        };
        let written = rows.iter().any(|row| {
            row["kind"] == "system_memory"
                && row["write"] == true
                && row["address"] == format!("0x{address}")
                && row["size"].as_u64() == size.parse().ok()
        });
        if !written {
            return Err(Verdict::Wrong(format!("{how} of {address} is missing")));
        }
    }
    run_well(scratch, &unspool(scratch, &["verify"]).arguments([&file]))?;
    Ok(())
}
