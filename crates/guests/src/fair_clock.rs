//! A clock for time limits that a busy machine does not shorten.
//!
//! Where more threads want to run than there are processors, each gets its share of them, and a
//! second of waiting is worth no more than that: with 20 busy processes on two processors, a tenth.

use std::time::{Duration, Instant};

/// How often the machine is looked at.
const PERIOD: Duration = Duration::from_millis(100);

/// Time that a program with one thread would have had on an idle machine.
#[derive(Debug)]
pub struct FairClock {
    elapsed: Duration,
    looked: Instant,
    processors: f64,
}

impl FairClock {
    /// Starts now.
    #[must_use]
    pub fn start() -> FairClock {
        FairClock {
            elapsed: Duration::ZERO,
            looked: Instant::now(),
            processors: std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64),
        }
    }

    /// The time since the start. To be asked often.
    pub fn elapsed(&mut self) -> Duration {
        let since = self.looked.elapsed();
        if since >= PERIOD {
            let status = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
            self.elapsed += since.mul_f64(share(&status, self.processors));
            self.looked = Instant::now();
            return self.elapsed;
        }
        self.elapsed
    }
}

/// How much of a processor each thread that wants to run has, by the kernel's word on it: three
/// averages, then `running/existing`.
fn share(status: &str, processors: f64) -> f64 {
    let counts = status.split(' ').nth(3);
    let running = counts.and_then(|counts| counts.split('/').next()?.parse::<f64>().ok());
    // The one who asks is running too.
    let others = running.unwrap_or(1.0) - 1.0;
    (processors / others.max(1.0)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_stretches_limits() {
        assert_eq!(share("0.1 0.1 0.1 1/200 77", 2.0), 1.0);
        assert_eq!(share("0.1 0.1 0.1 3/200 77", 2.0), 1.0);
        assert_eq!(share("9.1 9.1 9.1 21/200 77", 2.0), 0.1);
        assert_eq!(share("", 2.0), 1.0);
    }

    #[test]
    fn it_runs() {
        let mut clock = FairClock::start();
        std::thread::sleep(PERIOD * 2);
        assert!(clock.elapsed() > Duration::ZERO);
    }
}
