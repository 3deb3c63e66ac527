//! Flushes, prefetches, fences, data that bypasses the caches, and executed instructions: the trace
//! must have exactly those that the guest prints, in every form in which it is exported.

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;

use libtest_mimic::Trial;
use serde_json::Value;

use crate::observer::{
    Verdict, exported_in_order, require, run_well, traced, trial, unspool, wrong,
};
use crate::order::guest_command;
use crate::scratch::Scratch;

const GUEST: &str = "instructions/cache_control";

/// What happened at an instruction: a kind, its address, and what else it says.
type Happening = (String, Vec<u64>);

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for order in ["line-atomic", "ticket"] {
        trials.push(trial(format!("cache_control::{order}"), move |scratch| {
            let (expected, found) = observe(scratch, &["--order", order, "--instructions"])?;
            match difference(&expected, &found) {
                None => Ok(()),
                Some(difference) => Err(Verdict::Wrong(difference)),
            }
        }));
    }
    trials.push(trial("cache_control::control".to_owned(), |scratch| {
        let (mut expected, found) = observe(scratch, &["--instructions"])?;
        for (kind, numbers) in &mut expected {
            if kind == "clwb" {
                numbers[1] += 1;
            }
        }
        match difference(&expected, &found) {
            Some(_) => Ok(()),
            None => Err(Verdict::Wrong(
                "addresses were falsified, and that was not found".to_owned(),
            )),
        }
    }));
    trials.push(trial(
        "cache_control::instructions_on_request".to_owned(),
        |scratch| {
            let (mut expected, found) = observe(scratch, &[])?;
            expected.retain(|(kind, _)| kind != "instruction");
            match difference(&expected, &found) {
                None => Ok(()),
                Some(difference) => Err(Verdict::Wrong(difference)),
            }
        },
    ));
    trials.push(trial("cache_control::every_form".to_owned(), every_form));
    trials
}

/// What the guest says, and what its trace says of the same instructions, in program order.
fn observe(
    scratch: &Scratch,
    options: &[&str],
) -> Result<(Vec<Happening>, Vec<Happening>), Verdict> {
    let (expected, file) = record(scratch, options)?;
    let known: HashSet<u64> = expected.iter().map(|(_, numbers)| numbers[0]).collect();
    let has_loop = options.contains(&"--instructions");
    let loop_places: HashSet<u64> = expected
        .iter()
        .filter(|(kind, _)| kind == "instruction")
        .map(|(_, numbers)| numbers[0])
        .collect();
    let rows = exported_in_order(scratch, &file)?;
    let found = rows.iter().filter_map(happening);
    let found = found.filter(|(kind, numbers)| {
        let in_loop = loop_places.contains(&numbers[0]);
        // Of the loop all instructions were said, and no accesses; of the others the reverse.
        known.contains(&numbers[0]) && in_loop == (has_loop && kind == "instruction")
    });
    Ok((expected.clone(), found.collect()))
}

fn record(
    scratch: &Scratch,
    options: &[&str],
) -> Result<(Vec<Happening>, std::path::PathBuf), Verdict> {
    let guests = unspool_guests::guests();
    let guest = guests.iter().find(|guest| guest.name == GUEST);
    require(guest.into_iter().flat_map(|guest| &guest.requirements))?;
    let file = scratch.path().join("trace");
    let command = guest_command(GUEST, &[])?;
    let outcome = run_well(scratch, &traced(scratch, options, &file, &command))?;
    let text = outcome.stdout_text();
    let expected = text.lines().map(|line| {
        let (kind, numbers) = line.split_once(' ').unwrap_or((line, ""));
        let numbers: Vec<&str> = numbers.split(' ').collect();
        let is_size = |place: usize| match kind {
            "instruction" => place == 1,
            _ => place == 2,
        };
        let number = |(place, text): (usize, &&str)| {
            let radix = if is_size(place) { 10 } else { 16 };
            u64::from_str_radix(text, radix).unwrap_or(u64::MAX)
        };
        (
            kind.to_owned(),
            numbers.iter().enumerate().map(number).collect(),
        )
    });
    Ok((expected.collect(), file))
}

