//! Signals: the program's handlers run translated, with the context that the program would
//! have seen without the engine.
//!
//! The kernel keeps the program's mask and dispositions, so that blocking, pending, waiting
//! and `signalfd` work by themselves; only the handler is always the engine's. It takes a signal
//! from the kernel, puts it into `held`, blocks the rest,
//! and brings the thread out of the cache at a boundary between two program instructions:
//! at once if it stands at one, else after single-stepping the few instructions to the
//! next. `delivery` says which signal the program gets, and `deliver` builds its frame.
//!
//! **Nothing is lost, and nothing is early**, by three rules:
//! - The kernel's mask is opened in one place, `open`, through a gate that does nothing where
//!   something is pending. So once a signal is taken no other comes before the program has it.
//! - A system call that changes the program's mask changes the kernel's first, through the same
//!   gate (`change_mask`). If a signal came before, the call has not been made: the program gets
//!   the signal, and makes its call again.
//! - Signals that the engine can never block (`signals::SYNCHRONOUS`, `signals::STOP`) are kept in
//!   `signals::delivery::Delivery` while the program blocks them, and shown by the calls that ask for
//!   pending signals or wait for them.
//!
//! **How long that takes is bounded**, whatever the program does, loops without any branch out
//! included: the handler interrupts translated code anywhere, so nothing has to be reached. What
//! can lie between are
//! - the rest of one instruction's translation, with what records it and checks owners: some
//!   dozens of single steps, below 0.1 ms. A repeated string instruction is left between two
//!   rounds, traced or not;
//! - the engine's own work, if it is at some: one translation, one buffer of records to be packed
//!   and written, the wait for another thread to give a line away (up to 10 ms where that thread
//!   runs code without end), and, in line-atomic order, the lines that one string instruction
//!   names, which are acquired before it begins: 0.1 s for each gigabyte.
//!
//! The guest `signals/bounded_delivery` measures it.

mod context;
pub(crate) mod deliver;
pub mod frame;
pub(crate) mod handler;
mod leaving;
mod mask;
mod own_threads;
pub(crate) mod shared;
mod single_steps;
mod stack;
mod time_stamp;
mod updated_operand;
pub mod write_signals;

pub(crate) use self::mask::{change_mask, open, settle};
pub(crate) use self::stack::SignalStack;
