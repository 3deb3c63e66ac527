//! What all clients are told of a thread by that thread.

use super::End;
use crate::thread::Thread;

/// The first thread is about to execute its first instruction.
pub(crate) fn first_thread_starts(thread: &mut Thread) {
    let clients = thread.clients();
    clients.each(|client| client.thread_starts(thread, None));
}

/// The thread has executed its last instruction.
pub(crate) fn thread_ends(thread: &mut Thread) {
    let clients = thread.clients();
    clients.each(|client| client.thread_ends(thread));
}

/// The thread stands still for good.
pub(crate) fn thread_parks(thread: &mut Thread) {
    let clients = thread.clients();
    clients.each(|client| client.thread_parks(thread));
}

/// The engine is about to write program memory on the kernel's behalf.
pub fn memory_written(thread: &mut Thread, address: u64, size: u64) {
    let clients = thread.clients();
    clients.each(|client| client.memory_written(thread, address, size));
}

/// See [`Client::must_complete`](super::Client::must_complete).
pub(crate) fn must_complete(thread: &Thread) -> bool {
    let mut clients = thread.clients().iter();
    clients.any(|client| client.must_complete(thread))
}

/// The program's FS base of the thread has changed.
pub(crate) fn thread_pointer_changed(thread: &mut Thread, address: u64) {
    let clients = thread.clients();
    clients.each(|client| client.thread_pointer_changed(thread, address));
}

/// Whether the thread may go into the code cache, as far as clients are concerned.
#[inline]
pub(crate) fn may_enter(thread: &Thread) -> bool {
    let mut clients = thread.clients().iter();
    clients.all(|client| client.may_enter(thread))
}

/// The thread is about to end the process.
pub(crate) fn before_end(thread: &mut Thread) {
    let clients = thread.clients();
    clients.each(|client| client.before_end(thread));
}

/// The process ends next.
pub(crate) fn ended(thread: &mut Thread, end: End) {
    let clients = thread.clients();
    clients.each(|client| client.ended(thread, end));
}

/// The thread, out of the cache, waits for other threads of the program.
pub(crate) fn begin_wait(thread: &mut Thread) {
    let clients = thread.clients();
    clients.each(|client| client.begin_wait(thread));
}

/// It goes on.
pub(crate) fn end_wait(thread: &mut Thread) {
    let clients = thread.clients();
    clients.each(|client| client.end_wait(thread));
}
