//! The values of accesses as a guest tells them, and as a tool has got them.

use std::collections::HashMap;
use std::path::Path;

use unspool_guests::{Ending, Invocation};

const GUEST: &str = "instructions/memory_values";

/// By address and kind: how often, and the sum.
type Told = HashMap<String, String>;

/// What was told of values. Other lines are left out.
fn parse(text: &str) -> Told {
    let lines = text.lines().filter(|line| !line.starts_with("fault "));
    let told = lines.map(|line| {
        let second = line.match_indices(' ').nth(1).expect("four words").0;
        (line[..second].to_owned(), line[second..].to_owned())
    });
    told.collect()
}

/// Those of which the tool has seen something else than the guest says.
fn differences(said: &Told, seen: &Told) -> Vec<String> {
    let differ = said
        .iter()
        .filter(|(place, values)| seen.get(*place) != Some(*values));
    let mut all: Vec<_> = differ
        .map(|(place, values)| format!("{place}: {:?}, not {values}", seen.get(place)))
        .collect();
    all.sort();
    all
}

#[test]
fn values_are_those_that_the_program_has() {
    let Some((_, program)) = super::build(GUEST) else {
        return;
    };
    let faults = |text: String| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("fault "));
        lines.map(str::to_owned).collect()
    };
    let native = super::run(Invocation::new(&program), "native-values");
    let natively = faults(native.stdout_text());
    assert!(natively.len() > 20);
    for way in ["appended", "called", "kept", "followed", "filtered"] {
        let test = format!("values-{way}");
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.told"));
        let name = file.to_str().expect("a name");
        let observed = super::under(&["memory-values", name, way], &program, &[], &test);
        let text = observed.stderr_text();
        assert_eq!(observed.ending, Ending::Exited(0), "{way}: {text}");
        assert_eq!(faults(observed.stdout_text()), natively, "{way}");
        let seen = parse(&std::fs::read_to_string(&file).expect("the tool's file"));
        std::fs::remove_file(&file).expect("the tool's file");
        let said = parse(&observed.stdout_text());
        assert!(said.len() > 50);
        let differ = differences(&said, &seen);
        assert!(differ.is_empty(), "{way}:\n{}", differ.join("\n"));
        // The control: one value is one more.
        let mut falsified = said.clone();
        let place = falsified.keys().next().expect("there is one").clone();
        falsified.insert(place.clone(), format!("{}1", said[&place]));
        assert_eq!(differences(&falsified, &seen).len(), 1);
    }
}
