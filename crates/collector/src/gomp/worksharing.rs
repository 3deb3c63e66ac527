//! Loops, sections and single constructs.

use unspool_openmp_record::ConstructKind;
use unspool_openmp_record::layout::schedule;
use unspool_preload::clock;

use super::watched;
use crate::caller::return_address;
use crate::loop_schedule::{self, AT_RUN_TIME, of_gomp};
use crate::runtime_function::{RuntimeFunction, call_real};
use crate::thread::Thread;

/// What is not counted in iterations, or nests several loops.
const UNKNOWN: u64 = 0;

/// How many iterations a loop has from a start to before an end, whichever way it goes.
#[inline]
pub(super) fn iterations(start: usize, end: usize, step: usize) -> u64 {
    let is_down = (step as isize) < 0;
    let (distance, step) = match is_down {
        true => (start.wrapping_sub(end), step.wrapping_neg()),
        false => (end.wrapping_sub(start), step),
    };
    match step {
        // Of signed and of unsigned numbers, no more than half can be iterated over.
        _ if distance as isize <= 0 => 0,
        0 | 1 => distance as u64,
        step => distance.div_ceil(step) as u64,
    }
}

/// What the runtime is told of a loop or of sections when a thread starts them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    kind: ConstructKind,
    /// How many there are for all threads, or 0.
    iterations: u64,
    /// One of [`schedule`], or [`AT_RUN_TIME`].
    schedule: u64,
}

impl Start {
    pub(super) fn of_loop(schedule: u64, iterations: u64) -> Start {
        Start {
            kind: ConstructKind::Loop,
            iterations,
            schedule,
        }
    }

    pub(super) fn of_sections() -> Start {
        Start {
            kind: ConstructKind::Sections,
            iterations: UNKNOWN,
            schedule: schedule::UNKNOWN,
        }
    }

    /// The thread enters the construct, as code at an address asks the runtime to.
    pub(super) fn enter(self, thread: &mut Thread, address: u64, now: u64) {
        thread.enter(self.kind, address, 0, now);
        if self.kind == ConstructKind::Loop {
            let schedule = loop_schedule::resolved(self.schedule, address);
            thread.describe_loop(self.iterations, schedule);
        }
    }
}

/// Functions that start a construct, in which the thread works from then on.
macro_rules! starts {
    ($($name:ident $text:literal ($($argument:ident),*) $start:expr;)*) => {$(
        // SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: usize),*) -> usize {
            static REAL: RuntimeFunction = RuntimeFunction::new($text);
            let address = return_address!();
            let real = REAL.of(address);
            if let Some(thread) = watched(real) {
                let start: Start = $start;
                let now = clock::now();
                thread.end_open_work(now);
                start.enter(thread, address, now);
            }
            call_real!(real $(, $argument)*)
        }
    )*};
}

