//! A shell script stands in for the executable under test.

use super::*;
use crate::bench::catalogue::{Origin, Program, Sharing};
use std::os::unix::fs::PermissionsExt;

static PROGRAM: Program = Program {
    name: "echo",
    sharing: Sharing::Alone,
    origin: Origin::Installed {
        command: "echo",
        ask_real_path: None,
    },
    arguments: &[],
    run_limit: None,
};

const INFORMATION: &str = r#"{"complete": true, "problems": [],
    "totals": {"accesses": 10, "threads": 1, "dropped_words": 0}}"#;

/// Measures `sh -c native` in two modes, under a stand-in whose `trace` runs `traced`
/// before the program.
fn measure(native: &str, traced: &str) -> ProgramResult {
    let directory = tempfile::tempdir().unwrap();
    let stand_in = directory.path().join("unspool");
    let script = format!(
        "#!/bin/sh\ncase $1 in\ninfo) echo '{INFORMATION}'; exit;;\nexport) exit;;\n\
         trace) {traced};;\nesac\nwhile [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"\n"
    );
    std::fs::write(&stand_in, script).unwrap();
    std::fs::set_permissions(&stand_in, std::fs::Permissions::from_mode(0o755)).unwrap();
    let measuring = Measuring {
        places: Places {
            sources: PathBuf::new(),
            data: directory.path().to_owned(),
        },
        runs: 2,
        time_limit: Duration::from_secs(20),
        sample_memory: false,
    };
    let command = ["sh", "-c", native].map(Into::into).to_vec();
    let variants = [Mode::Run, Mode::TicketFile].map(|mode| Variant {
        mode,
        observer: vec![stand_in.clone().into()],
        is_other_build: false,
    });
    measuring
        .measure(
            &Prepared {
                program: &PROGRAM,
                command,
            },
            &variants,
        )
        .unwrap()
}

#[test]
fn every_variant_runs_and_its_trace_is_read() {
    let result = measure("echo same", "echo 12345 >traces/trace.unspool");
    assert_eq!(result.columns.len(), 3);
    for column in &result.columns {
        assert_eq!(
            (column.cpu_s.len(), column.problems.len()),
            (2, 0),
            "{column:?}"
        );
    }
    let traces = &result.columns[2].traces;
    assert_eq!(traces.len(), 2, "one of each round");
    for facts in traces {
        assert_eq!((facts.accesses, facts.bytes), (10, 6));
    }
}

#[test]
fn a_missing_trace_is_a_problem() {
    let result = measure("echo same", "true");
    assert_eq!(result.columns[2].problems, ["no trace was written"]);
    assert!(result.columns[1].problems.is_empty());
}

#[test]
fn different_output_is_a_problem() {
    let result = measure("echo same", "echo more");
    assert_eq!(
        result.columns[2].problems,
        ["printed something else than natively"]
    );
    assert!(result.columns[2].cpu_s.is_empty());
}

#[test]
fn a_different_end_is_a_problem_with_its_last_words() {
    let result = measure("echo same", "echo why >&2; exit 7");
    assert_eq!(result.columns[2].problems, ["ended with Exited(7): why"]);
}
