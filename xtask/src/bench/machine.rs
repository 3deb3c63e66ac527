//! Which machine measured, and when.

use std::process::Command;

use serde::Serialize;

/// Load from which on others take so much of a processor that figures suffer.
const BUSY_LOAD: f64 = 0.5;

/// What a reader needs to judge the figures.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    /// Day of the measurement, in UTC: 2026-01-31.
    pub(crate) date: String,
    /// The processor's name.
    pub(crate) processor: String,
    /// How many processors this process may use.
    pub(crate) processors: usize,
    /// Main memory, in bytes.
    pub(crate) memory_bytes: u64,
    /// The kernel's release.
    pub(crate) kernel: String,
    /// The compiler of this project.
    pub(crate) rustc: String,
    /// The commit measured; ends with `+` where files differ from it.
    pub(crate) commit: String,
}

impl Machine {
    /// Asks the machine. What it does not tell is `unknown`.
    pub(crate) fn detect() -> Machine {
        let processor_info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let memory_info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = value_of(&memory_info, "MemTotal").and_then(|value| {
            value
                .split_whitespace()
                .next()
                .and_then(|number| number.parse::<u64>().ok())
        });
        let changed = !answer("git", &["status", "--porcelain"])
            .unwrap_or_default()
            .is_empty();
        let commit = answer("git", &["rev-parse", "--short=12", "HEAD"]);
        let unknown = || "unknown".to_owned();
        Machine {
            date: answer("date", &["-u", "+%Y-%m-%d"]).unwrap_or_else(unknown),
            processor: value_of(&processor_info, "model name")
                .map_or_else(unknown, ToOwned::to_owned),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: total.unwrap_or(0) * 1024,
            kernel: answer("uname", &["-r"]).unwrap_or_else(unknown),
            rustc: answer("rustc", &["--version"]).unwrap_or_else(unknown),
            commit: commit.map_or_else(unknown, |commit| commit + if changed { "+" } else { "" }),
        }
    }

    /// One line for people.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{}, {} processors, {:.1} GB; Linux {}; {}; commit {}",
            self.processor,
            self.processors,
            self.memory_bytes as f64 / 1e9,
            self.kernel,
            self.rustc,
            self.commit
        )
    }

    /// The name of the file that keeps results of this day and machine.
    pub(crate) fn result_file_name(&self) -> String {
        let mut machine = String::new();
        for character in self.processor.chars() {
            if character.is_ascii_alphanumeric() {
                machine.push(character.to_ascii_lowercase());
            } else if !machine.ends_with('-') {
                machine.push('-');
            }
        }
        let machine = machine.trim_matches('-');
        format!("{}-{machine}-{}.md", self.date, self.processors)
    }
}

/// A warning, where the machine has other things to do than to measure.
pub(crate) fn busy_note() -> Option<String> {
    let averages = std::fs::read_to_string("/proc/loadavg").ok()?;
    let load: f64 = averages.split_whitespace().next()?.parse().ok()?;
    (load >= BUSY_LOAD)
        .then(|| format!("the machine was busy at the start: load average {load:.2} over a minute"))
}

fn value_of<'text>(text: &'text str, key: &str) -> Option<&'text str> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

fn answer(command: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(command)
        .args(arguments)
        .current_dir(crate::step::workspace())
        .output()
        .ok()?;
    output
        .status
        .success()
        .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_files_are_named_after_day_and_machine() {
        let machine = Machine {
            date: "2026-01-31".into(),
            processor: "Some(R) CPU @ 2.50GHz".into(),
            processors: 2,
            memory_bytes: 0,
            kernel: String::new(),
            rustc: String::new(),
            commit: String::new(),
        };
        assert_eq!(
            machine.result_file_name(),
            "2026-01-31-some-r-cpu-2-50ghz-2.md"
        );
    }
}
