//! The options that select what is traced, on a guest that has something for each.

use std::collections::HashMap;
use std::ffi::OsString;

use libtest_mimic::Trial;

use crate::observer::{Verdict, run_well, traced, trial, unspool};
use crate::order::guest_command;
use crate::scratch::Scratch;

/// The guest's number for the thread that it registers.
const REGISTERED: &str = "77";

/// A trace of the guest as text, and where its variables are.
struct Selected {
    lines: Vec<Vec<String>>,
    variables: HashMap<String, String>,
}

impl Selected {
    /// How many lines of this thread (or of any) write this variable.
    fn writes(&self, thread: Option<&str>, variable: &str) -> usize {
        let address = &self.variables[variable];
        self.accesses(thread)
            .filter(|line| {
                line.windows(2)
                    .any(|pair| pair[0] == "w" && &pair[1] == address)
            })
            .count()
    }

    fn accesses(&self, thread: Option<&str>) -> impl Iterator<Item = &Vec<String>> {
        self.lines.iter().filter(move |line| {
            line.get(2).is_some_and(|kind| kind == "m")
                && thread.is_none_or(|thread| line[1] == thread)
        })
    }

    /// The lines of this kind, from the kind on.
    fn of_kind(&self, kind: &str) -> Vec<&[String]> {
        let with_kind = self
            .lines
            .iter()
            .filter(|line| line.len() > 2 && line[2] == kind);
        with_kind.map(|line| &line[1..]).collect()
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    let mut trials = Vec::new();
    let mut add = |name: &str, options: &'static [&'static str], check: fn(&Selected) -> Check| {
        trials.push(trial(format!("selection::{name}"), move |scratch| {
            let selected = select(scratch, options)?;
            match check(&selected) {
                Ok(()) => Ok(()),
                Err((what, found)) => Err(Verdict::Wrong(format!(
                    "with {options:?}: {what}, but: {found}\nkept: {}",
                    scratch.path().display()
                ))),
            }
        }));
    };
    add("everything", &[], |trace| {
        for variable in ["before", "in", "after", "registered"] {
            expect(trace.writes(None, variable), 1, variable)?;
        }
        expect(trace.of_kind("tr").len(), 2, "both threads begin")?;
        expect(trace.of_kind("tf").len(), 2, "both threads end")?;
        expect(
            trace.writes(None, "swapped"),
            0,
            "a failed swap is no write",
        )
    });
    add("failed_swaps", &["--failed-cas"], |trace| {
        expect(trace.writes(None, "swapped"), 1, "a failed swap is a write")
    });
    add("region", &["--roi"], |trace| {
        expect(trace.of_kind("start_roi").len(), 1, "the region starts")?;
        expect(trace.of_kind("end_roi").len(), 1, "the region ends")?;
        expect(trace.writes(None, "in"), 1, "what is inside is there")?;
        expect(trace.writes(None, "before"), 0, "what is before is not")?;
        expect(trace.writes(None, "after"), 0, "what is after is not")?;
        expect(
            usize::from(trace.accesses(None).count() > 50),
            0,
            "nothing else is there",
        )
    });
    add("registered_threads", &["--registered-only"], |trace| {
        expect(
            trace.writes(Some(REGISTERED), "registered"),
            1,
            "its accesses are there",
        )?;
        let all = trace.accesses(None).count();
        expect(
            trace.accesses(Some(REGISTERED)).count(),
            all,
            "all accesses are its own",
        )?;
        expect(
            trace.writes(None, "before"),
            0,
            "the other thread's are not",
        )
    });
    // Without --registered-only threads have the trace's own numbers, from 0.
    add("functions", &["--functions", "FUNCTIONS"], |trace| {
        functions(trace, "1", "0")
    });
    add(
        "functions_of_registered_threads",
        &["--functions", "FUNCTIONS", "--registered-only"],
        |trace| functions(trace, REGISTERED, "-1"),
    );
    trials
}

/// Each of two threads calls the named function once.
fn functions(trace: &Selected, registered: &str, unregistered: &str) -> Check {
    let calls = trace.of_kind("fc");
    let returns = trace.of_kind("fr");
    expect(calls.len(), 2, "two calls")?;
    expect(returns.len(), 2, "two returns")?;
    for (thread, arguments, value) in [
        (registered, ["10", "11", "5"], "115"),
        (unregistered, ["1", "2", "40"], "42"),
    ] {
        let call = calls.iter().find(|call| call[4..] == arguments);
        let call = call.ok_or(("a call with its arguments", format!("{calls:?}")))?;
        if call[2] != "named_function" || call[0] != thread {
            return Err(("the name and the thread", format!("{call:?}")));
        }
        let same = |line: &&&[String]| line[0] == call[0] && line[3] == call[3];
        if returns
            .iter()
            .find(same)
            .is_none_or(|line| line[4] != value)
        {
            return Err((
                "the return of the same stack pointer",
                format!("{returns:?}"),
            ));
        }
    }
    Ok(())
}

/// What should be, and what was.
type Check = Result<(), (&'static str, String)>;

fn expect(found: usize, wanted: usize, what: &'static str) -> Check {
    if found == wanted {
        Ok(())
    } else {
        Err((what, format!("{found} instead of {wanted}")))
    }
}

/// Traces the guest with these options.
fn select(scratch: &Scratch, options: &[&str]) -> Result<Selected, Verdict> {
    let functions = scratch.path().join("functions");
    std::fs::write(&functions, "named_function\n")?;
    let functions = functions.display().to_string();
    let options: Vec<&str> = options
        .iter()
        .map(|&option| {
            if option == "FUNCTIONS" {
                functions.as_str()
            } else {
                option
            }
        })
        .collect();
    let file = scratch.path().join("trace.unspool");
    let command = guest_command("annotated/marks", &[])?;
    let outcome = run_well(scratch, &traced(scratch, &options, &file, &command))?;
    let variables = outcome
        .stdout_text()
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, address)| (name.to_owned(), address.to_owned()))
        .collect();
    let export: [OsString; 5] = [
        "export".into(),
        "--format".into(),
        "tsv".into(),
        "--ordered".into(),
        file.into(),
    ];
    let text = run_well(scratch, &unspool(scratch, &export))?.stdout_text();
    let lines = text
        .lines()
        .map(|line| line.split('\t').map(str::to_owned).collect())
        .collect();
    Ok(Selected { lines, variables })
}
