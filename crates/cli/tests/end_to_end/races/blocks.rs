//! `unspool race --heap --locks` on programs that race on known blocks of the heap, or hold known locks:
//! `crates/guests/blocks`. Each source is two programs, as those of `crates/guests/races` are. A label
//! `race: VARIABLE, of BLOCK` names the block whose label `allocated: BLOCK SIZE` stands where it is
//! allocated, and perhaps `freed: BLOCK` where it is freed; `race: VARIABLE, holding LOCK & LOCK` the
//! locks that are held there, the first one first, and `lacking` the one that orders the accesses in the
//! twin, as the answer has to say. While the program runs and over its trace the
//! answer must be the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use libtest_mimic::Trial;
use serde_json::Value;

use super::{BUILDS, Build, answers, file_name, fits, labels};
use crate::observer::{Verdict, run, trial, unspool};
use crate::scratch::Scratch;

const OPTIONS: [&str; 2] = ["--heap", "--locks"];

pub(super) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    for source in super::sources(&folder()) {
        for build in BUILDS {
            let name = format!("races::blocks::{}::{}", file_name(&source), build.name());
            let source = source.clone();
            trials.push(trial(name, move |scratch| {
                as_labelled(scratch, &source, build)
            }));
        }
    }
    trials.push(trial(
        "races::blocks::not_asked_for".to_owned(),
        not_asked_for,
    ));
    trials.push(trial(
        "races::blocks::for_people_and_code_review".to_owned(),
        for_people_and_code_review,
    ));
    trials
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/blocks")
}

/// What the labels of a source say.
#[derive(Debug, Default)]
struct Said {
    /// The block that is accessed on a line.
    blocks: BTreeMap<u64, String>,
    /// The locks that are held on a line.
    held: BTreeMap<u64, Vec<String>>,
    /// The lock that would order the accesses if it were held on a line, too.
    lacking: BTreeMap<u64, String>,
    /// Where each block is allocated, and how large it is.
    allocated: BTreeMap<String, (u64, u64)>,
    /// Where it is freed.
    freed: BTreeMap<String, u64>,
}

impl Said {
    fn of(source: &Path) -> Result<Said, Verdict> {
        let mut said = Said::default();
        for (line, number) in std::fs::read_to_string(source)?.lines().zip(1..) {
            let label = |kind: &str| Some(line.split_once(&format!("// {kind}: "))?.1.trim());
            for part in label("race").into_iter().flat_map(|it| it.split(", ")) {
                if let Some(block) = part.strip_prefix("of ") {
                    said.blocks.insert(number, block.to_owned());
                }
                if let Some(lock) = part.strip_prefix("lacking ") {
                    said.lacking.insert(number, lock.to_owned());
                }
                if let Some(locks) = part.strip_prefix("holding ") {
                    let locks = locks.split(" & ").filter(|it| *it != "nothing");
                    said.held.insert(number, locks.map(str::to_owned).collect());
                }
            }
            if let Some((block, size)) = label("allocated").and_then(|it| it.split_once(' ')) {
                let size = size.parse().expect("a size");
                said.allocated.insert(block.to_owned(), (number, size));
            }
            if let Some(block) = label("freed") {
                said.freed.insert(block.to_owned(), number);
            }
        }
        Ok(said)
    }

    /// The first thing that a race says otherwise.
    fn contradiction(&self, race: &Value) -> Option<&'static str> {
        let sides = [&race["first"], &race["second"]];
        let lines = sides.map(line);
        let name = lines
            .iter()
            .flatten()
            .find_map(|line| self.blocks.get(line));
        let block = &race["block"];
        match name.map(|name| (name, self.allocated[name])) {
            None if !block.is_null() => return Some("it is on no block"),
            None => {}
            Some((name, (place, size))) => {
                if line(&block["allocated"]) != Some(place) || block["size"] != size {
                    return Some("it is on another block");
                }
                let number = |value: &Value| value.as_u64().unwrap_or(0);
                let start = number(&race["address"]) - number(&block["offset"]);
                if block["address"] != start || number(&block["offset"]) >= size {
                    return Some("it is elsewhere in the block");
                }
                if line(&block["freed"]) != self.freed.get(name).copied() {
                    return Some("it was freed, or was not");
                }
            }
        }
        let mended_by = race["mended_by"].as_array().cloned().unwrap_or_default();
        for (name, line) in ["first", "second"].into_iter().zip(&lines) {
            let told = mended_by.iter().filter(|lock| lock["at"] == name);
            let told = told.map(|lock| lock["object"].as_str().unwrap_or("?"));
            let expected = line.and_then(|line| self.lacking.get(&line));
            if !told.eq(expected.map(String::as_str)) {
                return Some("another lock would order the two");
            }
        }
        for (side, line) in sides.into_iter().zip(lines) {
            let held = side["locks_held"].as_array();
            let names = held.into_iter().flatten().map(|lock| {
                let shared = if lock["is_shared"] == true {
                    " (to read)"
                } else {
                    ""
                };
                format!("{}{shared}", lock["object"].as_str().unwrap_or("?"))
            });
            let expected = line.and_then(|line| self.held.get(&line));
            if held.is_none() || expected.is_some_and(|it| !names.eq(it.iter().cloned())) {
                return Some("other locks were held");
            }
        }
        None
    }
}

