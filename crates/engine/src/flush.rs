//! The code cache is full: all threads leave it, and it starts anew.
//!
//! A thread is **inside** from where it looks up or makes a translation to where nothing it
//! holds refers to the cache any more: at an exit whose state is the program's. Outside it
//! may be in a system call, for as long as it likes. Who finds the cache full waits until
//! nobody is inside, and whoever wants to go in waits until the cache is empty. A tool stops
//! all threads in the same way.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::time::Duration;

use unspool_kernel::race_windows;

use crate::client;
use crate::process::Process;
use crate::requests;
use crate::thread::{AddressSpaceRole, Thread};
use crate::threads;
use crate::threads::{INSIDE, INSIDE_BUT_STOPPED, OUTSIDE, inside};

/// The thread that empties the cache; 0 for none.
static FLUSHING: AtomicU64 = AtomicU64::new(0);
/// The thread for which all others stand still; 0 for none.
static STOPPING: AtomicU64 = AtomicU64::new(0);

/// The number by which the calling thread is known here: its id says nothing beyond its PID
/// namespace.
fn own_number() -> u64 {
    let thread = Thread::current();
    // SAFETY: gettid has no preconditions.
    let tid = || unsafe { libc::gettid() } as u64;
    if thread.is_null() {
        tid()
    } else {
        thread as u64
    }
}

/// Whether the cache is to be emptied so that no code uses the branch table any more.
static NO_TABLE: AtomicBool = AtomicBool::new(false);

const PAUSE: Duration = Duration::from_micros(50);
/// A request comes in vain while a thread is just going inside.
const ROUNDS_BETWEEN_REQUESTS: u32 = 40;

/// The thread goes inside. If the cache is being emptied, it waits.
pub(crate) fn enter(thread: &mut Thread) {
    loop {
        inside(thread).store(INSIDE, Ordering::SeqCst);
        race_windows::widen();
        if may_enter() && client::may_enter(thread) {
            thread.clients().each(|client| client.enters(thread));
            return;
        }
        leave(thread);
        thread.clients().each(|client| client.hold(thread));
        wait(thread, may_enter);
    }
}

/// The thread is outside: nothing it holds refers to the cache.
pub fn leave(thread: &mut Thread) {
    thread.clients().each(|client| client.goes_outside(thread));
    inside(thread).store(OUTSIDE, Ordering::SeqCst);
}

fn may_enter() -> bool {
    FLUSHING.load(Ordering::SeqCst) == 0 && STOPPING.load(Ordering::SeqCst) == 0
}

/// All other threads stand still as long as this lives.
pub struct Stopped(());

impl Drop for Stopped {
    fn drop(&mut self) {
        STOPPING.store(0, Ordering::SeqCst);
    }
}

/// The thread of this number is the one for which all others stand still: behind those that have been
/// before it.
fn take_turn(number: u64) {
    let take = || STOPPING.compare_exchange(0, number, Ordering::SeqCst, Ordering::SeqCst);
    while take().is_err() {
        std::thread::sleep(PAUSE);
    }
}

/// Has all other threads stand still outside, or where they want the same. The calling thread
/// may be inside, or none of the program's; before there is a process, others stop only each other.
pub fn stop_others(process: Option<&Process>) -> Stopped {
    unspool_kernel::lock::assert_none_held("all other threads are stopped");
    // SAFETY: a thread's own pointer is null or outlives this.
    let (number, thread) = unsafe { (own_number(), Thread::current().as_ref()) };
    assert_ne!(
        STOPPING.load(Ordering::SeqCst),
        number,
        "this thread has stopped the others already"
    );
    let own = thread.map(inside);
    let was = own.map_or(OUTSIDE, |own| own.load(Ordering::SeqCst));
    if let (Some(own), INSIDE) = (own, was) {
        own.store(INSIDE_BUT_STOPPED, Ordering::SeqCst);
    }
    take_turn(number);
    if let Some(own) = own {
        own.store(was, Ordering::SeqCst);
    }
    let stopped = Stopped(());
    if let Some(process) = process {
        let mut round = 0;
        let is_inside = |state, of| state == INSIDE && of != Thread::current();
        while somebody(process, round % ROUNDS_BETWEEN_REQUESTS == 0, is_inside) {
            round += 1;
            std::thread::sleep(PAUSE);
        }
    }
    stopped
}

