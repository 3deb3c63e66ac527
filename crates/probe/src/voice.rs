//! What a probe says: on the standard error that the process had at its start, whatever the
//! program does with it.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

const STANDARD_ERROR: i32 = 2;
/// Numbers from here on are out of the way of most programs.
const OUT_OF_THE_WAY: i32 = 200;

static VERBOSE: AtomicBool = AtomicBool::new(false);
static VOICE: OnceLock<Voice> = OnceLock::new();

/// What standard error was.
#[derive(Debug)]
struct Voice {
    /// A copy that the program does not know of, but may close.
    copy: i32,
    identity: Option<(u64, u64)>,
    path: Option<PathBuf>,
}

/// Keeps a copy of standard error.
pub(crate) fn keep(verbose: bool) {
    VERBOSE.store(verbose, Ordering::Relaxed);
    // SAFETY: duplicates a descriptor. A limit below leaves standard error itself.
    let copy = unsafe { libc::fcntl(STANDARD_ERROR, libc::F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) };
    let _ = VOICE.set(Voice {
        copy,
        identity: identity(STANDARD_ERROR),
        path: std::fs::read_link("/proc/self/fd/2").ok(),
    });
}

pub(crate) fn is_verbose() -> bool {
    VERBOSE.load(Ordering::Relaxed)
}

/// Says a line to whoever runs the program: on its standard error, even if it has closed that.
/// Many do before they end.
pub fn say(message: &str) {
    let text = format!("{message}\n");
    let Some(voice) = VOICE.get() else {
        return write(STANDARD_ERROR, &text);
    };
    let still = |number: &i32| voice.identity.is_some() && identity(*number) == voice.identity;
    match [voice.copy, STANDARD_ERROR].into_iter().find(still) {
        Some(number) => write(number, &text),
        None => voice.say_anew(&text),
    }
}

impl Voice {
    /// Both are closed, or something else by now: the file is opened once more, if it has a name.
    fn say_anew(&self, text: &str) {
        let path = self
            .path
            .as_ref()
            .map(|path| CString::new(path.as_os_str().as_bytes()));
        let Some(Ok(path)) = path else {
            return;
        };
        let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOCTTY;
        // SAFETY: opens a file, and closes it.
        unsafe {
            let number = libc::open(path.as_ptr(), flags);
            if number >= 0 && self.identity.is_some() && identity(number) == self.identity {
                write(number, text);
            }
            if number >= 0 {
                libc::close(number);
            }
        }
    }
}

fn write(number: i32, text: &str) {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        // SAFETY: writes our own bytes.
        let written = unsafe { libc::write(number, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(written) => rest = &rest[written..],
            Err(_) if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {
            }
            Err(_) => return,
        }
    }
}

/// Which file a descriptor is of.
fn identity(number: i32) -> Option<(u64, u64)> {
    // SAFETY: the kernel fills the structure.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        (libc::fstat(number, &raw mut status) == 0).then_some((status.st_dev, status.st_ino))
    }
}
