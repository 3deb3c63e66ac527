//! Parallel regions.
//!
//! Programs of gcc 4.9 and later have one call for a region. Those of earlier ones call a function
//! that starts the region's other threads, then the body, then one that joins.

use std::ffi::c_void;

use unspool_openmp_record::layout::{runtime, schedule};
use unspool_preload::clock;

use super::watched;
use super::worksharing::{Start, iterations};
use crate::caller::return_address;
use crate::loop_schedule::AT_RUN_TIME;
use crate::process;
use crate::runtime_function::{Real, RuntimeFunction, call_real};
use crate::team::{RegionCode, Team};
use crate::thread::{self, Thread};

type Body = unsafe extern "C-unwind" fn(*mut c_void);

/// What the threads of a region are given in place of the program's own argument.
struct Region {
    body: Body,
    argument: *mut c_void,
    team: *mut Team,
    /// What the body consists of, for combined constructs.
    combined: Option<Start>,
    address: u64,
}

static THREAD_NUMBER: RuntimeFunction = RuntimeFunction::new(c"omp_get_thread_num");
static TEAM_SIZE: RuntimeFunction = RuntimeFunction::new(c"omp_get_num_threads");
static LARGEST_TEAM: RuntimeFunction = RuntimeFunction::new(c"omp_get_max_threads");

impl Region {
    /// Forks a region of so many threads, or of as many as the runtime chooses where that is 0.
    fn fork(
        thread: &mut Thread,
        (body, argument): (Body, *mut c_void),
        wanted: usize,
        combined: Option<Start>,
        address: u64,
    ) -> Region {
        process::note_runtime(runtime::GOMP);
        let limit = match wanted as u32 {
            0 => call_real!(LARGEST_TEAM.of(address)) as u32 as usize,
            wanted => wanted as usize,
        };
        let code = RegionCode {
            address,
            body: body as usize as u64,
        };
        Region {
            body,
            argument,
            team: thread.fork(code, limit, clock::now()),
            combined,
            address,
        }
    }

    /// The calling thread starts to work in it.
    fn begin(&self) {
        let index = call_real!(THREAD_NUMBER.of(self.address)) as u32 as usize;
        let size = call_real!(TEAM_SIZE.of(self.address)) as u32 as usize;
        if let Some(thread) = thread::current() {
            let now = clock::now();
            // SAFETY: the team lives until the join.
            unsafe { thread.begin_region(self.team, index, size, now) };
            if let Some(start) = self.combined {
                start.enter(thread, self.address, now);
            }
        }
    }

    /// The calling thread, which forked it, has waited for all others.
    fn join(&self) {
        if let Some(thread) = thread::current() {
            // SAFETY: the team is this thread's, and the runtime has waited for all threads.
            unsafe { thread.join(self.team, clock::now()) };
        }
    }
}

/// What each thread of a region executes: the program's body, between two notes.
unsafe extern "C-unwind" fn execute(region: *mut c_void) {
    // SAFETY: whoever forked the region keeps it until the join.
    let region = unsafe { &*region.cast::<Region>() };
    region.begin();
    // SAFETY: as the program asked for.
    unsafe { (region.body)(region.argument) };
    if let Some(thread) = thread::current() {
        thread.end_region(clock::now());
    }
}

/// Forks a region, lets `run` execute it with a body and an argument, and joins it.
fn observe(
    code: (Body, *mut c_void),
    wanted: usize,
    combined: Option<Start>,
    address: u64,
    run: impl FnOnce(Body, *mut c_void) -> usize,
    real: Real,
) -> usize {
    let Some(thread) = watched(real) else {
        return run(code.0, code.1);
    };
    let mut region = Region::fork(thread, code, wanted, combined, address);
    let result = run(execute, (&raw mut region).cast());
    region.join();
    result
}

/// Forks a region, lets `start` start its other threads with a body and an argument, and leaves the
/// thread at work in it.
fn observe_start(
    code: (Body, *mut c_void),
    wanted: usize,
    combined: Option<Start>,
    address: u64,
    start: impl FnOnce(Body, *mut c_void) -> usize,
    real: Real,
) -> usize {
    let Some(thread) = watched(real) else {
        return start(code.0, code.1);
    };
    let region = Region::fork(thread, code, wanted, combined, address);
    let region = Box::into_raw(Box::new(region));
    thread.started.push(region.cast());
    let result = start(execute, region.cast());
    // SAFETY: it is freed at the join, which this thread calls.
    unsafe { &*region }.begin();
    result
}

