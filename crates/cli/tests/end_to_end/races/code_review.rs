//! What `unspool race` writes for tools that show findings beside the source: SARIF, and annotations.

use std::path::Path;

use libtest_mimic::Trial;
use serde_json::Value;
use unspool_guests::{Ending, Outcome};

use super::{BUILDS, Build, folder, labels};
use crate::observer::{Verdict, run, trial, unspool, wrong};
use crate::scratch::Scratch;

/// What the schema of SARIF 2.1.0 requires of the objects that stand at a path, where `*` is each
/// element of an array, and what this project promises beside it.
const REQUIRED: [(&str, &str); 16] = [
    ("", "version"),
    ("", "runs"),
    ("runs/*", "tool"),
    ("runs/*", "results"),
    ("runs/*/tool", "driver"),
    ("runs/*/tool/driver", "name"),
    ("runs/*/tool/driver/rules/*", "id"),
    ("runs/*/invocations/*", "executionSuccessful"),
    ("runs/*/results/*", "message"),
    ("runs/*/results/*", "locations"),
    ("runs/*/results/*/message", "text"),
    ("runs/*/results/*/stacks/*", "frames"),
    ("runs/*/results/*/stacks/*/message", "text"),
    ("runs/*/results/*/locations/*", "physicalLocation"),
    (
        "runs/*/results/*/locations/*/physicalLocation/artifactLocation",
        "uri",
    ),
    (
        "runs/*/results/*/relatedLocations/*/physicalLocation/region",
        "startLine",
    ),
];

pub(super) fn trials() -> Vec<Trial> {
    vec![
        trial("races::code_review::racy".to_owned(), racy),
        trial("races::code_review::free".to_owned(), free),
        trial("races::code_review::no_folder".to_owned(), no_folder),
    ]
}

/// Looks at a program, and at the trace of the same run; SARIF must be the same. Returns it, and
/// what was printed for people.
fn reviewed(scratch: &Scratch, build: Build, status: i32) -> Result<(Value, String), Verdict> {
    let program = build.of(scratch, &folder().join("mutex.c"))?;
    let [trace, live, over_file] =
        ["trace", "live.sarif", "file.sarif"].map(|name| scratch.path().join(name));
    let command = unspool(scratch, &["race", "--annotations", "github", "--record"])
        .arguments([trace.as_os_str(), "--sarif".as_ref(), live.as_os_str()])
        .arguments(["--".as_ref(), program.as_os_str()]);
    let outcome = run(scratch, &command)?;
    if outcome.ending != Ending::Exited(status) {
        return Err(wrong(
            &format!("it must end with {status}"),
            &command,
            &outcome,
        ));
    }
    let again = unspool(scratch, &["race", "--sarif"]).arguments([&over_file, &trace]);
    let read: Outcome = run(scratch, &again)?;
    let text = std::fs::read_to_string(&live)?;
    if std::fs::read_to_string(&over_file)? != text {
        return Err(wrong("SARIF must be that of the run itself", &again, &read));
    }
    let log = serde_json::from_str(&text)
        .map_err(|problem| Verdict::Wrong(format!("no JSON: {problem}")))?;
    Ok((log, outcome.stderr_text()))
}

fn racy(scratch: &Scratch) -> Result<(), Verdict> {
    let (log, text) = reviewed(scratch, BUILDS[2], 66)?;
    let wrong_log = |what: &str| Err(Verdict::Wrong(format!("{what}: {log:#}")));
    if let Some((path, field)) = missing(&log) {
        return wrong_log(&format!("{path} has no {field}"));
    }
    for (path, field) in REQUIRED {
        let mut damaged = log.clone();
        take(&mut damaged, path, field);
        if missing(&damaged).is_none() {
            return wrong_log(&format!("nothing looks for {field} of {path}"));
        }
    }
    let run = &log["runs"][0];
    let result = &run["results"][0];
    let rule = result["ruleIndex"].as_u64().unwrap_or(u64::MAX) as usize;
    if log["version"] != "2.1.0" || run["tool"]["driver"]["rules"][rule]["id"] != "data-race" {
        return wrong_log("it must be a data race, in version 2.1.0");
    }
    let source = folder().join("mutex.c");
    let lines = &labels(&source)?["counter"];
    let place = &result["locations"][0]["physicalLocation"];
    let is_labelled = place["region"]["startLine"]
        .as_u64()
        .is_some_and(|line| lines.contains(&line));
    let uri = place["artifactLocation"]["uri"].as_str().unwrap_or("");
    let says = result["message"]["text"].as_str().unwrap_or("");
    if !is_labelled || !uri.ends_with("/mutex.c") || !says.starts_with("counter ") {
        return wrong_log("it must be at the labelled line");
    }
    let annotations: Vec<&str> = annotations(&text).collect();
    let is_at_label = |annotation: &&str| {
        lines.iter().any(|line| {
            annotation.contains(&format!("mutex.c,line={line},title=Data race::counter "))
        })
    };
    match annotations.is_empty() || !annotations.iter().all(is_at_label) {
        false => Ok(()),
        true => Err(Verdict::Wrong(format!(
            "all races are on the counter: {text}"
        ))),
    }
}

/// Nothing is said of the twin without races.
fn free(scratch: &Scratch) -> Result<(), Verdict> {
    let (log, text) = reviewed(scratch, BUILDS[0], 0)?;
    let results = log["runs"][0]["results"].as_array();
    match results.is_some_and(Vec::is_empty) && annotations(&text).next().is_none() {
        true => Ok(()),
        false => Err(Verdict::Wrong(format!("there is no race: {log:#}\n{text}"))),
    }
}

/// A file that cannot be written is named.
fn no_folder(scratch: &Scratch) -> Result<(), Verdict> {
    let program = BUILDS[0].of(scratch, &folder().join("mutex.c"))?;
    let trace = scratch.path().join("trace");
    let recording = unspool(scratch, &["trace", "-o"]).arguments([
        trace.as_os_str(),
        "--".as_ref(),
        program.as_os_str(),
    ]);
    run(scratch, &recording)?;
    let command = unspool(scratch, &["race", "--sarif"])
        .arguments([Path::new("/nowhere/at/all.sarif"), trace.as_path()]);
    let outcome = run(scratch, &command)?;
    let is_named = outcome.stderr_text().contains("/nowhere/at/all.sarif");
    match outcome.ending != Ending::Exited(0) && is_named {
        true => Ok(()),
        false => Err(wrong(
            "it must say what cannot be written",
            &command,
            &outcome,
        )),
    }
}

fn annotations(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| line.starts_with("::warning "))
}

/// The first of the required fields that an object has not.
fn missing(log: &Value) -> Option<(&'static str, &'static str)> {
    REQUIRED.into_iter().find(|(path, field)| {
        let mut log = log.clone();
        let mut lacks = false;
        each(&mut log, path, &mut |object| {
            lacks |= object[*field].is_null()
        });
        lacks
    })
}

/// Takes a field from all objects at a path.
fn take(log: &mut Value, path: &str, field: &str) {
    each(log, path, &mut |object| {
        object
            .as_object_mut()
            .and_then(|object| object.remove(field));
    });
}

/// Calls a function with each object at a path.
fn each(value: &mut Value, path: &str, visit: &mut impl FnMut(&mut Value)) {
    if path.is_empty() {
        return visit(value);
    }
    let (name, rest) = path.split_once('/').unwrap_or((path, ""));
    if name == "*" {
        let elements = value.as_array_mut().into_iter().flatten();
        elements.for_each(|element| each(element, rest, visit));
    } else if let Some(inner) = value.get_mut(name) {
        each(inner, rest, visit);
    }
}
