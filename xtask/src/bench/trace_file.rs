//! What a trace that was just written holds, and how fast it is read back.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::Value;

use super::process::{End, run_to_end};

/// Facts of the traces of one run: one file for each process.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct TraceFacts {
    /// Files.
    pub(crate) files: u64,
    /// Their size.
    pub(crate) bytes: u64,
    /// Accesses in them.
    pub(crate) accesses: u64,
    /// Threads in them.
    pub(crate) threads: u64,
    /// Bytes of machine code that were translated, if the trace tells.
    pub(crate) translated_code_bytes: Option<u64>,
    /// Bytes of buffers in memory, if the trace tells.
    pub(crate) buffer_bytes: Option<u64>,
    /// CPU time in which all of them were decoded.
    pub(crate) read_cpu_s: f64,
    /// What is wrong with them.
    pub(crate) problems: Vec<String>,
}

/// How closely a trace is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// What its index says.
    Index,
    /// All of it, which takes as long as some rounds.
    Contents,
}

/// Reads every trace in a directory: what they hold, and how long decoding takes.
///
/// # Errors
/// If there is no trace, or one cannot be read.
pub(crate) fn inspect(
    unspool: &Path,
    directory: &Path,
    look: Look,
    time_limit: Duration,
) -> anyhow::Result<TraceFacts> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<anyhow::Result<_>>()?;
    files.sort();
    if files.is_empty() {
        bail!("no trace was written");
    }
    let mut facts = TraceFacts {
        files: files.len() as u64,
        ..TraceFacts::default()
    };
    for file in &files {
        facts.bytes += file.metadata()?.len();
        facts.add_information(&information(unspool, file, look)?);
    }
    for file in &files {
        facts.read_cpu_s += decode(unspool, file, time_limit)?;
    }
    Ok(facts)
}

impl TraceFacts {
    /// Adds what `unspool info --json` says of one file.
    fn add_information(&mut self, information: &Value) {
        let total = |name: &str| information["totals"][name].as_u64();
        self.accesses += total("accesses").unwrap_or(0);
        self.threads += total("threads").unwrap_or(0);
        for (sum, name) in [
            (&mut self.translated_code_bytes, "translated_code_bytes"),
            (&mut self.buffer_bytes, "buffer_bytes"),
        ] {
            if let Some(bytes) = total(name) {
                *sum = Some(sum.unwrap_or(0) + bytes);
            }
        }
        if information["complete"].as_bool() != Some(true) {
            self.problems.push("a trace is incomplete".to_owned());
        }
        if let Some(words) = total("dropped_words").filter(|words| *words > 0) {
            self.problems.push(format!("{words} words were dropped"));
        }
        for problem in information["problems"].as_array().into_iter().flatten() {
            self.problems
                .push(problem.as_str().unwrap_or("an unnamed problem").to_owned());
        }
    }
}

fn information(unspool: &Path, file: &Path, look: Look) -> anyhow::Result<Value> {
    let output = Command::new(unspool)
        .args(["info", "--json"])
        .args((look == Look::Index).then_some("--quick"))
        .arg(file)
        .output()
        .with_context(|| format!("cannot start {}", unspool.display()))?;
    // Damage makes the status differ from 0 but is in the answer as well.
    serde_json::from_slice(&output.stdout).with_context(|| {
        let talk = String::from_utf8_lossy(&output.stderr);
        format!(
            "`unspool info --json` gave no JSON ({}): {}",
            output.status,
            talk.trim()
        )
    })
}

/// CPU seconds that it takes to decode everything in a file.
fn decode(unspool: &Path, file: &Path, time_limit: Duration) -> anyhow::Result<f64> {
    let mut command = Command::new(unspool);
    command.args(["export", "--format", "none"]).arg(file);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let (end, usage) = run_to_end(&mut command, time_limit, |_| ())?;
    if end != End::Exited(0) {
        bail!("`unspool export --format none` ended with {end:?}");
    }
    Ok(usage.cpu_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn information_of_several_files_adds_up() {
        let mut facts = TraceFacts {
            bytes: 600,
            ..TraceFacts::default()
        };
        facts.add_information(&json!({
            "complete": true, "problems": [],
            "totals": {"accesses": 1000, "threads": 2, "dropped_words": 0, "buffer_bytes": 64},
        }));
        facts.add_information(&json!({
            "complete": false, "problems": ["chunk 3 is damaged"],
            "totals": {"accesses": 200, "threads": 1, "dropped_words": 5, "buffer_bytes": 32},
        }));
        assert_eq!((facts.accesses, facts.threads), (1200, 3));
        assert_eq!(
            (facts.buffer_bytes, facts.translated_code_bytes),
            (Some(96), None)
        );
        assert_eq!(
            facts.problems,
            [
                "a trace is incomplete",
                "5 words were dropped",
                "chunk 3 is damaged"
            ]
        );
    }
}
