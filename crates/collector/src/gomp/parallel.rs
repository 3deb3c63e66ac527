//! Parallel regions.

use std::ffi::c_void;

use unspool_openmp_record::ConstructKind;
use unspool_openmp_record::layout::runtime;

use super::watched;
use super::worksharing::iterations;
use crate::caller::return_address;
use crate::runtime_function::{Real, RuntimeFunction, call_real};
use crate::team::{RegionCode, Team};
use crate::{clock, process, thread};

type Body = unsafe extern "C-unwind" fn(*mut c_void);

/// What the threads of a region are given in place of the program's own argument.
struct Region {
    body: Body,
    argument: *mut c_void,
    team: *const Team,
    /// What the body consists of, for combined constructs.
    combined: Option<ConstructKind>,
    /// How many iterations that has, or 0.
    iterations: u64,
    address: u64,
}

static THREAD_NUMBER: RuntimeFunction = RuntimeFunction::new(c"omp_get_thread_num");
static TEAM_SIZE: RuntimeFunction = RuntimeFunction::new(c"omp_get_num_threads");
static LARGEST_TEAM: RuntimeFunction = RuntimeFunction::new(c"omp_get_max_threads");

/// What each thread of a region executes: the program's body, between two notes.
unsafe extern "C-unwind" fn execute(region: *mut c_void) {
    // SAFETY: the region is in the frame of the thread that forked it, until the join.
    let region = unsafe { &*region.cast::<Region>() };
    let index = call_real!(THREAD_NUMBER.of(region.address)) as u32 as usize;
    let size = call_real!(TEAM_SIZE.of(region.address)) as u32 as usize;
    if let Some(thread) = thread::current() {
        let now = clock::now();
        // SAFETY: the team lives until the join.
        unsafe { thread.begin_region(region.team, index, size, now) };
        if let Some(kind) = region.combined {
            thread.enter(kind, region.address, 0, now);
            thread.add_iterations(region.iterations);
        }
    }
    // SAFETY: as the program asked for.
    unsafe { (region.body)(region.argument) };
    if let Some(thread) = thread::current() {
        thread.end_region(clock::now());
    }
}

/// Forks a region, lets `run` execute it with a body and an argument, and joins it.
fn observe(
    region: (Body, *mut c_void),
    wanted: usize,
    combined: (Option<ConstructKind>, u64),
    address: u64,
    run: impl FnOnce(Body, *mut c_void) -> usize,
    real: Real,
) -> usize {
    let ((body, argument), (combined, iterations)) = (region, combined);
    let Some(thread) = watched(real) else {
        return run(body, argument);
    };
    process::note_runtime(runtime::GOMP);
    let limit = match wanted as u32 {
        0 => call_real!(LARGEST_TEAM.of(address)) as u32 as usize,
        wanted => wanted as usize,
    };
    let code = RegionCode {
        address,
        body: body as usize as u64,
    };
    let team = thread.fork(code, limit, clock::now());
    let mut region = Region {
        body,
        argument,
        team,
        combined,
        iterations,
        address,
    };
    let result = run(execute, (&raw mut region).cast());
    if let Some(thread) = thread::current() {
        // SAFETY: the team is this thread's, and the runtime has waited for all threads.
        unsafe { thread.join(team, clock::now()) };
    }
    result
}

/// Functions that fork a region; the third argument is the wanted number of threads.
macro_rules! regions {
    ($($name:ident $text:literal ($($argument:ident),*) $combined:expr, $iterations:expr;)*) => {$(
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
            let combined = ($combined, $iterations);
            observe((body, argument), threads, combined, address, run, real)
        }
    )*};
}

regions! {
    GOMP_parallel c"GOMP_parallel" (flags) None, 0;
    GOMP_parallel_reductions c"GOMP_parallel_reductions" (flags) None, 0;
    GOMP_parallel_sections c"GOMP_parallel_sections" (count, flags) Some(ConstructKind::Sections), 0;
    GOMP_parallel_loop_static c"GOMP_parallel_loop_static"
        (start, end, step, chunk, flags) Some(ConstructKind::Loop), iterations(start, end, step);
    GOMP_parallel_loop_dynamic c"GOMP_parallel_loop_dynamic"
        (start, end, step, chunk, flags) Some(ConstructKind::Loop), iterations(start, end, step);
    GOMP_parallel_loop_guided c"GOMP_parallel_loop_guided"
        (start, end, step, chunk, flags) Some(ConstructKind::Loop), iterations(start, end, step);
    GOMP_parallel_loop_nonmonotonic_dynamic c"GOMP_parallel_loop_nonmonotonic_dynamic"
        (start, end, step, chunk, flags) Some(ConstructKind::Loop), iterations(start, end, step);
    GOMP_parallel_loop_nonmonotonic_guided c"GOMP_parallel_loop_nonmonotonic_guided"
        (start, end, step, chunk, flags) Some(ConstructKind::Loop), iterations(start, end, step);
    GOMP_parallel_loop_runtime c"GOMP_parallel_loop_runtime"
        (start, end, step, flags) Some(ConstructKind::Loop), iterations(start, end, step);
    GOMP_parallel_loop_nonmonotonic_runtime c"GOMP_parallel_loop_nonmonotonic_runtime"
        (start, end, step, flags) Some(ConstructKind::Loop), iterations(start, end, step);
    GOMP_parallel_loop_maybe_nonmonotonic_runtime c"GOMP_parallel_loop_maybe_nonmonotonic_runtime"
        (start, end, step, flags) Some(ConstructKind::Loop), iterations(start, end, step);
}
