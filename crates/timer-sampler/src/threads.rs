//! Functions that start threads.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{pthread_attr_t, pthread_t};
use unspool_sample_slots::header;

use crate::real::real;
use crate::slot;
use crate::stack::{self, Bounds};
use crate::thread::{self, Origin};

type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;
type C11Start = unsafe extern "C-unwind" fn(*mut c_void) -> c_int;

/// Threads that may be starting at one time: from their creation until they run.
const STARTING: usize = 1024;

/// What a new thread is to do.
#[derive(Clone, Copy)]
struct Task<F> {
    start: F,
    argument: *mut c_void,
    stack_bytes: u64,
}

/// Room for tasks, which the thread that creates another leaves to it.
struct Tasks<F> {
    taken: [AtomicBool; STARTING],
    tasks: UnsafeCell<[MaybeUninit<Task<F>>; STARTING]>,
}

// SAFETY: a place is one thread's at a time: the creating one's, then the new one's.
unsafe impl<F> Sync for Tasks<F> {}

impl<F: Copy> Tasks<F> {
    const fn new() -> Tasks<F> {
        Tasks {
            taken: [const { AtomicBool::new(false) }; STARTING],
            tasks: UnsafeCell::new([const { MaybeUninit::uninit() }; STARTING]),
        }
    }

    fn place(&self, number: usize) -> *mut MaybeUninit<Task<F>> {
        self.tasks
            .get()
            .cast::<MaybeUninit<Task<F>>>()
            .wrapping_add(number)
    }

    fn keep(&self, task: Task<F>) -> Option<usize> {
        let taken = |taken: &AtomicBool| !taken.swap(true, Ordering::Acquire);
        let number = self.taken.iter().position(taken)?;
        // SAFETY: the place is this thread's.
        unsafe { (*self.place(number)).write(task) };
        Some(number)
    }

    /// Gives a task out, and its place back.
    fn take(&self, number: usize) -> Task<F> {
        // SAFETY: the place is this thread's, and was filled.
        let task = unsafe { (*self.place(number)).assume_init() };
        self.taken[number].store(false, Ordering::Release);
        task
    }
}

static TASKS: Tasks<Start> = Tasks::new();
static C11_TASKS: Tasks<C11Start> = Tasks::new();

fn as_argument(number: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(number)
}

fn begin(stack_bytes: u64) {
    thread::begin(Bounds::of_this_thread(stack_bytes), Origin::Creation);
}

unsafe extern "C-unwind" fn started(number: *mut c_void) -> *mut c_void {
    let task = TASKS.take(number.addr());
    begin(task.stack_bytes);
    // SAFETY: what the program wants called.
    unsafe { (task.start)(task.argument) }
}

unsafe extern "C-unwind" fn c11_started(number: *mut c_void) -> c_int {
    let task = C11_TASKS.take(number.addr());
    begin(task.stack_bytes);
    // SAFETY: what the program wants called.
    unsafe { (task.start)(task.argument) }
}

/// # Safety
/// The C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_create(
    thread: *mut pthread_t,
    attributes: *const pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    type Create = unsafe extern "C-unwind" fn(
        *mut pthread_t,
        *const pthread_attr_t,
        Start,
        *mut c_void,
    ) -> c_int;
    let create = real!(pthread_create: Create);
    let kept = match slot::is_open() {
        true => keep(&TASKS, start, argument, attributes),
        false => None,
    };
    // SAFETY: the program's arguments, or a function that does what they say.
    unsafe {
        match kept {
            None => create(thread, attributes, start, argument),
            Some(number) => match create(thread, attributes, started, as_argument(number)) {
                0 => 0,
                error => {
                    TASKS.take(number);
                    error
                }
            },
        }
    }
}

/// # Safety
/// The C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn thrd_create(
    thread: *mut pthread_t,
    start: C11Start,
    argument: *mut c_void,
) -> c_int {
    type Create = unsafe extern "C-unwind" fn(*mut pthread_t, C11Start, *mut c_void) -> c_int;
    let create = real!(thrd_create: Create);
    let kept = match slot::is_open() {
        true => keep(&C11_TASKS, start, argument, std::ptr::null()),
        false => None,
    };
    // SAFETY: the program's arguments, or a function that does what they say.
    unsafe {
        match kept {
            None => create(thread, start, argument),
            Some(number) => match create(thread, c11_started, as_argument(number)) {
                0 => 0,
                error => {
                    C11_TASKS.take(number);
                    error
                }
            },
        }
    }
}

/// Keeps a task for the new thread; without room that is counted, and the thread not sampled.
fn keep<F: Copy>(
    tasks: &Tasks<F>,
    start: F,
    argument: *mut c_void,
    attributes: *const pthread_attr_t,
) -> Option<usize> {
    let kept = tasks.keep(Task {
        start,
        argument,
        stack_bytes: stack::size(attributes),
    });
    if kept.is_none() {
        slot::count(header::WITHOUT_SLOT);
    }
    kept
}
