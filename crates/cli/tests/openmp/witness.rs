//! A thread beside a run that tells how busy the machine was: what a program cannot say of itself,
//! because it is delayed before it begins, or ends too abruptly.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the witness sleeps at a time.
const SLEEP: Duration = Duration::from_millis(5);
/// How long it works then.
const WORK: Duration = Duration::from_micros(200);

/// Does something, and says how much of its time a thread beside it waited for a processor.
pub(crate) fn beside<Result>(act: impl FnOnce() -> Result) -> (Result, f64) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let witness = scope.spawn(|| {
            let (start, mut late) = (Instant::now(), Duration::ZERO);
            while !is_over.load(Ordering::Relaxed) {
                late += turn();
            }
            late.as_secs_f64() / start.elapsed().as_secs_f64().max(1e-9)
        });
        let result = act();
        is_over.store(true, Ordering::Relaxed);
        (result, witness.join().unwrap_or(1.0))
    })
}

/// Sleeps and works once; returns how much longer that took.
fn turn() -> Duration {
    let start = Instant::now();
    std::thread::sleep(SLEEP);
    let processor = processor_time();
    while processor_time().saturating_sub(processor) < WORK {
        std::hint::spin_loop();
    }
    start.elapsed().saturating_sub(SLEEP + WORK)
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