starts! {
    GOMP_loop_static_start c"GOMP_loop_static_start"
        (a, b, c, d, e, f) Start::of_loop(schedule::STATIC, iterations(a, b, c));
    GOMP_loop_dynamic_start c"GOMP_loop_dynamic_start"
        (a, b, c, d, e, f) Start::of_loop(schedule::DYNAMIC, iterations(a, b, c));
    GOMP_loop_guided_start c"GOMP_loop_guided_start"
        (a, b, c, d, e, f) Start::of_loop(schedule::GUIDED, iterations(a, b, c));
    GOMP_loop_runtime_start c"GOMP_loop_runtime_start"
        (a, b, c, d, e) Start::of_loop(AT_RUN_TIME, iterations(a, b, c));
    GOMP_loop_nonmonotonic_dynamic_start c"GOMP_loop_nonmonotonic_dynamic_start"
        (a, b, c, d, e, f) Start::of_loop(schedule::DYNAMIC, iterations(a, b, c));
    GOMP_loop_nonmonotonic_guided_start c"GOMP_loop_nonmonotonic_guided_start"
        (a, b, c, d, e, f) Start::of_loop(schedule::GUIDED, iterations(a, b, c));
    GOMP_loop_nonmonotonic_runtime_start c"GOMP_loop_nonmonotonic_runtime_start"
        (a, b, c, d, e) Start::of_loop(AT_RUN_TIME, iterations(a, b, c));
    GOMP_loop_maybe_nonmonotonic_runtime_start c"GOMP_loop_maybe_nonmonotonic_runtime_start"
        (a, b, c, d, e) Start::of_loop(AT_RUN_TIME, iterations(a, b, c));
    GOMP_loop_ordered_static_start c"GOMP_loop_ordered_static_start"
        (a, b, c, d, e, f) Start::of_loop(schedule::STATIC, iterations(a, b, c));
    GOMP_loop_ordered_dynamic_start c"GOMP_loop_ordered_dynamic_start"
        (a, b, c, d, e, f) Start::of_loop(schedule::DYNAMIC, iterations(a, b, c));
    GOMP_loop_ordered_guided_start c"GOMP_loop_ordered_guided_start"
        (a, b, c, d, e, f) Start::of_loop(schedule::GUIDED, iterations(a, b, c));
    GOMP_loop_ordered_runtime_start c"GOMP_loop_ordered_runtime_start"
        (a, b, c, d, e) Start::of_loop(AT_RUN_TIME, iterations(a, b, c));
    GOMP_loop_start c"GOMP_loop_start"
        (a, b, c, d, e, f, g, h, i) Start::of_loop(of_gomp(d), iterations(a, b, c));
    GOMP_loop_ordered_start c"GOMP_loop_ordered_start"
        (a, b, c, d, e, f, g, h, i) Start::of_loop(of_gomp(d), iterations(a, b, c));
    GOMP_loop_doacross_static_start c"GOMP_loop_doacross_static_start"
        (a, b, c, d, e) Start::of_loop(schedule::STATIC, UNKNOWN);
    GOMP_loop_doacross_dynamic_start c"GOMP_loop_doacross_dynamic_start"
        (a, b, c, d, e) Start::of_loop(schedule::DYNAMIC, UNKNOWN);
    GOMP_loop_doacross_guided_start c"GOMP_loop_doacross_guided_start"
        (a, b, c, d, e) Start::of_loop(schedule::GUIDED, UNKNOWN);
    GOMP_loop_doacross_runtime_start c"GOMP_loop_doacross_runtime_start"
        (a, b, c, d) Start::of_loop(AT_RUN_TIME, UNKNOWN);
    GOMP_loop_doacross_start c"GOMP_loop_doacross_start"
        (a, b, c, d, e, f, g, h) Start::of_loop(of_gomp(c), UNKNOWN);
    GOMP_loop_ull_static_start c"GOMP_loop_ull_static_start"
        (a, b, c, d, e, f, g) Start::of_loop(schedule::STATIC, iterations(b, c, d));
    GOMP_loop_ull_dynamic_start c"GOMP_loop_ull_dynamic_start"
        (a, b, c, d, e, f, g) Start::of_loop(schedule::DYNAMIC, iterations(b, c, d));
    GOMP_loop_ull_guided_start c"GOMP_loop_ull_guided_start"
        (a, b, c, d, e, f, g) Start::of_loop(schedule::GUIDED, iterations(b, c, d));
    GOMP_loop_ull_runtime_start c"GOMP_loop_ull_runtime_start"
        (a, b, c, d, e, f) Start::of_loop(AT_RUN_TIME, iterations(b, c, d));
    GOMP_loop_ull_nonmonotonic_dynamic_start c"GOMP_loop_ull_nonmonotonic_dynamic_start"
        (a, b, c, d, e, f, g) Start::of_loop(schedule::DYNAMIC, iterations(b, c, d));
    GOMP_loop_ull_nonmonotonic_guided_start c"GOMP_loop_ull_nonmonotonic_guided_start"
        (a, b, c, d, e, f, g) Start::of_loop(schedule::GUIDED, iterations(b, c, d));
    GOMP_loop_ull_nonmonotonic_runtime_start c"GOMP_loop_ull_nonmonotonic_runtime_start"
        (a, b, c, d, e, f) Start::of_loop(AT_RUN_TIME, iterations(b, c, d));
    GOMP_loop_ull_maybe_nonmonotonic_runtime_start c"GOMP_loop_ull_maybe_nonmonotonic_runtime_start"
        (a, b, c, d, e, f) Start::of_loop(AT_RUN_TIME, iterations(b, c, d));
    GOMP_loop_ull_ordered_static_start c"GOMP_loop_ull_ordered_static_start"
        (a, b, c, d, e, f, g) Start::of_loop(schedule::STATIC, iterations(b, c, d));
    GOMP_loop_ull_ordered_dynamic_start c"GOMP_loop_ull_ordered_dynamic_start"
        (a, b, c, d, e, f, g) Start::of_loop(schedule::DYNAMIC, iterations(b, c, d));
    GOMP_loop_ull_ordered_guided_start c"GOMP_loop_ull_ordered_guided_start"
        (a, b, c, d, e, f, g) Start::of_loop(schedule::GUIDED, iterations(b, c, d));
    GOMP_loop_ull_ordered_runtime_start c"GOMP_loop_ull_ordered_runtime_start"
        (a, b, c, d, e, f) Start::of_loop(AT_RUN_TIME, iterations(b, c, d));
    GOMP_loop_ull_start c"GOMP_loop_ull_start"
        (a, b, c, d, e, f, g, h, i, j) Start::of_loop(of_gomp(e), iterations(b, c, d));
    GOMP_loop_ull_ordered_start c"GOMP_loop_ull_ordered_start"
        (a, b, c, d, e, f, g, h, i, j) Start::of_loop(of_gomp(e), iterations(b, c, d));
    GOMP_loop_ull_doacross_static_start c"GOMP_loop_ull_doacross_static_start"
        (a, b, c, d, e) Start::of_loop(schedule::STATIC, UNKNOWN);
    GOMP_loop_ull_doacross_dynamic_start c"GOMP_loop_ull_doacross_dynamic_start"
        (a, b, c, d, e) Start::of_loop(schedule::DYNAMIC, UNKNOWN);
    GOMP_loop_ull_doacross_guided_start c"GOMP_loop_ull_doacross_guided_start"
        (a, b, c, d, e) Start::of_loop(schedule::GUIDED, UNKNOWN);
    GOMP_loop_ull_doacross_runtime_start c"GOMP_loop_ull_doacross_runtime_start"
        (a, b, c, d) Start::of_loop(AT_RUN_TIME, UNKNOWN);
    GOMP_loop_ull_doacross_start c"GOMP_loop_ull_doacross_start"
        (a, b, c, d, e, f, g, h) Start::of_loop(of_gomp(c), UNKNOWN);
    GOMP_sections_start c"GOMP_sections_start"
        (a) Start::of_sections();
    GOMP_sections2_start c"GOMP_sections2_start"
        (a, b, c) Start::of_sections();
}

