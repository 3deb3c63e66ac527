//! A tool that blocks the process's end is named: the program would not have hung.
//!
//! A thread in the tool's code is taken for blocked when it waits for a lock (or whatever else
//! a futex stands for) while the whole process uses no processor time, for ten seconds: then
//! nobody is there any more who could wake it.

use std::backtrace::Backtrace;
use std::sync::Arc;
use std::time::{Duration, Instant};

use unspool_kernel::diagnostics::ENGINE_FAILURE;
use unspool_kernel::ids::Tid;
use unspool_kernel::lock::{Condvar, Mutex};

use super::buffers;
use super::consumer::Consumer;
use super::process::process;
use super::world;
use unspool_engine::signals::{self, STOP, bit};

const INTERVAL: Duration = Duration::from_millis(500);
/// Intervals without any progress.
const PATIENCE: u32 = 20;
/// Processor time in an interval that is none: that of looking.
const NO_TIME: Duration = Duration::from_millis(20);

/// What a blocked thread was doing.
static FOUND: Mutex<Option<Backtrace>> = Mutex::new(None);

/// Watches as long as it lives.
pub(crate) struct Watch(Arc<End>);

impl Drop for Watch {
    fn drop(&mut self) {
        *self.0.is_over.lock() = true;
        self.0.changed.notify_all();
    }
}

/// Whether the end that is watched is over. The watching thread hears of it at once: a process
/// that is let go waits for the thread.
#[derive(Default)]
struct End {
    is_over: Mutex<bool>,
    changed: Condvar,
}

impl End {
    /// Waits for an interval, or for the end. Returns whether it is over.
    fn wait(&self) -> bool {
        let deadline = Instant::now() + INTERVAL;
        let mut is_over = self.is_over.lock();
        while !*is_over {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            is_over = self.changed.wait_timeout(is_over, left);
        }
        *is_over
    }
}

/// Watches the end of the process, which the calling thread brings about.
pub(crate) fn watch_end() -> Option<Watch> {
    let end = Arc::new(End::default());
    let watch = Watch(Arc::clone(&end));
    let ender = Tid::own();
    // Where there can be no further thread, nobody watches.
    world::spawn("unspool-watch", move || look(&end, ender)).ok()?;
    // It must be possible to ask this thread what it does.
    signals::set_exact_mask(!signals::SYNCHRONOUS & !bit(STOP));
    Some(watch)
}

fn look(end: &End, ender: Tid) {
    let mut idle = 0;
    let mut before = processor_time();
    loop {
        if end.wait() {
            return;
        }
        let now = processor_time();
        let blocked = in_tool(ender).into_iter().find(|&tid| waits(tid));
        let still = now.saturating_sub(before) < NO_TIME;
        before = now;
        idle = if still { idle + 1 } else { 0 };
        if let (Some(tid), true) = (blocked, idle >= PATIENCE) {
            blame(tid);
        }
    }
}

fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The threads that are in the tool's code: those for which others wait first, then the one that ends
/// the process.
fn in_tool(ender: Tid) -> Vec<Tid> {
    let threads = process()
        .and_then(|process| process.threads.try_lock())
        .map(|threads| {
            let within = threads.iter().filter(|handle| {
                // SAFETY: the thread lives while it is listed, and the list is locked.
                handle.tid != ender
                    && unspool_engine::threads::may_be_in_tool(unsafe { &*handle.thread })
            });
            within.map(|handle| handle.tid).collect::<Vec<_>>()
        })
        .unwrap_or_default();
    let consuming = buffers::consumers().filter_map(Consumer::consuming_thread);
    consuming.chain([ender]).chain(threads).collect()
}

/// Whether a thread waits for a futex.
pub(crate) fn waits(tid: Tid) -> bool {
    let current = std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall"));
    let number = libc::SYS_futex.to_string();
    current.is_ok_and(|text| text.split(' ').next() == Some(&number))
}

/// Ends the process, with a message that says where in the tool the thread is.
fn blame(tid: Tid) -> ! {
    const ANSWER: Duration = Duration::from_millis(100);
    unspool_engine::requests::ask_place(tid);
    for _ in 0..20 {
        std::thread::sleep(ANSWER);
        if let Some(found) = FOUND.lock().take() {
            say(&unspool_engine::own_failures::place_in_tool(&found));
        }
    }
    say("");
}

fn say(place: &str) -> ! {
    unspool_kernel::diagnostics::say(&format!(
        "error: the tool failed: it blocks the end of the program: a thread waits{place}, and nobody is left who could wake it\n{}",
        unspool_engine::own_failures::TOOL_HELP
    ));
    // SAFETY: ends the process.
    unsafe { libc::_exit(ENGINE_FAILURE) }
}

/// In the handler of a signal, in the thread that is asked: keeps what it is doing.
pub(crate) fn tell_place() {
    if let Some(mut found) = FOUND.try_lock() {
        *found = Some(Backtrace::force_capture());
    }
}
