//! The schedule of loops that leave it to the runtime (`schedule(runtime)`).

use crate::runtime_function::{RuntimeFunction, call_real};

/// The flag of a schedule, as OpenMP numbers them, whose threads get iterations in ascending order.
pub(crate) const MONOTONIC: usize = 1 << 31;

/// The schedule that such loops have now, for code at an address: one of
/// [`unspool_openmp_record::layout::schedule`].
pub(crate) fn at_run_time(address: u64) -> u64 {
    static SCHEDULE: RuntimeFunction = RuntimeFunction::new(c"omp_get_schedule");
    let (mut number, mut chunk) = (0_u32, 0_i32);
    let (number_at, chunk_at) = (&raw mut number, &raw mut chunk);
    call_real!(SCHEDULE.of(address), number_at, chunk_at; *mut u32, *mut i32);
    u64::from(number) & !(MONOTONIC as u64)
}
