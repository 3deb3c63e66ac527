//! What a tool can do beside inserting: stop all threads, have code instrumented anew, read the
//! program's memory, and have threads of its own.

use std::ops::Range;
use unspool_engine::threads;

use unspool_kernel::guarded;
use unspool_kernel::ids::Tid;

use super::Instrumenter;
use super::instrumentation::is_asking;
use super::process::process;
use unspool_engine::flush;

const PAGE: u64 = 4096;

fn assert_not_instrumenting(what: &str) {
    assert!(
        !is_asking(),
        "{what} is not possible while code is being instrumented"
    );
}

/// A thread of the program that stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedThread {
    /// The number of the thread.
    pub number: u32,
    /// The kernel's id of it.
    pub tid: i32,
    /// Where in the program it is; `None` where it is in a function that inserted code called.
    pub pc: Option<u64>,
}

/// Runs something while no other thread executes the program's code. Each stands before an
/// instruction, in a system call (which may go on in the kernel, but not return to the
/// program), or where it wants to stop the others itself.
///
/// # Panics
/// If it is called while code is being instrumented.
pub fn stop_the_world<R>(run: impl FnOnce(&[StoppedThread]) -> R) -> R {
    assert_not_instrumenting("stopping all threads");
    let process = process();
    let _stopped = flush::stop_others(process);
    let own = Tid::own();
    let threads = process.map_or_else(Vec::new, |process| {
        let threads = process.threads.lock();
        let others = threads.iter().filter(|handle| handle.tid != own);
        others
            .map(|handle| {
                // SAFETY: the thread lives while it is listed, and the list is locked. It stands
                // still, so that its state does not change.
                let (thread, outside) = unsafe {
                    let thread = &*handle.thread;
                    (thread, threads::is_outside(thread))
                };
                StoppedThread {
                    number: thread.id.0,
                    tid: handle.tid.get(),
                    pc: outside.then(|| thread.pc()),
                }
            })
            .collect()
    });
    run(&threads)
}

/// Forgets the translations of code in a range of addresses, or all: before it is executed
/// again, the tool is asked what to insert. Threads that are in such code leave it at the
/// end of the superblock at the latest.
///
/// # Panics
/// If it is called while code is being instrumented.
pub fn instrument_again(range: Range<u64>) {
    assert_not_instrumenting("instrumenting anew");
    let (Some(process), Some(instrumenter)) = (process(), Instrumenter::get()) else {
        return;
    };
    let mut code = process.code();
    code.cache.invalidate(range);
    instrumenter.fragments.call_sites.forget();
}

/// Copies program memory. Returns how many bytes could be read: less where the rest is not
/// mapped or must not be read.
///
/// It is made of plain moves, so that it is known what a function changes that calls it: a string
/// instruction takes longer to start than to copy a few words, and heeds the direction flag.
#[must_use]
#[inline]
pub fn read_memory(address: u64, to: &mut [u8]) -> usize {
    let mut copied = 0;
    while copied < to.len() {
        let end = to.len().min(copied + guarded::SHORT);
        let piece = &mut to[copied..end];
        let read = guarded::read_short(address.wrapping_add(copied as u64), piece);
        copied += read;
        if copied < end {
            break;
        }
    }
    copied
}

/// Writes program memory. Returns how many bytes could be written.
#[must_use]
pub fn write_memory(address: u64, from: &[u8]) -> usize {
    if let Some(process) = process() {
        process.clients.each(|client| client.memory_changed());
    }
    by_page(address, from.len(), |at, range| {
        guarded::write(at, &from[range])
    })
}

/// A page is there or is not, so that pages are copied one by one.
fn by_page(address: u64, length: usize, mut copy: impl FnMut(u64, Range<usize>) -> bool) -> usize {
    let mut done = 0;
    while done < length {
        let Some(at) = address.checked_add(done as u64) else {
            break;
        };
        let piece = ((PAGE - at % PAGE) as usize).min(length - done);
        if !copy(at, done..done + piece) {
            break;
        }
        done += piece;
    }
    done
}

/// Starts a thread of the tool's own: the program's signals do not come to it, it is not among
/// the program's threads, and the process ends without waiting for it. A forked child does not
/// have it.
///
/// # Errors
/// If the system starts no thread.
pub fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map(drop)
}
