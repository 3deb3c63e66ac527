//! Builds the executable under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

/// Builds `unspool` in release mode and says where it is.
///
/// # Errors
/// If it does not build.
pub(crate) fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "build",
            "--release",
            "--package",
            "unspool",
            "--bin",
            "unspool",
        ])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("unspool does not build; --unspool EXECUTABLE measures another one");
    }
    let messages = String::from_utf8_lossy(&output.stdout);
    messages
        .lines()
        .filter_map(executable_of)
        .next_back()
        .context("cargo does not tell where it put unspool")
}

/// The executable that a message of cargo announces, if it announces one.
fn executable_of(message: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(message).ok()?;
    Some(message["executable"].as_str()?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_among_messages() {
        let artifact = r#"{"reason":"compiler-artifact","executable":"/t/release/unspool"}"#;
        assert_eq!(executable_of(artifact), Some("/t/release/unspool".into()));
        assert_eq!(
            executable_of(r#"{"reason":"compiler-artifact","executable":null}"#),
            None
        );
        assert_eq!(executable_of("warning"), None);
    }
}
