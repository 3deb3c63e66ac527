//! Where a trace goes.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unspool_events::{RecordSink, Tee, TraceHeader, TraceWriter};
use unspool_kernel::descriptors::{copy_away, move_away};
use unspool_kernel::diagnostics::diagnostics_fd;

use super::plan::{TraceOutput, TracePlan};
use super::start_error::TraceError;
use super::trace_file;

/// Opens the trace's file out of the way of the program's own descriptors.
pub(super) fn open(
    plan: &TracePlan,
    header: &TraceHeader,
    child: bool,
) -> Result<(Arc<dyn RecordSink>, i32), TraceError> {
    let (output, receiver) = match &plan.output {
        TraceOutput::Discard => return Ok((Arc::new(TraceWriter::discarding(header)), -1)),
        TraceOutput::Receiver(receiver) => return Ok((receiver.sink(header), -1)),
        TraceOutput::ReceiverToCome(_) => return Err(TraceError::NoReceiver),
        TraceOutput::FileAndReceiver(path, receiver) => (path, Some(receiver)),
        TraceOutput::File(path) => (path, None),
    };
    let (file, path) = if child {
        create_for_child(output)
    } else {
        (create(output), output.clone())
    };
    let failed = |source| TraceError::Trace {
        path: path.clone(),
        source,
    };
    let file = file.map_err(failed)?;
    let file = File::from(move_away(file.into()));
    if path != Path::new("-") {
        claim(&file).map_err(failed)?;
    }
    let number = file.as_raw_fd();
    let writer = TraceWriter::through(trace_file::write, file, header)
        .map_err(|error| failed(io::Error::other(error)))?;
    let file: Arc<dyn RecordSink> = Arc::new(writer);
    let sink = match receiver {
        None => file,
        Some(receiver) => Arc::new(Tee {
            file,
            analysis: receiver.sink(header),
        }),
    };
    Ok((sink, number))
}

/// The same for a followed child, which runs whether it can be recorded or not.
pub(super) fn open_or_discard(
    plan: &TracePlan,
    header: &TraceHeader,
) -> (Arc<dyn RecordSink>, i32) {
    open(plan, header, true).unwrap_or_else(|error| {
        let reason = std::error::Error::source(&error)
            .map_or_else(String::new, |reason| format!(": {reason}"));
        unspool_kernel::diagnostics::say(&format!(
            "unspool: this child process is not recorded: {error}{reason}"
        ));
        (Arc::new(TraceWriter::discarding(header)), -1)
    })
}

fn create(path: &Path) -> io::Result<File> {
    if path == Path::new("-") {
        return take_standard_output();
    }
    // It is emptied once nobody else is known to write there.
    let mut options = File::options();
    options.write(true).create(true).truncate(false).open(path)
}

/// Empties the file for a new trace, unless another one is being written to it. Whoever writes one
/// has the file locked: the kernel unlocks it when the process ends, or closes any descriptor of
/// the file.
fn claim(file: &File) -> io::Result<()> {
    let whole = libc::flock {
        l_type: libc::F_WRLCK as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the kernel reads the structure.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw const whole) } != 0 {
        let error = io::Error::last_os_error();
        if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EAGAIN)) {
            return Err(io::Error::other("another trace is being written to it"));
        }
        // Not everything can be locked: then nothing is known.
    }
    match file.metadata()?.is_file() {
        true => file.set_len(0),
        false => Ok(()),
    }
}

const STANDARD_OUTPUT: i32 = 1;

/// The trace takes standard output for itself. What the program prints goes to standard error
/// instead, so that neither spoils the other.
fn take_standard_output() -> io::Result<File> {
    let itself = copy_away(STANDARD_OUTPUT).ok_or_else(io::Error::last_os_error)?;
    let instead = match diagnostics_fd() {
        -1 => File::options().write(true).open("/dev/null")?.into_raw_fd(),
        fd => fd,
    };
    // SAFETY: replaces a descriptor, of which there is a copy, by another one that is open.
    if unsafe { libc::dup2(instead, STANDARD_OUTPUT) } < 0 {
        return Err(io::Error::last_os_error());
    }
    unspool_kernel::diagnostics::say(
        "unspool: standard output takes the trace; what the program prints there goes to standard error",
    );
    Ok(itself.into())
}

/// Each child has a file of its own: `name.PID.ext`, then `name.PID.2.ext`, …
fn create_for_child(output: &Path) -> (io::Result<File>, PathBuf) {
    let stem = output
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let extension = output
        .extension()
        .map(|text| format!(".{}", text.to_string_lossy()))
        .unwrap_or_default();
    let is_plain = output.metadata().map_or(true, |facts| facts.is_file());
    if output == Path::new("-") || !is_plain {
        let reason = "children need a plain file beside which theirs can be put";
        return (Err(io::Error::other(reason)), output.to_owned());
    }
    let process = std::process::id();
    for number in 1.. {
        let suffix = if number == 1 {
            String::new()
        } else {
            format!(".{number}")
        };
        let path = output.with_file_name(format!("{stem}.{process}{suffix}{extension}"));
        match File::options().write(true).create_new(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return (result, path),
        }
    }
    unreachable!("the loop ends by returning")
}
