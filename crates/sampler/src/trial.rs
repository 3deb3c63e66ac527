//! Tries out what the kernel allows, and whether it gives what is asked for.

use std::time::{Duration, Instant};

use unspool_profile_record::Rate as Sampled;

use crate::clock::time_ns;
use crate::kernel_record::{KernelRecord, What};
pub use crate::perf_event::Event;
use crate::perf_event::{Begins, Request, open as open_event};
use crate::ring::Ring;

const RING_BYTES: usize = 512 << 10;
const STACK_BYTES: u32 = 512;
const PERIOD: u64 = 1_000_000;
/// Turns of a loop that take a tenth of a millisecond or so.
const WORK: u32 = 100_000;

/// Samples that came in an attempt.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// How many should have come.
    pub expected: f64,
    /// How many have come.
    pub taken: u32,
}

/// Whether an event may be sampled. It is given back at once.
///
/// # Errors
/// The kernel's number of the reason against it.
pub fn open(event: Event, includes_kernel: bool) -> Result<(), i32> {
    let request = Request {
        event,
        includes_kernel,
        ..own_request(PERIOD)
    };
    match open_event(&request, -1) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.number().unwrap_or(0)),
    }
}

/// Samples the calling thread while that uses CPU time, and counts what comes; nothing where that
/// is impossible.
#[must_use]
pub fn rate(frequency_hz: u32, time: Duration) -> Option<Rate> {
    let period_ns = 1_000_000_000 / u64::from(frequency_hz.max(1));
    let event = open_event(&own_request(period_ns), -1).ok()?;
    let mut ring = Ring::new(event, RING_BYTES).ok()?;
    let start = own_time_ns();
    // A thread that gets no time would otherwise wait here for long.
    let patience = Instant::now();
    let mut used_ns = 0;
    while u128::from(used_ns) < time.as_nanos() && patience.elapsed() < 10 * time {
        // Asking for the time is time in the kernel, which is not sampled: it must be little.
        for turn in 0..WORK {
            std::hint::black_box(turn);
        }
        used_ns = own_time_ns() - start;
    }
    let mut taken = 0;
    ring.drain(|bytes| {
        let record = KernelRecord::read(bytes);
        let is_sample = matches!(
            record,
            Ok(Some(KernelRecord {
                what: What::Sampled(_),
                ..
            }))
        );
        taken += u32::from(is_sample);
    });
    Some(Rate {
        expected: used_ns as f64 / period_ns as f64,
        taken,
    })
}

fn own_request(period: u64) -> Request {
    Request {
        event: Event::TaskClock,
        begins: Begins::Now,
        rate: Sampled::Period(period),
        stack_bytes: STACK_BYTES,
        includes_kernel: false,
        is_identified: false,
        has_period: true,
        wakeup_bytes: u32::MAX,
    }
}

fn own_time_ns() -> u64 {
    time_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many samples come as were asked for; a tenth of the frequency gives a tenth.
    #[test]
    fn samples_come_at_the_rate_that_was_asked_for() {
        let time = Duration::from_millis(300);
        let (Some(often), Some(seldom)) = (rate(1000, time), rate(100, time)) else {
            eprintln!("skipped: the kernel forbids samples");
            return;
        };
        for Rate { expected, taken } in [often, seldom] {
            let difference = (f64::from(taken) - expected).abs();
            assert!(
                difference <= 0.1 * expected + 2.0,
                "{taken}, not {expected}"
            );
        }
        assert!(often.taken > 5 * seldom.taken, "{often:?}, {seldom:?}");
    }
}
