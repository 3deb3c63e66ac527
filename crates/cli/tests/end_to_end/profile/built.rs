//! Programs that tests have the compilers of the machine make of a text.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use crate::observer::Verdict;
use crate::scratch::Scratch;

/// The path of a program; its source has the folder of guests among its headers. Cannot tell where there is no
/// such compiler, or it does not know the options.
pub(super) fn built(
    scratch: &Scratch,
    (compiler, file): (&str, &str),
    text: &str,
    options: &[&str],
) -> Result<OsString, Verdict> {
    std::fs::write(scratch.path().join(file), text)?;
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/programs");
    let guests = guests.display().to_string();
    let (before, behind): (&[&str], &[&str]) = match compiler {
        "rustc" => (&[], &[]),
        _ => (&["-g", "-w", "-I", &guests], &["-lm"]),
    };
    let words = [before, options, &["-o", "built", file], behind].concat();
    made(scratch.path(), compiler, &words)?;
    Ok(scratch.path().join("built").into())
}

/// Has a program do its work in a folder. Cannot tell where it is not there, or fails.
pub(super) fn made(
    folder: &Path,
    program: &str,
    arguments: &[impl AsRef<OsStr> + std::fmt::Debug],
) -> Result<(), Verdict> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output();
    let problem = match output {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    Err(Verdict::CannotTell(format!(
        "{program} {arguments:?}: {problem}"
    )))
}
