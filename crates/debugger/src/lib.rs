#![forbid(unsafe_code)]
//! Lets gdb look at a program that runs under observation, and control it.
//!
//! [`listen`] has the program that the engine is about to run stopped before its first
//! instruction, until a debugger connects that speaks gdb's remote protocol (`target remote`) and
//! continues it. The debugger sees the program's registers, memory and threads as they would be
//! without the engine. If it goes, or its connection breaks, the program goes on, and another one
//! may come.
//!
//! The protocol is the business of the crate `gdbstub`; what is here tells it what the engine's
//! [`Debuggee`](unspool_debuggee::Debuggee) can do. All threads stop together. Forked
//! children and programs that are executed are not followed.
//!
//! You supply the address, and run the program by the engine afterwards. This crate is not for
//! debugging the engine or a tool.

mod address;
mod link;
mod registers;
mod session;
mod signals;
mod target;

pub use address::{Address, InvalidAddress};
pub use session::{ListenError, listen};
pub use unspool_debuggee::debugger;