/// Functions that fetch the next part of a construct. Those of ordered loops are not interposed: they
/// wait for other threads, too.
macro_rules! fetches {
    ($($name:ident $text:literal ($($argument:ident),*);)*) => {$(
        // SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($argument: usize),*) -> usize {
            static REAL: RuntimeFunction = RuntimeFunction::new($text);
            let real = REAL.of(return_address!());
            let Some(thread) = watched(real) else {
                return call_real!(real $(, $argument)*);
            };
            let call = thread.fetch();
            let result = call_real!(real $(, $argument)*);
            // A bool, or the number of a section, which leave the rest of the register undefined.
            thread.return_from_runtime(&call, fetches!(@is_some result, $($argument),*));
            result
        }
    )*};
    (@is_some $result:ident, ) => { $result as u32 != 0 };
    (@is_some $result:ident, $($argument:ident),*) => { $result as u8 != 0 };
}

fetches! {
    GOMP_loop_static_next c"GOMP_loop_static_next" (a, b);
    GOMP_loop_dynamic_next c"GOMP_loop_dynamic_next" (a, b);
    GOMP_loop_guided_next c"GOMP_loop_guided_next" (a, b);
    GOMP_loop_runtime_next c"GOMP_loop_runtime_next" (a, b);
    GOMP_loop_nonmonotonic_dynamic_next c"GOMP_loop_nonmonotonic_dynamic_next" (a, b);
    GOMP_loop_nonmonotonic_guided_next c"GOMP_loop_nonmonotonic_guided_next" (a, b);
    GOMP_loop_nonmonotonic_runtime_next c"GOMP_loop_nonmonotonic_runtime_next" (a, b);
    GOMP_loop_maybe_nonmonotonic_runtime_next c"GOMP_loop_maybe_nonmonotonic_runtime_next" (a, b);
    GOMP_loop_ull_static_next c"GOMP_loop_ull_static_next" (a, b);
    GOMP_loop_ull_dynamic_next c"GOMP_loop_ull_dynamic_next" (a, b);
    GOMP_loop_ull_guided_next c"GOMP_loop_ull_guided_next" (a, b);
    GOMP_loop_ull_runtime_next c"GOMP_loop_ull_runtime_next" (a, b);
    GOMP_loop_ull_nonmonotonic_dynamic_next c"GOMP_loop_ull_nonmonotonic_dynamic_next" (a, b);
    GOMP_loop_ull_nonmonotonic_guided_next c"GOMP_loop_ull_nonmonotonic_guided_next" (a, b);
    GOMP_loop_ull_nonmonotonic_runtime_next c"GOMP_loop_ull_nonmonotonic_runtime_next" (a, b);
    GOMP_loop_ull_maybe_nonmonotonic_runtime_next c"GOMP_loop_ull_maybe_nonmonotonic_runtime_next"
        (a, b);
    GOMP_sections_next c"GOMP_sections_next" ();
}

