//! Barriers, critical constructs, atomic updates, ordered blocks and cancellation.

use unspool_openmp_record::ConstructKind;
use unspool_openmp_record::layout::process_block;
use unspool_preload::clock;

use super::watched;
use crate::arena;
use crate::caller::return_address;
use crate::runtime_function::{RuntimeFunction, call_real};

/// Functions that wait and are left when the wait is over.
macro_rules! waits {
    ($($name:ident $text:literal $kind:expr;)*) => {$(
        // SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(argument: usize) -> usize {
            static REAL: RuntimeFunction = RuntimeFunction::new($text);
            let address = return_address!();
            let real = REAL.of(address);
            if let Some(thread) = watched(real) {
                let now = clock::now();
                let mut detail = 0;
                if $kind == ConstructKind::Barrier {
                    thread.end_open_work(now);
                    // At a function's very end the program jumps here, so that the address
                    // is not the program's: then the function tells where it is.
                    detail = thread.body();
                }
                thread.enter($kind, address, detail, now);
                if $kind == ConstructKind::Barrier {
                    thread.arrive_at_barrier(now);
                }
            }
            let result = call_real!(real, argument);
            if let Some(thread) = watched(real) {
                let now = clock::now();
                thread.leave_through($kind, now);
                if $kind == ConstructKind::Barrier {
                    thread.resume_open_work(address, now);
                }
            }
            result
        }
    )*};
}

waits! {
    GOMP_barrier c"GOMP_barrier" ConstructKind::Barrier;
    GOMP_barrier_cancel c"GOMP_barrier_cancel" ConstructKind::Barrier;
    GOMP_workshare_task_reduction_unregister c"GOMP_workshare_task_reduction_unregister"
        ConstructKind::Barrier;
    GOMP_taskwait c"GOMP_taskwait" ConstructKind::TaskWait;
    GOMP_taskwait_depend c"GOMP_taskwait_depend" ConstructKind::TaskWait;
    GOMP_taskgroup_end c"GOMP_taskgroup_end" ConstructKind::TaskGroup;
}

/// Functions that wait for a block and then enter it; the argument says which, where there
/// are several.
macro_rules! blocks {
    ($($start:ident $start_text:literal $end:ident $end_text:literal $kind:expr, $named:literal;)*) => {$(
        // SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $start(which: usize) -> usize {
            static REAL: RuntimeFunction = RuntimeFunction::new($start_text);
            let address = return_address!();
            let real = REAL.of(address);
            let Some(thread) = watched(real) else {
                return call_real!(real, which);
            };
            let before = clock::now();
            let detail = if $named { which as u64 } else { 0 };
            let node = thread.find($kind, address, detail, before);
            let result = call_real!(real, which);
            if let Some(thread) = watched(real) {
                let now = clock::now();
                thread.enter_found(node, before);
                thread.wait(before, now);
            }
            result
        }

        // SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $end(which: usize) -> usize {
            static REAL: RuntimeFunction = RuntimeFunction::new($end_text);
            let real = REAL.of(return_address!());
            if watched(real).is_none() {
                return call_real!(real, which);
            }
            // Others wait for the block to be left: what there is to note can come after.
            let now = clock::now();
            let result = call_real!(real, which);
            if let Some(thread) = watched(real) {
                thread.leave_through($kind, now);
            }
            result
        }
    )*};
}

blocks! {
    GOMP_critical_start c"GOMP_critical_start" GOMP_critical_end c"GOMP_critical_end"
        ConstructKind::Critical, false;
    GOMP_critical_name_start c"GOMP_critical_name_start"
        GOMP_critical_name_end c"GOMP_critical_name_end" ConstructKind::Critical, true;
    GOMP_atomic_start c"GOMP_atomic_start" GOMP_atomic_end c"GOMP_atomic_end" ConstructKind::Atomic, false;
    GOMP_ordered_start c"GOMP_ordered_start" GOMP_ordered_end c"GOMP_ordered_end"
        ConstructKind::Ordered, false;
}

/// Waiting for iterations of an ordered loop. The number of arguments varies with the depth
/// of the loop nest: as many as no compiler exceeds are passed on, so that some of them are
/// words that the function does not look at.
macro_rules! doacross_waits {
    ($($name:ident $text:literal;)*) => {$(
        // SAFETY: the name is libgomp's, in whose place this stands. Words beyond the
        // arguments are of the caller's frame, and are only copied.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            a: usize, b: usize, c: usize, d: usize, e: usize, f: usize, g: usize, h: usize,
            i: usize, j: usize, k: usize, l: usize,
        ) -> usize {
            static REAL: RuntimeFunction = RuntimeFunction::new($text);
            let address = return_address!();
            let real = REAL.of(address);
            let before = clock::now();
            let node = match watched(real) {
                Some(thread) => thread.find(ConstructKind::Ordered, address, 0, before),
                None => std::ptr::null_mut(),
            };
            let result = call_real!(real, a, b, c, d, e, f, g, h, i, j, k, l;
                usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize, usize);
            if let Some(thread) = watched(real) {
                thread.only_wait(node, before, clock::now());
            }
            result
        }
    )*};
}

doacross_waits! {
    GOMP_doacross_wait c"GOMP_doacross_wait";
    GOMP_doacross_ull_wait c"GOMP_doacross_ull_wait";
}

// SAFETY: the name is libgomp's, in whose place this stands, with its arguments.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn GOMP_cancel(which: usize, really: usize) -> usize {
    static REAL: RuntimeFunction = RuntimeFunction::new(c"GOMP_cancel");
    let real = REAL.of(return_address!());
    let result = call_real!(real, which, really);
    if result as u8 != 0
        && watched(real).is_some()
        && let Some(process) = arena::process_block()
    {
        process.add_shared(process_block::CANCELLED, 1);
    }
    result
}