/// Functions that fork a region; the third argument is the wanted number of threads. The first word
/// says whether they also join it.
macro_rules! regions {
    ($observe:ident: $($name:ident $text:literal ($($argument:ident),*) $combined:expr;)*) => {$(
        // SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            body: Body,
            argument: *mut c_void,
            threads: usize
            $(, $argument: usize)*
        ) -> usize {
            static REAL: RuntimeFunction = RuntimeFunction::new($text);
            let address = return_address!();
            let real = REAL.of(address);
            let run = |body: Body, argument: *mut c_void| {
                call_real!(real, body, argument, threads $(, $argument)*;
                    Body, *mut c_void, usize $(, call_real!(@word $argument))*)
            };
            $observe((body, argument), threads, $combined, address, run, real)
        }
    )*};
}

regions! { observe:
    GOMP_parallel c"GOMP_parallel" (flags) None;
    GOMP_parallel_reductions c"GOMP_parallel_reductions" (flags) None;
    GOMP_parallel_sections c"GOMP_parallel_sections" (count, flags) Some(Start::of_sections());
    GOMP_parallel_loop_static c"GOMP_parallel_loop_static"
        (start, end, step, chunk, flags) Some(Start::of_loop(schedule::STATIC, iterations(start, end, step)));
    GOMP_parallel_loop_dynamic c"GOMP_parallel_loop_dynamic"
        (start, end, step, chunk, flags) Some(Start::of_loop(schedule::DYNAMIC, iterations(start, end, step)));
    GOMP_parallel_loop_guided c"GOMP_parallel_loop_guided"
        (start, end, step, chunk, flags) Some(Start::of_loop(schedule::GUIDED, iterations(start, end, step)));
    GOMP_parallel_loop_nonmonotonic_dynamic c"GOMP_parallel_loop_nonmonotonic_dynamic"
        (start, end, step, chunk, flags) Some(Start::of_loop(schedule::DYNAMIC, iterations(start, end, step)));
    GOMP_parallel_loop_nonmonotonic_guided c"GOMP_parallel_loop_nonmonotonic_guided"
        (start, end, step, chunk, flags) Some(Start::of_loop(schedule::GUIDED, iterations(start, end, step)));
    GOMP_parallel_loop_runtime c"GOMP_parallel_loop_runtime"
        (start, end, step, flags) Some(Start::of_loop(AT_RUN_TIME, iterations(start, end, step)));
    GOMP_parallel_loop_nonmonotonic_runtime c"GOMP_parallel_loop_nonmonotonic_runtime"
        (start, end, step, flags) Some(Start::of_loop(AT_RUN_TIME, iterations(start, end, step)));
    GOMP_parallel_loop_maybe_nonmonotonic_runtime c"GOMP_parallel_loop_maybe_nonmonotonic_runtime"
        (start, end, step, flags) Some(Start::of_loop(AT_RUN_TIME, iterations(start, end, step)));
}

regions! { observe_start:
    GOMP_parallel_start c"GOMP_parallel_start" () None;
    GOMP_parallel_sections_start c"GOMP_parallel_sections_start" (count) Some(Start::of_sections());
    GOMP_parallel_loop_static_start c"GOMP_parallel_loop_static_start"
        (start, end, step, chunk) Some(Start::of_loop(schedule::STATIC, iterations(start, end, step)));
    GOMP_parallel_loop_dynamic_start c"GOMP_parallel_loop_dynamic_start"
        (start, end, step, chunk) Some(Start::of_loop(schedule::DYNAMIC, iterations(start, end, step)));
    GOMP_parallel_loop_guided_start c"GOMP_parallel_loop_guided_start"
        (start, end, step, chunk) Some(Start::of_loop(schedule::GUIDED, iterations(start, end, step)));
    GOMP_parallel_loop_runtime_start c"GOMP_parallel_loop_runtime_start"
        (start, end, step) Some(Start::of_loop(AT_RUN_TIME, iterations(start, end, step)));
}

// SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_parallel_end() -> usize {
    static REAL: RuntimeFunction = RuntimeFunction::new(c"GOMP_parallel_end");
    let real = REAL.of(return_address!());
    let region = watched(real).and_then(|thread| {
        let region = thread.started.pop()?;
        thread.end_region(clock::now());
        Some(region)
    });
    let result = call_real!(real);
    if let Some(region) = region {
        // SAFETY: `observe_start` made it, and all threads have arrived at the join.
        let region = unsafe { Box::from_raw(region.cast::<Region>()) };
        region.join();
    }
    result
}
