//! What README tells the reader to type must work, line by line.

use std::path::{Path, PathBuf};
use std::time::Duration;

use libtest_mimic::Trial;

use crate::observer::{Verdict, natively, run_well, trial, unspool};

/// The command as README starts it from a fresh checkout.
const BUILD_AND_RUN: &str = "cargo run --release -p unspool --";

/// The command with which README tests a fresh checkout.
const TEST: &str = "cargo xtask test";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("readme::commands".to_owned(), |scratch| {
            let root = root();
            std::fs::copy(root.join("Cargo.lock"), scratch.work().join("Cargo.lock"))?;
            let mut ran = 0;
            for line in console_lines(&root)? {
                let Some(rest) = line
                    .strip_prefix(BUILD_AND_RUN)
                    .or_else(|| line.strip_prefix("unspool"))
                else {
                    continue;
                };
                // The shell takes the line apart as it does for the reader.
                let command = unspool(scratch, &[] as &[&str]).command_line();
                let script = natively(scratch, &["bash", "-euc", &format!("{command} {rest}")]);
                run_well(scratch, &script.limit(Duration::from_secs(120)))?;
                ran += 1;
            }
            if ran < 8 {
                return Err(Verdict::Wrong(format!("README has only {ran} commands")));
            }
            Ok(())
        }),
        trial(
            "readme::continuous_integration_runs_its_test_command".to_owned(),
            |_| {
                let root = root();
                let given = console_lines(&root)?.iter().any(|line| line == TEST);
                let script = std::fs::read_to_string(root.join(".ci/run"))?;
                let taken = script.lines().any(|line| line == TEST);
                if given && taken {
                    return Ok(());
                }
                Err(Verdict::Wrong(format!(
                    "`{TEST}`: in README {given}, in .ci/run {taken}"
                )))
            },
        ),
    ]
}

/// docs/behaviours.md says which test shows what: each that it names must be there.
pub(crate) fn behaviours_are_tested(trials: &[Trial]) -> Trial {
    let names: Vec<String> = trials.iter().map(|trial| trial.name().to_owned()).collect();
    trial("readme::behaviours_are_tested".to_owned(), move |_| {
        let text = std::fs::read_to_string(root().join("docs/behaviours.md"))?;
        let named: Vec<&str> = text
            .lines()
            .filter_map(|line| Some(line.strip_suffix(" |")?.rsplit_once(" | ")?.1))
            .flat_map(|cell| cell.split('`').skip(1).step_by(2))
            .collect();
        let is_there = |wanted: &str| {
            let guest = format!("guest::run::{wanted}");
            names.iter().any(|name| name == wanted || *name == guest)
        };
        let missing: Vec<&&str> = named.iter().filter(|name| !is_there(name)).collect();
        if named.len() > 100 && missing.is_empty() {
            return Ok(());
        }
        Err(Verdict::Wrong(format!(
            "docs/behaviours.md names {} tests; there is no {missing:?}",
            named.len()
        )))
    })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The lines of all `console` blocks.
fn console_lines(root: &Path) -> Result<Vec<String>, Verdict> {
    let text = std::fs::read_to_string(root.join("README.md"))?;
    let mut lines = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            _ if inside => lines.push(line.to_owned()),
            _ => {}
        }
    }
    Ok(lines)
}
