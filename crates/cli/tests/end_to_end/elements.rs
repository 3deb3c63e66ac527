//! Gathers, scatters, masked and compressed vectors, tiles, and repeated string instructions: the
//! trace must have exactly the accesses that the guest computes from its own masks, indexes and counts.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;

use libtest_mimic::Trial;

use crate::observer::{Verdict, require, run_well, traced, trial, unspool};
use crate::order::guest_command;
use crate::scratch::Scratch;

const GUEST: &str = "instructions/elements";
const STRINGS: &str = "instructions/string_elements";

/// Accesses of each instruction, in their order: kind, address and size.
type Accesses = HashMap<u64, Vec<(String, u64, u64)>>;

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for order in ["ticket", "line-atomic"] {
        trials.push(trial(format!("elements::{order}"), move |scratch| {
            let (expected, found) = observe(scratch, GUEST, order)?;
            match difference(&expected, &found) {
                None => Ok(()),
                Some(difference) => Err(Verdict::Wrong(difference)),
            }
        }));
        trials.push(trial(
            format!("elements::strings::{order}"),
            move |scratch| {
                let (expected, found) = observe(scratch, STRINGS, order)?;
                match difference(&each_byte(&expected), &each_byte(&found)) {
                    None => Ok(()),
                    Some(difference) => Err(Verdict::Wrong(difference)),
                }
            },
        ));
    }
    trials.push(trial("elements::control".to_owned(), |scratch| {
        let (mut expected, found) = observe(scratch, GUEST, "none")?;
        let accesses = expected.values_mut().max_by_key(|accesses| accesses.len());
        let one = accesses.and_then(|accesses| accesses.last_mut());
        one.expect("the guest accesses something").1 += 1;
        match difference(&expected, &found) {
            Some(_) => Ok(()),
            None => Err(Verdict::Wrong(
                "one address was falsified, and that was not found".to_owned(),
            )),
        }
    }));
    trials
}

/// What the guest says, and what its trace says of the same instructions.
fn observe(scratch: &Scratch, name: &str, order: &str) -> Result<(Accesses, Accesses), Verdict> {
    let guests = unspool_guests::guests();
    let guest = guests.iter().find(|guest| guest.name == name);
    require(guest.into_iter().flat_map(|guest| &guest.requirements))?;
    let command = guest_command(name, &[])?;
    let (file, table) = (
        scratch.path().join("trace"),
        scratch.path().join("trace.csv"),
    );
    let outcome = run_well(
        scratch,
        &traced(scratch, &["--order", order], &file, &command),
    )?;
    let mut expected = Accesses::new();
    for line in outcome.stdout_text().lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let [pc, kind, address, size] = fields[..] else {
            return Err(Verdict::Wrong(format!("the guest says: {line}")));
        };
        let kind = if kind == "r" { "read" } else { "write" };
        let access = (kind.to_owned(), hexadecimal(address), decimal(size));
        expected.entry(hexadecimal(pc)).or_default().push(access);
    }
    let mut arguments: Vec<OsString> = vec!["export".into(), file.into()];
    arguments.extend(["--format", "csv", "-o"].map(OsString::from));
    arguments.push(table.clone().into());
    run_well(scratch, &unspool(scratch, &arguments))?;
    let known: HashSet<u64> = expected.keys().copied().collect();
    let mut found = Accesses::new();
    for line in std::fs::read_to_string(table)?.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let (kind, pc) = (fields[2], hexadecimal(fields[3]));
        if known.contains(&pc) {
            let access = (kind.to_owned(), hexadecimal(fields[4]), decimal(fields[5]));
            found.entry(pc).or_default().push(access);
        }
    }
    Ok((expected, found))
}

/// The bytes that each instruction accesses, sorted: a trace has the rounds of a string instruction in
/// one piece, the reads before the writes.
fn each_byte(accesses: &Accesses) -> Accesses {
    let bytes = |accesses: &Vec<(String, u64, u64)>| {
        let each = accesses.iter().flat_map(|(kind, start, size)| {
            (0..*size).map(move |offset| (kind.clone(), start + offset, 1))
        });
        let mut each: Vec<_> = each.collect();
        each.sort_unstable();
        each
    };
    let all = accesses.iter();
    all.map(|(pc, accesses)| (*pc, bytes(accesses))).collect()
}

fn difference(expected: &Accesses, found: &Accesses) -> Option<String> {
    let nothing = Vec::new();
    expected.iter().find_map(|(pc, expected)| {
        let found = found.get(pc).unwrap_or(&nothing);
        let place = (0..expected.len().max(found.len()))
            .find(|&place| expected.get(place) != found.get(place))?;
        Some(format!(
            "access {place} of the instruction at {pc:#x} must be {:x?}, but is {:x?}",
            expected.get(place),
            found.get(place)
        ))
    })
}

fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0)
}

fn decimal(text: &str) -> u64 {
    text.parse().unwrap_or(0)
}
