//! A tool that blocks the process's end is named: the program would not have hung.
//!
//! A thread in the tool's code is taken for blocked when it waits for a lock (or whatever else
//! a futex stands for) while the whole process uses no processor time, for ten seconds: then
//! nobody is there any more who could wake it.
//!
//! One that runs and does not come to an end may have much to do. It is named ten seconds after a signal
//! that is to end the program, which no thread takes any more, and before the others go without it: what
//! it has seen would be missing, and nobody would know.

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
use unspool_engine::client::Ending;
use unspool_engine::signals::overtime::{PATIENCE_S, is_ending};
use unspool_engine::signals::{self, STOP, bit};

const INTERVAL: Duration = Duration::from_millis(500);
/// Intervals without any progress.
const PATIENCE: u32 = 20;
/// Intervals that a signal which is to end the program waits, as [`PATIENCE_S`] has it.
const SIGNAL_PATIENCE: u32 = PATIENCE_S as u32 * 2;
/// Intervals that a thread may run in the tool's code while another one ends the process. The engine
/// waits for it a little longer.
const MUCH_PATIENCE: u32 = 120;
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
pub(crate) fn watch_end(ending: Ending) -> Option<Watch> {
    let is_asked = matches!(ending, Ending::Death(Some(signal)) if is_ending(signal));
    watch(move |end, ender| look(end, ender, is_asked))
}

/// Watches the start of a thread, for which the calling thread waits. Neither takes signals meanwhile.
pub(crate) fn watch_start() -> Option<Watch> {
    watch(look_at_start)
}

fn watch(look: impl FnOnce(&End, Tid) + Send + 'static) -> Option<Watch> {
    let end = Arc::new(End::default());
    let watch = Watch(Arc::clone(&end));
    let watched = Tid::own();
    // Where there can be no further thread, nobody watches.
    world::spawn("unspool-watch", move || look(&end, watched)).ok()?;
    // It must be possible to ask this thread what it does.
    signals::set_exact_mask(!signals::SYNCHRONOUS & !bit(STOP));
    Some(watch)
}

/// `is_asked`: a signal that is to end the program does so.
fn look(end: &End, ender: Tid, is_asked: bool) {
    const BLOCKED: &str = ", and nobody is left who could wake it";
    let mut idle = 0;
    let mut before = processor_time();
    // Intervals in which a thread was in the tool's code, and of these those in which a signal waited.
    let (mut busy, mut signalled) = (0, 0);
    loop {
        if end.wait() {
            return;
        }
        let now = processor_time();
        let (others, all) = in_tool(ender);
        let blocked = all.into_iter().find(|&tid| waits(tid));
        let still = now.saturating_sub(before) < NO_TIME;
        before = now;
        idle = if still { idle + 1 } else { 0 };
        if let (Some(tid), true) = (blocked, idle >= PATIENCE) {
            blame(tid, "waits", BLOCKED);
        }
        let runs = match others.as_deref() {
            Some([first, ..]) => *first,
            Some([]) => {
                (busy, signalled) = (0, 0);
                continue;
            }
            None => continue,
        };
        busy += 1;
        let is_asked = is_asked || ending_signal_waits();
        signalled = if is_asked { signalled + 1 } else { 0 };
        if signalled >= SIGNAL_PATIENCE {
            blame(runs, "runs", &after_signal());
        }
        if busy >= MUCH_PATIENCE {
            let seconds = u64::from(busy) * INTERVAL.as_millis() as u64 / 1000;
            let text = format!(", {seconds} seconds after another one has ended the program");
            blame(runs, "runs", &text);
        }
    }
}

/// A thread that the tool keeps from its start is right to take its time, until the program is to end.
fn look_at_start(end: &End, creator: Tid) {
    let mut signalled = 0;
    while !end.wait() {
        signalled = if ending_signal_waits() {
            signalled + 1
        } else {
            0
        };
        let (others, _) = in_tool(creator);
        // The newest one is listed last.
        let newest = others.as_ref().and_then(|others| others.last());
        if let (Some(&starts), true) = (newest, signalled >= SIGNAL_PATIENCE) {
            blame(starts, "that starts is", &after_signal());
        }
    }
}

fn after_signal() -> String {
    format!(", {PATIENCE_S} seconds after a signal that is to end the program")
}

/// Whether the process has a signal that is to end it and that none of its threads takes. The calling
/// thread blocks it, too.
fn ending_signal_waits() -> bool {
    let mut pending = 0_u64;
    // SAFETY: the kernel writes one word.
    unsafe { libc::syscall(libc::SYS_rt_sigpending, &raw mut pending, 8_usize) };
    (1..=64).any(|signal| pending & bit(signal) != 0 && is_ending(signal))
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

/// The program's threads that are in the tool's code, without the one that ends the process, unless
/// somebody else is looking at the list; and all that are: those for which others wait first, then the one
/// that ends the process.
fn in_tool(ender: Tid) -> (Option<Vec<Tid>>, Vec<Tid>) {
    let threads = process()
        .and_then(|process| process.threads.try_lock())
        .map(|threads| {
            let within = threads.iter().filter(|handle| {
                // SAFETY: the thread lives while it is listed, and the list is locked.
                handle.tid != ender
                    && unspool_engine::threads::may_be_in_tool(unsafe { &*handle.thread })
            });
            within.map(|handle| handle.tid).collect::<Vec<_>>()
        });
    let consuming = buffers::consumers().filter_map(Consumer::consuming_thread);
    let all = consuming
        .chain([ender])
        .chain(threads.iter().flatten().copied());
    let all = all.collect();
    (threads, all)
}

/// Whether a thread waits for a futex.
pub(crate) fn waits(tid: Tid) -> bool {
    let current = std::fs::read_to_string(format!("/proc/self/task/{tid}/syscall"));
    let number = libc::SYS_futex.to_string();
    current.is_ok_and(|text| text.split(' ').next() == Some(&number))
}

/// Ends the process, with a message that says where in the tool the thread is, what it does there, and why
/// that is wrong.
fn blame(tid: Tid, does: &str, why: &str) -> ! {
    const ANSWER: Duration = Duration::from_millis(100);
    unspool_engine::requests::ask_place(tid);
    for _ in 0..20 {
        std::thread::sleep(ANSWER);
        if let Some(found) = FOUND.lock().take() {
            say(
                does,
                &unspool_engine::own_failures::place_in_tool(&found),
                why,
            );
        }
    }
    say(does, "", why);
}

fn say(does: &str, place: &str, why: &str) -> ! {
    unspool_kernel::diagnostics::say(&format!(
        "error: the tool failed: it blocks the end of the program: a thread {does}{place}{why}\n{}",
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
