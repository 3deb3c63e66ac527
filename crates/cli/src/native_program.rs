//! Programs that run natively below this command: how they start, are interrupted, and end.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use crate::exit_status;
use crate::failure::{Failure, warn};

pub(crate) mod preload;
pub(crate) mod termination;

/// The failure of a program that could not be started.
pub(crate) fn not_started(program: &OsStr, error: &io::Error) -> Failure {
    let status = match error.kind() {
        io::ErrorKind::NotFound => exit_status::NOT_FOUND,
        _ => exit_status::NOT_EXECUTABLE,
    };
    let failure = Failure::new(format!("cannot run {}: {error}", program.display()));
    let failure = failure.with_status(status);
    // What is a recording has been read before anything is started.
    if !Path::new(program).is_file() {
        return failure;
    }
    let is_bare = !program.as_encoded_bytes().contains(&b'/');
    let program = program.display();
    match error.kind() {
        io::ErrorKind::NotFound if is_bare => failure.with_help(format!(
            "the file {program} in this folder is no recording; if it is a program: ./{program}"
        )),
        io::ErrorKind::NotFound => failure.with_help(
            "the file is there; what it is to be run by is not: a script's first line names that, and \
             readelf -l PROGRAM does for others",
        ),
        io::ErrorKind::PermissionDenied => failure.with_help(format!(
            "the file may not be executed, and so is neither a recording nor a program; if it is meant as one: \
             chmod +x {program}"
        )),
        _ => failure.with_help("the file is there, but is neither a recording nor a program"),
    }
}

/// A program that a signal ended gives the status that shells give it.
pub(crate) fn status_of(status: ExitStatus) -> u8 {
    let number = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => {
            warn(format_args!("the program was ended by signal {signal}"));
            128 + signal
        }
        (None, None) => exit_status::FAILED.into(),
    };
    u8::try_from(number).unwrap_or(exit_status::FAILED)
}

/// An interrupt is for the program, which gets it too; what it did until then is reported.
pub(crate) fn ignore_interrupts() {
    // SAFETY: ignoring a signal runs no code of ours.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}
