//! Beginnings and ends of threads.
//!
//! Runtimes end threads and start others: GNU's does so for every nested region. What one
//! thread leaves is taken over by the next that starts, so that the file does not grow with
//! the number of threads that there ever were.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use unspool_openmp_record::ConstructKind;
use unspool_openmp_record::layout::process_block;
use unspool_preload::clock;

use super::processor::LastReading;
use super::{Constructs, Thread, arena, current as pointer, thread_slots};
use crate::process;

/// What threads left that have ended.
#[derive(Debug)]
pub(crate) struct Spare(Vec<*mut Thread>);

// SAFETY: whoever takes one out is the only one who has it.
unsafe impl Send for Spare {}

static SPARE: Mutex<Spare> = Mutex::new(Spare(Vec::new()));

/// Whether the process's first thread has been seen.
static FIRST_SEEN: AtomicBool = AtomicBool::new(false);

/// The key whose destructor tells that a thread ends; none as long as it is not made.
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);
const NO_KEY: u32 = u32::MAX;

/// Makes the C library tell when threads end.
pub(crate) fn watch_ends() {
    let mut key = 0;
    // SAFETY: the key is of this frame, and the destructor takes what is set for it.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(end)) } == 0 {
        KEY.store(key, Ordering::Relaxed);
    }
}

/// What threads left that have ended, for whoever must know that nobody uses it.
pub(crate) fn spare() -> MutexGuard<'static, Spare> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The calling thread, if anything is to be collected.
#[inline]
pub(crate) fn current() -> Option<&'static mut Thread> {
    // SAFETY: only the thread itself has this pointer, and what it points to is never freed.
    // Callers let go of it before they call the runtime, which may call us again.
    match unsafe { pointer::get().as_mut() } {
        Some(thread) => Some(thread),
        None => start(),
    }
}

#[cold]
fn start() -> Option<&'static mut Thread> {
    if !process::is_collecting() {
        return None;
    }
    let process = process::block()?;
    let left = spare().0.pop();
    let thread = match left {
        Some(left) => left,
        None => Box::into_raw(Box::new(Thread::new()?)),
    };
    set(thread);
    // SAFETY: it is this thread's now, and is never freed.
    let thread = unsafe { &mut *thread };
    // SAFETY: these only return numbers.
    let is_first = unsafe { libc::gettid() == libc::getpid() };
    let is_first = is_first && !FIRST_SEEN.swap(true, Ordering::Relaxed);
    match is_first {
        true => thread.start_first_processor_time(),
        false => thread.start_processor_time(),
    }
    if is_first {
        thread.slot = thread_slots::take(0);
        thread.enter(
            ConstructKind::Serial,
            0,
            0,
            process.get(process_block::START_TICKS),
        );
    }
    Some(thread)
}

/// Sets what the calling thread uses, and will leave when it ends.
fn set(thread: *mut Thread) {
    pointer::set(thread);
    let key = KEY.load(Ordering::Relaxed);
    if key != NO_KEY {
        // SAFETY: the key was made. Where there is no memory for it, the end is not seen.
        unsafe { libc::pthread_setspecific(key, thread.cast()) };
    }
}

/// A thread ends.
unsafe extern "C" fn end(left: *mut c_void) {
    pointer::set(std::ptr::null_mut());
    let left: *mut Thread = left.cast();
    // SAFETY: the thread that used it ends here.
    unsafe { &mut *left }.end(clock::now());
    spare().0.push(left);
}

/// The process ends in this thread.
pub(crate) fn note_end(now: u64) {
    // SAFETY: only the thread itself has this pointer, and what it points to is never freed.
    if let Some(thread) = unsafe { pointer::get().as_mut() } {
        thread.end_processor_time(now);
    }
}

/// Forgets all threads, in a child: what they left belongs to its parent's file.
pub(crate) fn forget(spare: &mut Spare) {
    spare.0.clear();
    FIRST_SEEN.store(false, Ordering::Relaxed);
    set(std::ptr::null_mut());
}

impl Thread {
    fn new() -> Option<Thread> {
        let (number, block) = arena::new_thread_block()?;
        Some(Thread {
            block,
            number,
            constructs: Constructs::new(),
            frames: Vec::with_capacity(64),
            skipped: 0,
            spans: None,
            wants_spans: process::wants_spans(),
            team: std::ptr::null(),
            index: 0,
            started: Vec::new(),
            spare_teams: Vec::new(),
            slot: 0,
            since: 0,
            waited: 0,
            is_last: false,
            pending: None,
            asked_for_size_at: 0,
            asking: (0, std::ptr::null_mut()),
            called_from: 0,
            allocations: 0,
            allocation: None,
            clocks_read: 0,
            reading: LastReading::default(),
            without_processor: 0,
            tasks: 0,
        })
    }

    /// Leaves everything, and is ready for another thread. A worker's slot was its team's;
    /// that of a thread that worked by itself is free again.
    fn end(&mut self, now: u64) {
        self.end_processor_time(now);
        let is_worker = self.frames.is_empty();
        self.leave_to(0, now);
        if !is_worker {
            thread_slots::give_back(self.slot);
        }
        self.team = std::ptr::null();
        self.slot = 0;
        self.is_last = false;
        self.pending = None;
        self.without_processor = 0;
        self.asked_for_size_at = 0;
        self.called_from = 0;
    }
}