/// The line in the source of an access or a step.
fn line(of: &Value) -> Option<u64> {
    let (_, line) = of["line"].as_str()?.rsplit_once(':')?;
    line.parse().ok()
}

fn as_labelled(scratch: &Scratch, source: &Path, build: Build) -> Result<(), Verdict> {
    let program = build.of(scratch, source)?;
    let (answer, command) = answers(scratch, &program, &OPTIONS)?;
    let replay = command.command_line();
    if answer["heap_looked_at"] != true || answer["locks_looked_at"] != true {
        return Err(Verdict::Wrong(format!(
            "nothing was followed\nreplay: {replay}"
        )));
    }
    let (said, labels) = match build.racy {
        true => (Said::of(source)?, labels(source)?),
        false => Default::default(),
    };
    let mut missing: BTreeSet<u64> = labels.values().flatten().copied().collect();
    let lists = ["races", "possible", "uncertain"];
    let told = lists.into_iter().filter_map(|list| answer[list].as_array());
    for race in told.flatten() {
        if !labels
            .iter()
            .any(|(name, lines)| fits(race, name, lines, source))
        {
            return Err(Verdict::Wrong(format!(
                "not labelled: {race:#}\nreplay: {replay}"
            )));
        }
        if let Some(what) = said.contradiction(race) {
            return Err(Verdict::Wrong(format!(
                "{what}: {race:#}\nreplay: {replay}"
            )));
        }
        for side in ["first", "second"] {
            if let Some(line) = line(&race[side]) {
                missing.remove(&line);
            }
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "nothing was found on the lines {missing:?}\nreplay: {replay}"
        ))),
    }
}

/// Where the functions are not followed nothing is told of blocks and locks, and how they would be is.
fn not_asked_for(scratch: &Scratch) -> Result<(), Verdict> {
    let program = BUILDS[2].of(scratch, &folder().join("used_again.c"))?;
    let (answer, _) = answers(scratch, &program, &[])?;
    let race = &answer["races"][0];
    let is_silent = |side: &str| race[side].is_object() && race[side]["locks_held"].is_null();
    if !race["block"].is_null() || !is_silent("first") || !is_silent("second") {
        return Err(Verdict::Wrong(format!("nothing can be known: {answer:#}")));
    }
    let live = unspool(scratch, &["race", "--"]).arguments([&program]);
    let text = run(scratch, &live)?.stderr_text();
    match text.contains("--heap tells") && !text.contains("heap block") {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("it must name the option: {text}"))),
    }
}

/// The same in words, and as related locations.
fn for_people_and_code_review(scratch: &Scratch) -> Result<(), Verdict> {
    let source = folder().join("freed.c");
    let program = BUILDS[2].of(scratch, &source)?;
    let sarif = scratch.path().join("found.sarif");
    let live = unspool(scratch, &["race", "--sarif"])
        .arguments([&sarif])
        .arguments(OPTIONS)
        .arguments(["--".as_ref(), program.as_os_str()]);
    let text = run(scratch, &live)?.stderr_text();
    let said = Said::of(&source)?;
    let (allocated, freed) = (said.allocated["block"].0, said.freed["block"]);
    for expected in [
        "heap block of 800 bytes+160 (8 bytes at ".to_owned(),
        format!("freed.c:{allocated}\n"),
        "the block was allocated by thread 0 in main, ".to_owned(),
        format!("freed.c:{freed}\n"),
        "with no lock held\n".to_owned(),
    ] {
        if !text.contains(&expected) {
            return Err(Verdict::Wrong(format!("it must say {expected}: {text}")));
        }
    }
    // Most of the functions that are followed this program has not, and need not have.
    if text.contains("no program or library") {
        return Err(Verdict::Wrong(format!("nobody asked for these: {text}")));
    }
    let log: Value = serde_json::from_str(&std::fs::read_to_string(&sarif)?)
        .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
    let related = log["runs"][0]["results"][0]["relatedLocations"].as_array();
    let places = related.into_iter().flatten().filter_map(|place| {
        let text = place["message"]["text"].as_str()?;
        let line = place["physicalLocation"]["region"]["startLine"].as_u64()?;
        Some((text.split(" by ").next()?, line))
    });
    let places: Vec<(&str, u64)> = places.collect();
    let expected = [
        ("the block was allocated", allocated),
        ("the block was freed", freed),
    ];
    match expected.iter().all(|place| places.contains(place)) {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!(
            "{expected:?} must be there: {log:#}"
        ))),
    }
}
