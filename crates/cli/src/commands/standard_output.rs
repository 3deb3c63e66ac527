//! Results that are made in one piece.

use std::io::{self, Write};

use anyhow::Context;

use crate::failure::Failure;

/// Writes a complete result to standard output.
pub(crate) fn print_result(text: &[u8]) -> Result<(), Failure> {
    let mut output = io::stdout();
    Ok(output
        .write_all(text)
        .and_then(|()| output.flush())
        .context("cannot write to standard output")?)
}
