//! Races in the form that code review reads: SARIF, the Static Analysis Results Interchange Format,
//! version 2.1.0 of OASIS.

use serde_json::{Value, json};

use super::described::Described;
use super::described_race::DescribedRace;
use super::source_tree::SourceTree;
use super::stacks::{Frame, Stack};
use super::text::{PREDICTED, SEEN, made, message, side, step};
use crate::failure::Failure;

/// What a result may be.
struct Rule {
    id: &'static str,
    level: &'static str,
    meaning: &'static str,
    /// Why the two accesses race.
    why: &'static str,
}

const RULES: [Rule; 4] = [
    Rule {
        id: "data-race",
        level: "warning",
        meaning: "Two threads access the same memory, one of them writes it, and nothing orders the two.",
        why: SEEN,
    },
    Rule {
        id: "possible-data-race",
        level: "note",
        meaning: "A data race, unless plain moves stand for atomic accesses of which nothing is known, or \
                  what a string function reads lies behind the string's end.",
        why: SEEN,
    },
    Rule {
        id: "uncertain-data-race",
        level: "note",
        meaning: "A data race, unless missing records explain it.",
        why: SEEN,
    },
    Rule {
        id: "predicted-data-race",
        level: "warning",
        meaning: "A data race that the run has not shown, but another order of the same events has.",
        why: PREDICTED,
    },
];

/// All that was found, as one run of the tool.
pub(super) fn of(described: &Described, sources: &SourceTree) -> Result<String, Failure> {
    let found = [
        &described.races,
        &described.possible,
        &described.uncertain,
        &described.predicted,
    ];
    let results = found.into_iter().enumerate().flat_map(|(rule, races)| {
        races
            .iter()
            .map(move |race| result(described, sources, rule, race))
    });
    let rules = RULES.map(|rule| {
        json!({
            "id": rule.id,
            "shortDescription": { "text": rule.meaning },
            "defaultConfiguration": { "level": rule.level },
        })
    });
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": {
                "driver": {
                    "name": "unspool race",
                    "semanticVersion": env!("CARGO_PKG_VERSION"),
                    "rules": rules,
                },
            },
            "invocations": [{ "executionSuccessful": described.is_whole }],
            "results": results.collect::<Vec<Value>>(),
        }],
    });
    Ok(serde_json::to_string_pretty(&log)? + "\n")
}

/// A race. Its place is that of the first access of which the source is known; the other's is
/// related to it, and so are those of the block of the heap and of the locks.
fn result(described: &Described, sources: &SourceTree, rule: usize, race: &DescribedRace) -> Value {
    let Rule { id, level, why, .. } = RULES[rule];
    let mut sides = race.sides();
    let has_line = |stack: &Stack| {
        let line = stack.headline().and_then(|it| it.place.line.as_deref());
        line.is_some_and(|line| sources.line(line).is_some())
    };
    sides.sort_by_key(|(_, stack)| !has_line(stack));
    let locations = sides.map(|(access, stack)| {
        let mut location = location(sources, stack.headline()?);
        location["message"] = json!({ "text": side(described, access, stack) });
        Some(location)
    });
    let [place, mut related] =
        locations.map(|location| location.into_iter().collect::<Vec<Value>>());
    let further = circumstances(described, race);
    related.extend(further.iter().filter_map(|(text, stack)| {
        let mut location = location(sources, stack.headline()?);
        location["message"] = json!({ "text": text });
        Some(location)
    }));
    let stacks = sides.map(|(access, stack)| {
        let frames = stack.frames.iter().map(|frame| {
            json!({
                "location": location(sources, frame),
                "threadId": access.thread,
            })
        });
        json!({
            "message": { "text": side(described, access, stack) },
            "frames": frames.collect::<Vec<Value>>(),
        })
    });
    let mut result = json!({
        "ruleId": id,
        "ruleIndex": rule,
        "level": level,
        "message": { "text": message(described, race, why) },
        "locations": place,
        "relatedLocations": related,
        "occurrenceCount": race.race.occurrences,
    });
    // No two stacks of a result may be equal.
    let [first, second] = stacks;
    result["stacks"] = match first == second {
        true => json!([first]),
        false => json!([first, second]),
    };
    result
}

/// Where the block was allocated and freed, where parts of an OpenMP program were made, and where the
/// locks were taken that were held.
fn circumstances<'a>(described: &Described, race: &'a DescribedRace) -> Vec<(String, &'a Stack)> {
    let mut all = Vec::new();
    if let Some(block) = &race.block {
        let freed = block.freed.iter().map(|it| ("freed", it));
        let steps = std::iter::once(("allocated", &block.allocated)).chain(freed);
        all.extend(steps.map(|(verb, it)| (step(described, verb, it), &it.stack)));
    }
    let parts = race.parts.iter().flatten();
    all.extend(parts.map(|part| (made(described, part), &part.made.stack)));
    for ((access, _), held) in race.sides().iter().zip(&race.locks) {
        let thread = access.thread;
        all.extend(held.iter().flatten().map(|lock| {
            let text = format!("thread {thread} held {}, taken here", lock.text());
            (text, &lock.stack)
        }));
    }
    all
}

/// Where a frame is: in the source, or in the file that has the code.
fn location(sources: &SourceTree, frame: &Frame) -> Value {
    let place = &frame.place;
    let line = place.line.as_deref().and_then(|line| sources.line(line));
    let mut location = match (line, &place.module) {
        (Some(line), _) => json!({
            "physicalLocation": {
                "artifactLocation": artifact(&line.file),
                "region": { "startLine": line.line },
            },
        }),
        (None, Some(module)) => json!({
            "physicalLocation": {
                "artifactLocation": artifact(module),
                "address": { "absoluteAddress": frame.pc },
            },
        }),
        (None, None) => json!({
            "physicalLocation": { "address": { "absoluteAddress": frame.pc } },
        }),
    };
    if let Some(function) = &place.function {
        location["logicalLocations"] = json!([{
            "fullyQualifiedName": function,
            "kind": "function",
        }]);
    }
    location
}

/// A file: whole paths are URIs of their own, others stand below the root of the sources.
fn artifact(file: &str) -> Value {
    let path: String = file.bytes().map(escaped).collect();
    match file.starts_with('/') {
        true => json!({ "uri": format!("file://{path}") }),
        false => json!({ "uri": path, "uriBaseId": "%SRCROOT%" }),
    }
}

/// A byte of a path in a URI (RFC 3986, section 2).
fn escaped(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_uris() {
        let check = |file: &str, expected: Value| assert_eq!(artifact(file), expected, "{file}");
        check(
            "src/a b%.c",
            json!({"uri": "src/a%20b%25.c", "uriBaseId": "%SRCROOT%"}),
        );
        check(
            "/usr/include/é.h",
            json!({"uri": "file:///usr/include/%C3%A9.h"}),
        );
    }
}
