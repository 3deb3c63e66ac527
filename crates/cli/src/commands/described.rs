//! The file with what the lines of a text do not say of their trace.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use unspool_report::{Description, PendingFile};

use crate::failure::Failure;

/// Creates the file where there is to be one, so that a place that cannot be written to is told
/// before a long conversion, not after it.
pub(super) fn create(path: Option<&Path>) -> Result<Option<PendingFile>, Failure> {
    let create = |path: &Path| {
        PendingFile::create(path).with_context(|| format!("cannot create {}", path.display()))
    };
    Ok(path.map(create).transpose()?)
}

/// Writes the description, and gives the file its name.
pub(super) fn complete(
    file: Option<PendingFile>,
    description: &Description,
) -> Result<(), Failure> {
    let Some(file) = file else {
        return Ok(());
    };
    let text = serde_json::to_string_pretty(&description.to_json())? + "\n";
    let written = file.writer()?.write_all(text.as_bytes());
    Ok(written
        .and_then(|()| file.complete())
        .context("cannot write the description of the trace")?)
}
