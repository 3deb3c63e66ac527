//! The connection to a debugger.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use gdbstub::conn::{Connection, ConnectionExt};

/// What waits for debuggers.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// The next one that connects.
    pub(crate) fn accept(&self) -> io::Result<OwnedFd> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                // Packets are small, and each waits for the answer to the one before.
                stream.set_nodelay(true)?;
                Ok(stream.into())
            }
            Listener::Unix(listener) => Ok(listener.accept()?.0.into()),
        }
    }

    /// With another descriptor for the same.
    pub(crate) fn moved(self, by: impl FnOnce(OwnedFd) -> OwnedFd) -> Listener {
        match self {
            Listener::Tcp(listener) => Listener::Tcp(by(listener.into()).into()),
            Listener::Unix(listener) => Listener::Unix(by(listener.into()).into()),
        }
    }

    /// The connection with a descriptor that [`Listener::accept`] returned.
    pub(crate) fn link(&self, stream: OwnedFd) -> Link {
        let stream: Box<dyn Stream> = match self {
            Listener::Tcp(_) => Box::new(TcpStream::from(stream)),
            Listener::Unix(_) => Box::new(UnixStream::from(stream)),
        };
        Link {
            stream,
            input: Vec::new(),
            taken: 0,
            output: Vec::new(),
        }
    }
}

/// A socket that has its name only once it takes connections: who waits for the name to appear may
/// connect. Between the two steps of binding and listening, gdb would be refused and give up.
pub(crate) fn bind_ready(path: &Path) -> io::Result<UnixListener> {
    let mut unready = path.as_os_str().to_owned();
    unready.push(format!(".{}", std::process::id()));
    let unready = PathBuf::from(unready);
    let listener = UnixListener::bind(&unready)?;
    // Unlike a renaming, this takes no other socket's name away.
    let named = fs::hard_link(&unready, path);
    let removed = fs::remove_file(&unready);
    named.and(removed).map(|()| listener)
}

trait Stream: Read + Write + AsFd {}
impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// A debugger's connection, with what was read too much and what is still to be sent.
pub(crate) struct Link {
    stream: Box<dyn Stream>,
    input: Vec<u8>,
    taken: usize,
    output: Vec<u8>,
}

impl Link {
    /// The descriptor.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Whether [`ConnectionExt::read`] has something without waiting.
    pub(crate) fn has_input(&self) -> bool {
        self.taken < self.input.len()
    }
}

impl Connection for Link {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.output.push(byte);
        Ok(())
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.output.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let result = self.stream.write_all(&self.output);
        self.output.clear();
        result
    }
}

impl ConnectionExt for Link {
    fn read(&mut self) -> io::Result<u8> {
        const ROOM: usize = 4096;
        if !self.has_input() {
            self.input.resize(ROOM, 0);
            self.taken = 0;
            let count = self.stream.read(&mut self.input);
            self.input.truncate(*count.as_ref().unwrap_or(&0));
            if count? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        self.taken += 1;
        Ok(self.input[self.taken - 1])
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.input.get(self.taken).copied())
    }
}
