//! What a tool can do while the program runs, beside being called.

use std::ops::Range;

use unspool_engine::instrument;

use crate::argument::Address;

/// Runs something while no other thread executes the program's code: each stands before an
/// instruction, in a system call, or where it is about to stop the others itself. Threads of the
/// tool's own go on. To be called in a function of the tool that the program's threads run, or in
/// a thread of [`spawn`].
///
/// What the function of another thread holds meanwhile (a lock, for instance) it may hold for as
/// long as this runs: threads are let out of the tool's functions before, but not out of
/// callbacks at system calls.
///
/// # Panics
/// In [`Tool::instrument`](crate::Tool::instrument), and where the calling thread has stopped the
/// others already.
pub fn stop_the_world<R>(run: impl FnOnce(&[instrument::StoppedThread]) -> R) -> R {
    instrument::stop_the_world(run)
}

/// Has the tool asked again what to insert, before any code is executed that is in none of the
/// superblocks that threads are just in: these go on as they are until they end.
///
/// # Panics
/// In [`Tool::instrument`](crate::Tool::instrument).
pub fn instrument_again() {
    instrument::instrument_again(0..u64::MAX);
}

/// The same for the code in a range of addresses, and superblocks that hold some of it.
///
/// # Panics
/// As for [`instrument_again`].
pub fn instrument_range_again(range: Range<Address>) {
    instrument::instrument_again(range.start.0..range.end.0);
}

/// Copies program memory. Returns how many bytes could be read: less where the rest is not mapped
/// or must not be read.
#[must_use]
pub fn read_memory(address: Address, to: &mut [u8]) -> usize {
    instrument::read_memory(address.0, to)
}

/// Starts a thread of the tool's own. It is none of the program's threads (though
/// `/proc/self/task` lists it): signals of the program do not come to it, the process ends
/// without waiting for it, and a child that the program forks does not have it (start it
/// again in [`Tool::forked`](crate::Tool::forked) if it is wanted there; a lock that it held at
/// that moment stays held in the child). A panic in it ends the process, as everywhere in a
/// tool.
///
/// # Errors
/// If the system starts no thread.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    instrument::spawn(name, run)
}
