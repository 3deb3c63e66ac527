//! How far a long command has come: one line on standard error, with a rate and an estimate.

use std::io::{self, IsTerminal, Read, Write};
use std::time::{Duration, Instant};

use unspool_events::{Access, Executions, Sink, ThreadId, Trace};

use crate::arguments::ProgressChoice;

/// Commands that end sooner say nothing.
const SILENT: Duration = Duration::from_secs(2);

/// Times between two lines, where the newer one takes the place of the older one and where not.
const ON_TERMINAL: Duration = Duration::from_millis(500);
const ELSEWHERE: Duration = Duration::from_secs(10);

/// Units between two looks at the clock: a look costs as much as several accesses.
const UNITS_BETWEEN_LOOKS: u64 = 1 << 16;

/// Counts what goes by, and says so.
#[derive(Debug)]
pub(crate) struct Progress {
    unit: &'static str,
    total: Option<u64>,
    count: u64,
    next_look: u64,
    began: Instant,
    next_line: Instant,
    show: Show,
    is_line_open: bool,
}

/// Where lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Show {
    Nowhere,
    OnTerminal,
    Elsewhere,
}

impl Progress {
    /// Of all accesses of a trace. `prints_lines` is whether standard output gets lines meanwhile:
    /// on a terminal they would stand between those of the progress.
    pub(crate) fn of_trace(trace: &Trace, choice: ProgressChoice, prints_lines: bool) -> Progress {
        let total = Some(trace.summary().accesses);
        Progress::new("accesses", total, choice, prints_lines)
    }

    pub(crate) fn new(
        unit: &'static str,
        total: Option<u64>,
        choice: ProgressChoice,
        prints_lines: bool,
    ) -> Progress {
        let is_in_the_way = prints_lines && io::stdout().is_terminal();
        let is_terminal = io::stderr().is_terminal();
        let show = match choice {
            ProgressChoice::Never => Show::Nowhere,
            ProgressChoice::Always if is_in_the_way || !is_terminal => Show::Elsewhere,
            ProgressChoice::Auto if is_in_the_way || !is_terminal => Show::Nowhere,
            _ => Show::OnTerminal,
        };
        let began = Instant::now();
        Progress {
            unit,
            total,
            count: 0,
            next_look: UNITS_BETWEEN_LOOKS,
            began,
            next_line: began + SILENT,
            show,
            is_line_open: false,
        }
    }

    fn add(&mut self, units: u64) {
        self.count += units;
        if self.count >= self.next_look {
            self.look();
        }
    }

    #[cold]
    fn look(&mut self) {
        self.next_look = self.count + UNITS_BETWEEN_LOOKS;
        let now = Instant::now();
        if self.show == Show::Nowhere || now < self.next_line {
            return;
        }
        let line = line(self.unit, self.count, self.total, now - self.began);
        // Nobody is there to be told that this failed.
        let _ = match self.show {
            Show::OnTerminal => write!(io::stderr(), "\r{line}\x1b[K"),
            _ => writeln!(io::stderr(), "unspool: {line}"),
        };
        self.is_line_open = self.show == Show::OnTerminal;
        self.next_line = now
            + match self.show {
                Show::OnTerminal => ON_TERMINAL,
                _ => ELSEWHERE,
            };
    }
}

impl Drop for Progress {
    /// Leaves the terminal to what comes next.
    fn drop(&mut self) {
        if self.is_line_open {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

impl Sink for Progress {
    fn needs_order_of_time(&self) -> bool {
        false
    }

    fn executions(&mut self, _: ThreadId, executions: &Executions<'_>) {
        self.add(executions.count_accesses());
    }

    fn accesses(&mut self, _: ThreadId, batch: &[Access]) {
        self.add(batch.len() as u64);
    }
}

/// An input that counts its bytes.
#[derive(Debug)]
pub(crate) struct Counted<Input>(pub(crate) Input, pub(crate) Progress);

impl<Input: Read> Read for Counted<Input> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(bytes)?;
        self.1.add(count as u64);
        Ok(count)
    }
}

/// What is said.
fn line(unit: &str, count: u64, total: Option<u64>, elapsed: Duration) -> String {
    let rate = count as f64 / elapsed.as_secs_f64().max(1e-3);
    let mut text = millions(count as f64);
    if let Some(total) = total {
        let percent = 100 * u128::from(count) / u128::from(total.max(1));
        text += &format!(" of {} {unit} ({percent} %)", millions(total as f64));
    } else {
        text += &format!(" {unit}");
    }
    text += &format!(", {} a second", millions(rate));
    if let Some(left) = total.and_then(|total| total.checked_sub(count)) {
        text += &format!(", {} left", clock(left as f64 / rate.max(1.0)));
    }
    text
}

fn millions(number: f64) -> String {
    format!("{:.1} million", number / 1e6)
}

/// Seconds as people read them.
fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{rest:02}"),
        _ => format!("{hours}:{minutes:02}:{rest:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_rate_and_an_estimate() {
        let at =
            |count, total, seconds| line("accesses", count, total, Duration::from_secs(seconds));
        assert_eq!(
            at(50_000_000, Some(200_000_000), 4),
            "50.0 million of 200.0 million accesses (25 %), 12.5 million a second, 0:12 left"
        );
        assert_eq!(
            at(3_000_000, Some(30_000_000_000), 1),
            "3.0 million of 30000.0 million accesses (0 %), 3.0 million a second, 2:46:39 left"
        );
        assert_eq!(
            at(9_000_000, None, 3),
            "9.0 million accesses, 3.0 million a second"
        );
        // A damaged index may promise less than there is, or nothing.
        for total in [0, 5] {
            assert!(!at(9, Some(total), 0).contains("left"));
        }
    }
}
