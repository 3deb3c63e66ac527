//! Waiting for debuggers, and talking to one after the other.

use std::io;
use std::net::TcpListener;
use std::os::fd::AsRawFd;

use gdbstub::conn::ConnectionExt;
use gdbstub::stub::run_blocking::{BlockingEventLoop, Event, WaitForStopReasonError};
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use gdbstub::target::ext::breakpoints::WatchKind;
use unspool_debuggee::{self as debug, Debuggee, Reason, Stop, Wake};
use unspool_kernel::diagnostics;

use crate::address::Address;
use crate::link::{self, Link, Listener};
use crate::signals;
use crate::target::{Debugged, to_gdb};

/// Why nobody could connect.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The port is taken, or may not be had.
    #[error("cannot wait for gdb at {address}")]
    Port {
        /// Where.
        address: std::net::SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The socket cannot be made.
    #[error("cannot wait for gdb at {path}")]
    Socket {
        /// Where.
        path: std::path::PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// Has the program that the engine is about to run in this process debugged by who connects at an
/// address. Says on standard error what to tell gdb.
///
/// # Errors
/// If it is not possible to wait there.
pub fn listen(address: &Address) -> Result<(), ListenError> {
    let (listener, name) = match address {
        Address::Loopback(address) => {
            let failed = |source| ListenError::Port {
                address: *address,
                source,
            };
            let listener = TcpListener::bind(address).map_err(failed)?;
            let name = listener.local_addr().map_err(failed)?.to_string();
            (Listener::Tcp(listener), name)
        }
        Address::Socket(path) => {
            let failed = |source| ListenError::Socket {
                path: path.clone(),
                source,
            };
            let listener = link::bind_ready(path).map_err(failed)?;
            (Listener::Unix(listener), path.display().to_string())
        }
    };
    eprintln!("waiting for gdb: target remote {name}");
    debug::install(move |debuggee| serve(&debuggee, listener));
    Ok(())
}

/// Serves debuggers, one after the other, as long as the program runs.
fn serve(debuggee: &Debuggee, listener: Listener) {
    let listener = listener.moved(|file| debuggee.keep(file));
    loop {
        match listener.accept() {
            Ok(stream) => {
                let stream = debuggee.keep(stream);
                let number = stream.as_raw_fd();
                session(debuggee, listener.link(stream));
                debuggee.give_up(number);
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => {
                diagnostics::say(&format!("no debugger can connect any more: {error}"));
                debuggee.detach();
                return;
            }
        }
    }
}

/// Talks to one debugger until it goes.
fn session(debuggee: &Debuggee, link: Link) {
    debuggee.attach();
    let mut debugged = Debugged::new(debuggee);
    // Large enough for all registers in one packet.
    const PACKET: usize = 0x8000;
    let stub = GdbStub::builder(link).packet_buffer_size(PACKET).build();
    let Ok(stub) = stub else {
        return debuggee.detach();
    };
    let ended = stub.run_blocking::<Loop>(&mut debugged);
    match ended {
        Ok(DisconnectReason::Kill) => debuggee.kill(),
        Ok(DisconnectReason::TargetExited(_) | DisconnectReason::TargetTerminated(_)) => {
            debuggee.told_end();
        }
        // Whatever was wrong with what was sent, or with the connection: the program goes on.
        Ok(DisconnectReason::Disconnect) | Err(_) => debuggee.detach(),
    }
}

/// What is done while the program runs.
struct Loop<'a>(std::marker::PhantomData<&'a ()>);

impl<'a> BlockingEventLoop for Loop<'a> {
    type Target = Debugged<'a>;
    type Connection = Link;
    type StopReason = MultiThreadStopReason<u64>;

    fn wait_for_stop_reason(
        target: &mut Debugged<'a>,
        link: &mut Link,
    ) -> Result<Event<Self::StopReason>, WaitForStopReasonError<io::Error, io::Error>> {
        let read = |link: &mut Link| {
            let byte = link.read().map_err(WaitForStopReasonError::Connection)?;
            Ok(Event::IncomingData(byte))
        };
        loop {
            if link.has_input() {
                return read(link);
            }
            let wake = target.debuggee.wait(link.descriptor());
            match wake.map_err(WaitForStopReasonError::Target)? {
                Wake::Readable => return read(link),
                Wake::Stopped(stop)
                    if stop.reason == Reason::Step && target.is_in_range(stop.thread) =>
                {
                    target.go_on();
                }
                Wake::Stopped(stop) => return Ok(Event::TargetStopped(to_protocol(&stop))),
            }
        }
    }

    fn on_interrupt(target: &mut Debugged<'a>) -> Result<Option<Self::StopReason>, io::Error> {
        Ok(Some(to_protocol(&target.debuggee.interrupt())))
    }
}

fn to_protocol(stop: &Stop) -> MultiThreadStopReason<u64> {
    let tid = to_gdb(stop.thread);
    let signal = |number| MultiThreadStopReason::SignalWithThread {
        tid,
        signal: signals::to_gdb(number),
    };
    match &stop.reason {
        Reason::Breakpoint => MultiThreadStopReason::SwBreak(tid),
        Reason::Step => signal(libc::SIGTRAP),
        Reason::Signal(number) => signal(*number),
        Reason::Interrupted => signal(libc::SIGINT),
        Reason::ThreadEnded => MultiThreadStopReason::SignalWithThread {
            tid,
            signal: gdbstub::common::Signal::SIGZERO,
        },
        Reason::Watch { address, kind } => MultiThreadStopReason::Watch {
            tid,
            kind: match kind {
                debug::WatchKind::Write => WatchKind::Write,
                debug::WatchKind::Read => WatchKind::Read,
                debug::WatchKind::Access => WatchKind::ReadWrite,
            },
            addr: *address,
        },
        Reason::Tool(reason) => {
            diagnostics::say(&format!("the tool stops the program: {reason}"));
            signal(libc::SIGTRAP)
        }
        Reason::Exited(status) => MultiThreadStopReason::Exited(*status as u8),
        Reason::Killed(number) => MultiThreadStopReason::Terminated(signals::to_gdb(*number)),
    }
}
