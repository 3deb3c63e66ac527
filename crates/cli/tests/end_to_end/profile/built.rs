//! Programs that tests have the compilers of the machine make of a text.

use std::ffi::OsString;
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
    let (source, program) = (scratch.path().join(file), scratch.path().join("built"));
    std::fs::write(&source, text)?;
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests/programs");
    let mut command = Command::new(compiler);
    if compiler != "rustc" {
        command.args(["-g", "-w", "-I"]).arg(&guests);
    }
    let done = command
        .args(options)
        .arg("-o")
        .args([&program, &source])
        .args((compiler != "rustc").then_some("-lm"))
        .current_dir(scratch.path())
        .output();
    match done {
        Ok(done) if done.status.success() => Ok(program.into()),
        Ok(done) => Err(Verdict::CannotTell(
            String::from_utf8_lossy(&done.stderr).into_owned(),
        )),
        Err(error) => Err(Verdict::CannotTell(format!("{compiler}: {error}"))),
    }
}