/// Functions that end a construct, with a barrier or without.
macro_rules! ends {
    ($($name:ident $text:literal $kind:expr, $barrier:literal;)*) => {$(
        // SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name() -> usize {
            static REAL: RuntimeFunction = RuntimeFunction::new($text);
            let address = return_address!();
            let real = REAL.of(address);
            let Some(thread) = watched(real) else {
                return call_real!(real);
            };
            let now = clock::now();
            thread.end_open_work(now);
            thread.leave_through($kind, now);
            if $barrier {
                thread.enter(ConstructKind::ImplicitBarrier, address, 0, now);
                thread.arrive_at_barrier(now);
            }
            let result = call_real!(real);
            if let Some(thread) = watched(real) {
                let now = if $barrier { clock::now() } else { now };
                if $barrier {
                    thread.leave_through(ConstructKind::ImplicitBarrier, now);
                }
                thread.resume_open_work(address, now);
            }
            result
        }
    )*};
}

ends! {
    GOMP_loop_end c"GOMP_loop_end" ConstructKind::Loop, true;
    GOMP_loop_end_cancel c"GOMP_loop_end_cancel" ConstructKind::Loop, true;
    GOMP_loop_end_nowait c"GOMP_loop_end_nowait" ConstructKind::Loop, false;
    GOMP_sections_end c"GOMP_sections_end" ConstructKind::Sections, true;
    GOMP_sections_end_cancel c"GOMP_sections_end_cancel" ConstructKind::Sections, true;
    GOMP_sections_end_nowait c"GOMP_sections_end_nowait" ConstructKind::Sections, false;
}

// SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_single_start() -> usize {
    static REAL: RuntimeFunction = RuntimeFunction::new(c"GOMP_single_start");
    let address = return_address!();
    let real = REAL.of(address);
    let result = call_real!(real);
    // It returns a bool, which leaves the rest of the register undefined.
    let executes = result as u8 != 0;
    // For a thread that does not execute the block, what it was at goes on until the barrier,
    // or in what follows; unless that was another such block.
    if let Some(thread) = watched(real)
        && (executes || thread.is_in(ConstructKind::Single))
    {
        let now = clock::now();
        thread.end_open_work(now);
        if executes {
            thread.enter(ConstructKind::Single, address, 0, now);
        }
    }
    result
}

// SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_single_copy_start() -> usize {
    static REAL: RuntimeFunction = RuntimeFunction::new(c"GOMP_single_copy_start");
    let address = return_address!();
    let real = REAL.of(address);
    let before = clock::now();
    let result = call_real!(real);
    if let Some(thread) = watched(real) {
        thread.end_open_work(before);
        let now = clock::now();
        if result == 0 {
            thread.enter(ConstructKind::Single, address, 0, now);
        } else {
            // It has waited for the thread that executes the block.
            thread.enter(ConstructKind::ImplicitBarrier, address, 0, before);
            thread.leave(now);
            thread.resume_open_work(address, now);
        }
    }
    result
}

// SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_single_copy_end(data: usize) -> usize {
    static REAL: RuntimeFunction = RuntimeFunction::new(c"GOMP_single_copy_end");
    let address = return_address!();
    let real = REAL.of(address);
    if let Some(thread) = watched(real) {
        let now = clock::now();
        thread.end_open_work(now);
        thread.enter(ConstructKind::ImplicitBarrier, address, 0, now);
    }
    let result = call_real!(real, data);
    if let Some(thread) = watched(real) {
        let now = clock::now();
        // The others learn only after the barrier that they did not execute the block, so
        // that arrivals cannot be counted: the critical path leads through this thread.
        thread.arrive_last(now);
        thread.leave_through(ConstructKind::ImplicitBarrier, now);
        thread.resume_open_work(address, now);
    }
    result
}
