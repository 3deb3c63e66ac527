//! Programs that run natively below this command: how they start, are interrupted, and end.

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use crate::exit_status;
use crate::failure::{Failure, warn};

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
    match Path::new(program).is_file() {
        true if !program.as_encoded_bytes().contains(&b'/') => failure.with_help(format!(
            "the file {0} in this folder is no recording; if it is a program: ./{0}",
            program.display()
        )),
        true => failure.with_help("the file is there, but is neither a recording nor a program"),
        false => failure,
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
