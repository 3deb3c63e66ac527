//! Debugging the program: what a debugger needs that runs in this process, beside the program,
//! and sees the program as if there were no engine. It is a client of the engine.
//!
//! The debugger is a thread of its own ([`install`]) with a [`Debuggee`] in its hands. All
//! threads of the program stop together: none of them is inside the code cache then (see
//! `unspool_engine::flush`), each waits at a boundary between two instructions (`hooks`) or is in a
//! system call, and its state is what the program would have. A breakpoint is a program address
//! before which translations end; the program's memory is never changed for it.
//!
//! Only the process that was started is debugged: forked children and programs that are
//! executed go on without.

mod client;
mod debuggee;
mod hooks;
mod of_thread;
mod reason;
mod registers;
mod watch;
mod world;

pub use client::debugger;
pub use debuggee::{Action, Debuggee, ThreadStatus, Wake, install};
pub use hooks::request_stop;
pub use reason::{Reason, WatchKind};
pub use registers::Registers;
pub use world::Stop;
