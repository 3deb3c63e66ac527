//! A program that waits for a debugger, and a debugger of our own that speaks what it likes.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use unspool_guests::{Invocation, Outcome};

use crate::observer::{Verdict, unspool};
use crate::scratch::Scratch;

/// Nothing takes longer, also on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same on a busy machine, for one answer.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// A program under `unspool … --gdb`.
pub(super) struct Remote {
    folder: tempfile::TempDir,
    running: JoinHandle<std::io::Result<Outcome>>,
}

impl Remote {
    /// Starts it by the command, and waits until somebody can connect.
    pub(super) fn start(
        scratch: &Scratch,
        options: &[&str],
        command: &[&Path],
    ) -> Result<Remote, Verdict> {
        Remote::start_by(scratch, |socket| {
            let (first, rest) = options.split_at(options.len().min(2));
            let words = [first, &["--gdb", socket], rest, &["--"]].concat();
            unspool(scratch, &words).arguments(command)
        })
    }

    /// Starts it by what is called with the socket's path.
    pub(super) fn start_by(
        scratch: &Scratch,
        invocation: impl FnOnce(&str) -> Invocation,
    ) -> Result<Remote, Verdict> {
        // The address of a socket must be short.
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("gdb").display().to_string();
        let invocation = invocation(&socket).limit(PATIENCE);
        let work = scratch.path().to_path_buf();
        let remote = Remote {
            folder,
            running: std::thread::spawn(move || invocation.run(&work)),
        };
        // To connect would be to be a debugger.
        while !remote.socket().exists() {
            if remote.running.is_finished() {
                let outcome = remote.outcome()?;
                return Err(format!("nobody waits for gdb: {}", outcome.stderr_text()).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(remote)
    }

    /// Where to connect.
    pub(super) fn socket(&self) -> PathBuf {
        self.folder.path().join("gdb")
    }

    pub(super) fn connect(&self) -> Result<Client, Verdict> {
        let stream = UnixStream::connect(self.socket())?;
        stream.set_read_timeout(Some(LONGEST_WAIT))?;
        Ok(Client { stream })
    }

    /// Waits for the program's end.
    pub(super) fn outcome(self) -> Result<Outcome, Verdict> {
        let outcome = self.running.join();
        Ok(outcome.map_err(|_| "the test has failed".to_owned())??)
    }
}

/// A debugger's side of a connection.
pub(super) struct Client {
    stream: UnixStream,
}

impl Client {
    pub(super) fn raw(&mut self, bytes: &[u8]) -> Result<(), Verdict> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// Sends a packet.
    pub(super) fn send(&mut self, text: &str) -> Result<(), Verdict> {
        let sum = text.bytes().fold(0_u8, u8::wrapping_add);
        self.raw(format!("${text}#{sum:02x}").as_bytes())
    }

    /// The next packet that comes.
    pub(super) fn answer(&mut self) -> Result<String, Verdict> {
        let mut packet = Vec::new();
        let mut byte = [0];
        let mut left = None;
        while left != Some(0) {
            match self.stream.read(&mut byte) {
                Ok(0) => return Err("the connection is closed".to_owned().into()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.into()),
                Ok(_) => {}
            }
            match (byte[0], &mut left) {
                (b'$', None) => packet.clear(),
                (b'#', None) => left = Some(2),
                (_, Some(left)) => *left -= 1,
                (byte, None) => packet.push(byte),
            }
        }
        // Who has said farewell does not listen any more.
        let _ = self.raw(b"+");
        Ok(String::from_utf8_lossy(&packet).into_owned())
    }

    /// Sends a packet and waits for the answer.
    pub(super) fn ask(&mut self, text: &str) -> Result<String, Verdict> {
        self.send(text)?;
        self.answer()
    }
}

/// The first thread's number in a list of threads.
pub(super) fn first_thread(list: &str) -> Result<u64, Verdict> {
    let first = list.trim_start_matches('m').split(',').next();
    let number = first.and_then(|text| text.rsplit('.').next());
    let number = number.and_then(|text| u64::from_str_radix(text.trim_start_matches('p'), 16).ok());
    number.ok_or_else(|| format!("`{list}` is no list of threads").into())
}