/// Runs something that waits for a thread which may want all others to stand still, as
/// [`stop_others`] does: the calling thread counts as if it did. It touches nothing of the program's.
pub fn while_stopped<R>(run: impl FnOnce() -> R) -> R {
    let number = own_number();
    // SAFETY: a thread's own pointer is null or outlives this.
    let own = unsafe { Thread::current().as_ref() }.map(inside);
    let own = own.filter(|own| own.load(Ordering::SeqCst) == INSIDE);
    let Some(own) = own.filter(|_| STOPPING.load(Ordering::SeqCst) != number) else {
        return run();
    };
    own.store(INSIDE_BUT_STOPPED, Ordering::SeqCst);
    let result = run();
    race_windows::widen();
    // Whoever has found this thread standing relies on it.
    take_turn(number);
    own.store(INSIDE, Ordering::SeqCst);
    STOPPING.store(0, Ordering::SeqCst);
    result
}

/// Waits. Others may take lines from the thread meanwhile, or they could not get out.
fn wait(thread: &mut Thread, mut done: impl FnMut() -> bool) {
    if done() {
        return;
    }
    client::begin_wait(thread);
    while !done() {
        if thread.process.is_ending() && thread.role == AddressSpaceRole::Process {
            threads::park(thread);
            client::begin_wait(thread);
        }
        std::thread::sleep(PAUSE);
    }
    client::end_wait(thread);
}

/// The cache is full, and the thread is at an exit: empties it, or waits until another
/// thread has. The thread is inside afterwards, and nothing is translated.
pub(crate) fn flush(process: &'static Process, thread: &mut Thread) {
    leave(thread);
    race_windows::widen();
    let free = FLUSHING.compare_exchange(0, own_number(), Ordering::SeqCst, Ordering::SeqCst);
    if free.is_ok() {
        let mut round = 0;
        wait(thread, || {
            round += 1;
            let is_inside = |state, _| state != OUTSIDE;
            !somebody(process, round % ROUNDS_BETWEEN_REQUESTS == 1, is_inside)
        });
        thread.clients().each(|client| client.all_outside(thread));
        {
            let mut code = process.code();
            if NO_TABLE.swap(false, Ordering::SeqCst) {
                code.cache.give_branch_table_up();
                // What would be kept could not be entered where there is a table.
                code.persistence = None;
            }
            code.cache.start_anew();
            code.checked.clear();
            thread.clients().each(|client| client.translations_gone());
        }
        serialise();
        race_windows::widen();
        FLUSHING.store(0, Ordering::SeqCst);
    }
    enter(thread);
}

/// From the next flush on there is no branch table. The thread that wants it so makes one before
/// it goes on with the program.
pub(crate) fn want_no_table() {
    NO_TABLE.store(true, Ordering::SeqCst);
}

/// Whether the cache is to be emptied although it is not full. A thread that goes inside does it.
pub(crate) fn is_wanted(process: &Process) -> bool {
    NO_TABLE.load(Ordering::SeqCst) || process.clients.wants_all_outside()
}

/// Whether there is a thread of which this is so; they are asked to come out if that is
/// wanted.
fn somebody(process: &Process, ask: bool, is_so: impl Fn(u64, *mut Thread) -> bool) -> bool {
    let threads = process.threads.lock();
    let mut found = false;
    for handle in threads.iter() {
        // SAFETY: the thread lives while it is listed, and the list is locked.
        let state = unsafe { inside(&*handle.thread) }.load(Ordering::SeqCst);
        if is_so(state, handle.thread) {
            found = true;
            if ask {
                requests::request_stop(*handle);
            }
        }
    }
    found
}

/// Sees to it that no processor runs instructions that it fetched before.
fn serialise() {
    const SYNC_CORE: i32 = 1 << 5;
    const REGISTER_SYNC_CORE: i32 = 1 << 6;
    fence(Ordering::SeqCst);
    // SAFETY: no memory is touched. Where the kernel cannot do it, the system calls and
    // signals that brought the threads out have.
    unsafe {
        libc::syscall(libc::SYS_membarrier, REGISTER_SYNC_CORE, 0, 0);
        libc::syscall(libc::SYS_membarrier, SYNC_CORE, 0, 0);
    }
}

/// In a forked child: whoever was emptying the cache, or has stopped the others, is gone.
pub(crate) fn forget_others() {
    STOPPING.store(0, Ordering::SeqCst);
    FLUSHING.store(0, Ordering::SeqCst);
}
