//! A thread and its slot: what the handler of its timer's signal finds by the number of the slot.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use unspool_sample_slots::{SLOTS, header};

use crate::clock;
use crate::record::{self, Who};
use crate::slot::{self, Slot};
use crate::stack::Bounds;
use crate::{own_signal, timer};

/// No timer; timers are kept as one more than their numbers.
const NONE: c_int = 0;

/// What the handler needs of a thread. It is written before the thread's timer starts.
pub(crate) struct Thread {
    timer: AtomicI32,
    tid: AtomicU32,
    start: AtomicPtr<u8>,
    low: AtomicU64,
    high: AtomicU64,
}

static THREADS: [Thread; SLOTS] = [const { Thread::none() }; SLOTS];

/// No slot of this process has a number as high as this.
static USED: AtomicUsize = AtomicUsize::new(0);
static PID: AtomicU32 = AtomicU32::new(0);
static GENERATION: AtomicU64 = AtomicU64::new(0);
/// Under which each thread keeps one more than the number of its slot, so that the C library says
/// when the thread ends.
static KEY: AtomicU32 = AtomicU32::new(0);

/// How a process or thread came to be.
pub(crate) enum Origin {
    /// The process executes a program.
    Execution,
    /// It was copied.
    Fork(Who),
    /// It is one more thread.
    Creation,
}

fn tid() -> u32 {
    // SAFETY: returns a number.
    unsafe { libc::gettid() as u32 }
}

impl Thread {
    const fn none() -> Thread {
        Thread {
            timer: AtomicI32::new(NONE),
            tid: AtomicU32::new(0),
            start: AtomicPtr::new(null_mut()),
            low: AtomicU64::new(0),
            high: AtomicU64::new(0),
        }
    }

    /// The calling thread, which is the one whose timer expired.
    pub(crate) fn of_signal(slot: usize, timer: c_int) -> Option<&'static Thread> {
        let thread = THREADS.get(slot)?;
        (thread.timer.load(Ordering::Acquire) == timer + 1).then_some(thread)
    }

    pub(crate) fn who(&self) -> Who {
        Who {
            pid: PID.load(Ordering::Relaxed),
            tid: self.tid.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn slot(&self, number: usize) -> Slot {
        Slot::at(number, self.start.load(Ordering::Relaxed))
    }

    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            low: self.low.load(Ordering::Relaxed),
            high: self.high.load(Ordering::Relaxed),
        }
    }
}

/// Has the C library tell of threads that end.
pub(crate) fn watch_ends() -> bool {
    let mut key = 0;
    // SAFETY: the function takes what is kept under the key.
    let made = unsafe { libc::pthread_key_create(&raw mut key, Some(ends)) } == 0;
    KEY.store(key, Ordering::Relaxed);
    made
}

/// The process is a new one, or executes a new program.
pub(crate) fn note_process() {
    PID.store(std::process::id(), Ordering::Relaxed);
    GENERATION.store(clock::now_ns(), Ordering::Relaxed);
}

/// The calling thread is sampled from now on.
pub(crate) fn begin(bounds: Bounds, origin: Origin) {
    let pid = PID.load(Ordering::Relaxed);
    let who = Who { pid, tid: tid() };
    keep_number(None);
    let Some(slot) = Slot::take(pid, who.tid, GENERATION.load(Ordering::Relaxed)) else {
        return;
    };
    match origin {
        Origin::Execution => {
            record::name(slot, who, true);
            record::maps(slot, who);
        }
        Origin::Fork(parent) => {
            record::copied(slot, who, parent);
            record::name(slot, who, false);
        }
        Origin::Creation => {}
    }
    USED.fetch_max(slot.number() + 1, Ordering::Relaxed);
    let thread = &THREADS[slot.number()];
    thread.tid.store(who.tid, Ordering::Relaxed);
    thread.start.store(slot.start(), Ordering::Relaxed);
    thread.low.store(bounds.low, Ordering::Relaxed);
    thread.high.store(bounds.high, Ordering::Relaxed);
    // Its first signal must find it.
    own_signal::block();
    match timer::start(who.tid, slot.number()) {
        Some(timer) => {
            thread.timer.store(timer + 1, Ordering::Release);
            keep_number(Some(slot.number()));
        }
        None => {
            slot::count(header::WITHOUT_TIMER);
            slot.end(pid);
        }
    }
    own_signal::unblock();
}

/// Keeps the number of the calling thread's slot.
fn keep_number(number: Option<usize>) {
    let kept = number.map_or(0, |number| number + 1);
    let kept = std::ptr::without_provenance::<c_void>(kept);
    // SAFETY: the key was created.
    unsafe { libc::pthread_setspecific(KEY.load(Ordering::Relaxed), kept) };
}

/// The number of the calling thread's slot.
fn own_number() -> Option<usize> {
    // SAFETY: the key was created.
    let kept = unsafe { libc::pthread_getspecific(KEY.load(Ordering::Relaxed)) };
    kept.addr().checked_sub(1)
}

/// The calling thread is the only one of a process that was just copied: none of those that were
/// sampled there has a timer here.
pub(crate) fn begin_in_child() {
    let pid = PID.load(Ordering::Relaxed);
    let (bounds, parent) = match own_number().map(|number| &THREADS[number]) {
        Some(thread) => (thread.bounds(), thread.who()),
        None => (Bounds::default(), Who { pid, tid: pid }),
    };
    for thread in &THREADS[..USED.load(Ordering::Relaxed)] {
        thread.timer.store(NONE, Ordering::Relaxed);
    }
    note_process();
    begin(bounds, Origin::Fork(parent));
}

/// A thread that is sampled ends.
extern "C" fn ends(number: *mut c_void) {
    let Some(number) = number.addr().checked_sub(1) else {
        return;
    };
    own_signal::block();
    let thread = &THREADS[number];
    let (slot, who) = (thread.slot(number), thread.who());
    timer::stop(thread.timer.load(Ordering::Relaxed) - 1);
    thread.timer.store(NONE, Ordering::Release);
    record::name(slot, who, false);
    slot.note_time();
    slot.end(who.pid);
    own_signal::unblock();
}

/// The process ends; the calling thread is still sampled until it has.
pub(crate) fn note_end() {
    if let Some(number) = own_number() {
        let thread = &THREADS[number];
        let slot = thread.slot(number);
        own_signal::block();
        record::name(slot, thread.who(), false);
        slot.note_time();
        own_signal::unblock();
    }
}
