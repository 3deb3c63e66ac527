//! Schedules of loops, from the numbers that compilers give them.

use unspool_openmp_record::layout::schedule;

use crate::runtime_function::{RuntimeFunction, call_real};

/// Stands for the schedule that the program may choose while it runs (`schedule(runtime)`), which the
/// runtime knows.
pub(crate) const AT_RUN_TIME: u64 = u64::MAX;

/// The flag of a schedule, as OpenMP numbers them, whose threads get iterations in ascending order.
const MONOTONIC: usize = 1 << 31;
/// The same of LLVM's numbers, and the flag of those that need not.
const MODIFIERS: u32 = 1 << 29 | 1 << 30;
/// What LLVM's number of a schedule is greater by if the loop is ordered.
const ORDERED: u32 = 32;

/// A schedule as gcc tells it as an argument: but for the first, as OpenMP numbers them.
pub(crate) fn of_gomp(number: usize) -> u64 {
    match number & !MONOTONIC {
        0 => AT_RUN_TIME,
        number => number as u64,
    }
}

/// A schedule as compilers number it for LLVM's runtime.
pub(crate) fn of_llvm(number: usize) -> u64 {
    let number = number as u32 & !MODIFIERS;
    let unordered = match number {
        65.. => number - ORDERED,
        _ => number,
    };
    match unordered {
        33 | 34 => schedule::STATIC,
        35 => schedule::DYNAMIC,
        36 => schedule::GUIDED,
        37 => AT_RUN_TIME,
        38 => schedule::AUTO,
        _ => schedule::UNKNOWN,
    }
}

/// What a schedule is now, for code at an address: one of [`schedule`].
pub(crate) fn resolved(schedule: u64, address: u64) -> u64 {
    static SCHEDULE: RuntimeFunction = RuntimeFunction::new(c"omp_get_schedule");
    if schedule != AT_RUN_TIME {
        return schedule;
    }
    let (mut number, mut chunk) = (0_u32, 0_i32);
    let (number_at, chunk_at) = (&raw mut number, &raw mut chunk);
    call_real!(SCHEDULE.of(address), number_at, chunk_at; *mut u32, *mut i32);
    u64::from(number) & !(MONOTONIC as u64)
}