/// An exported line in the guest's words.
fn happening(row: &Value) -> Option<Happening> {
    let kind = row["kind"].as_str()?;
    let pc = hexadecimal(&row["pc"])?;
    let mut numbers = vec![pc];
    numbers.extend(hexadecimal(&row["address"]));
    numbers.extend(row["size"].as_u64());
    let kind = match row["non_temporal"].as_bool() {
        Some(true) => format!("non_temporal_{kind}"),
        _ => kind.to_owned(),
    };
    Some((kind, numbers))
}

fn hexadecimal(value: &Value) -> Option<u64> {
    u64::from_str_radix(value.as_str()?.strip_prefix("0x")?, 16).ok()
}

fn difference(expected: &[Happening], found: &[Happening]) -> Option<String> {
    let place = (0..expected.len().max(found.len()))
        .find(|&place| expected.get(place) != found.get(place))?;
    Some(format!(
        "line {place} must be {:x?}, but is {:x?}",
        expected.get(place),
        found.get(place)
    ))
}

/// As many in CSV, and in what `info` counts, as the guest says.
fn every_form(scratch: &Scratch) -> Result<(), Verdict> {
    let (expected, file) = record(scratch, &[])?;
    let table = scratch.path().join("trace.csv");
    let mut arguments: Vec<OsString> = vec!["export".into(), file.clone().into()];
    arguments.extend(["--format", "csv", "-o"].map(OsString::from));
    arguments.push(table.clone().into());
    run_well(scratch, &unspool(scratch, &arguments))?;
    let table = std::fs::read_to_string(table)?;
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(1)
        .map(|line| line.split(',').collect())
        .collect();
    let info = unspool(scratch, &["info", "--json"]).arguments([&file]);
    let info: Value = serde_json::from_str(&run_well(scratch, &info)?.stdout_text())
        .map_err(|error| Verdict::Wrong(error.to_string()))?;
    for kind in ["clflush", "clflushopt", "clwb", "prefetchw", "mfence"] {
        let said = expected.iter().filter(|(said, _)| said == kind).count();
        let in_table = rows.iter().filter(|row| row[2] == kind).count();
        let counted = info["counts"]["events"][kind].as_u64().unwrap_or(0) as usize;
        // The C library may have some of its own.
        if in_table < said || counted != in_table {
            let problem = format!("{kind}: {said} said, {in_table} in CSV, {counted} counted");
            return Err(Verdict::Wrong(problem));
        }
    }
    let said = |(kind, _): &&Happening| kind.starts_with("non_temporal");
    let said = expected.iter().filter(said).count();
    let in_table = rows.iter().filter(|row| row[9] == "1").count();
    let counted = info["counts"]["non_temporal_accesses"].as_u64();
    if in_table < said || counted != Some(in_table as u64) {
        let problem = format!("non-temporal: {said} said, {in_table} in CSV, {counted:?} counted");
        return Err(Verdict::Wrong(problem));
    }
    let fences = ["mfence", "sfence", "lfence"];
    let fences = rows.iter().filter(|row| fences.contains(&row[2])).count();
    is_told_to_be_left_out(scratch, &file, fences, in_table)
}

/// TSV has no words for them, and says how many it leaves out.
fn is_told_to_be_left_out(
    scratch: &Scratch,
    file: &Path,
    fences: usize,
    non_temporal: usize,
) -> Result<(), Verdict> {
    let export = ["export", "--format", "tsv", "-o", "/dev/null"];
    let export = unspool(scratch, &export).arguments([file]);
    let outcome = run_well(scratch, &export)?;
    let told = [
        format!(" {fences} fences,"),
        format!(" {non_temporal} marks of non-temporal accesses:"),
    ];
    match told.iter().all(|told| outcome.stderr_text().contains(told)) {
        true => Ok(()),
        false => Err(wrong(&told.concat(), &export, &outcome)),
    }
}
