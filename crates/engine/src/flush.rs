//! The code cache is full: all threads leave it, and it starts anew.
//!
//! A thread is **inside** from where it looks up or makes a translation to where nothing it
//! holds refers to the cache any more: at an exit whose state is the program's. Outside it
//! may be in a system call, for as long as it likes. Who finds the cache full waits until
//! nobody is inside, and whoever wants to go in waits until the cache is empty.

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering, fence};
use std::time::Duration;

use crate::process::Process;
use crate::thread::{Place, Thread};
use crate::{finish, instrument, trace};

/// The thread that empties the cache; 0 for none.
static FLUSHING: AtomicI32 = AtomicI32::new(0);

const PAUSE: Duration = Duration::from_micros(50);
/// A request comes in vain while a thread is just going inside.
const ROUNDS_BETWEEN_REQUESTS: u32 = 40;

fn inside(thread: &Thread) -> &AtomicU64 {
    // SAFETY: the slots live as long as their thread; this one is only used atomically.
    unsafe { AtomicU64::from_ptr(&raw mut (*thread.slots).in_cache) }
}

/// The thread goes inside. If the cache is being emptied, it waits.
pub fn enter(thread: &mut Thread) {
    loop {
        inside(thread).store(1, Ordering::SeqCst);
        if FLUSHING.load(Ordering::SeqCst) == 0 {
            return;
        }
        leave(thread);
        wait(thread, || FLUSHING.load(Ordering::SeqCst) == 0);
    }
}

/// The thread is outside: nothing it holds refers to the cache.
pub fn leave(thread: &mut Thread) {
    inside(thread).store(0, Ordering::SeqCst);
}

/// Waits. Others may take lines from the thread meanwhile, or they could not get out.
fn wait(thread: &mut Thread, mut done: impl FnMut() -> bool) {
    if done() {
        return;
    }
    trace::begin_wait(thread);
    while !done() {
        if Process::get().is_ending() && thread.place == Place::Process {
            finish::park(thread);
        }
        std::thread::sleep(PAUSE);
    }
    trace::end_wait(thread);
}

/// The cache is full, and the thread is at an exit: empties it, or waits until another
/// thread has. The thread is inside afterwards, and nothing is translated.
pub fn flush(process: &'static Process, thread: &mut Thread) {
    leave(thread);
    let free = FLUSHING.compare_exchange(0, thread.tid, Ordering::SeqCst, Ordering::SeqCst);
    if free.is_ok() {
        let mut round = 0;
        wait(thread, || {
            round += 1;
            !somebody_inside(process, round % ROUNDS_BETWEEN_REQUESTS == 1)
        });
        {
            let mut code = process.code();
            code.cache.start_anew();
            code.checked.clear();
            trace::translations_gone();
            instrument::translations_gone();
        }
        serialise();
        FLUSHING.store(0, Ordering::SeqCst);
    }
    enter(thread);
}

/// Whether anybody is inside; they are asked to come out if that is wanted.
fn somebody_inside(process: &Process, ask: bool) -> bool {
    let threads = process
        .threads
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut found = false;
    for handle in threads.iter() {
        // SAFETY: the thread lives while it is listed, and the list is locked.
        let within = unsafe { inside(&*handle.thread) }.load(Ordering::SeqCst) != 0;
        if within {
            found = true;
            if ask {
                finish::request_stop(*handle);
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

/// In a forked child: whoever was emptying the cache is gone.
pub fn forget_others() {
    FLUSHING.store(0, Ordering::SeqCst);
}
