//! The protocol, in the original's layout.

use std::fmt;

use unspool_openmp_record::original::Statistics;

use super::analysis::{Analysis, Point};

/// A figure: whole where it is whole.
pub(super) struct Figure(pub(super) f64);

impl fmt::Display for Figure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // To a microsecond, without zeros that say nothing.
        let rounded = (self.0 * 1000.0).round() / 1000.0;
        write!(formatter, "{}", rounded + 0.0)
    }
}

impl fmt::Display for Analysis {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "Protocol")?;
        write!(formatter, "Threads: {}(", self.threads.len())?;
        for (index, thread) in self.threads.iter().enumerate() {
            let mark = if index == 0 { "[M]" } else { "" };
            write!(formatter, " {thread}{mark}")?;
        }
        writeln!(formatter, ")")?;
        writeln!(formatter, "Execution Time: {}", Figure(self.execution))?;
        writeln!(formatter, "Processors: {}", self.threads.len())?;
        writeln!(formatter, "Total Time: {}", Figure(self.total()))?;
        writeln!(formatter, "Productive Time: {}", Figure(self.productive()))?;
        writeln!(formatter, "Idle Time: {}", Figure(self.idle))?;
        writeln!(formatter, "Lost Time: {}", Figure(self.lost()))?;
        writeln!(
            formatter,
            "Insufficient Par: {}",
            Figure(self.insufficient_parallelism)
        )?;
        let efficiency = (self.efficiency() * 100_000.0).round() / 100_000.0;
        let percent = (self.efficiency() * 100_000.0).round() / 1000.0;
        writeln!(formatter, "Parallelization Eff:{efficiency}({percent} %)")?;
        writeln!(formatter, "Desync Time: {}", Figure(self.desynchronisation))?;
        writeln!(formatter, "SRCs:")?;
        for point in &self.points {
            write!(formatter, "{point}")?;
        }
        writeln!(formatter, "End protocol")
    }
}

impl fmt::Display for Point {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let event = &self.event;
        match self.thread {
            Some(thread) => writeln!(formatter, "Src {}:{thread}", event.number)?,
            None => writeln!(formatter, "Src {}", event.number)?,
        }
        let repeated = event.count > 1;
        if !repeated {
            writeln!(formatter, "Btime={}", Figure(event.begin))?;
        }
        let statistics = [
            ("Dtime", event.duration),
            ("Wait", event.wait),
            ("Sync", event.synchronisation),
        ];
        for (name, Statistics { sum, longest }) in statistics {
            writeln!(formatter, "{name}={}", Figure(sum))?;
            if repeated {
                writeln!(formatter, "Max{name}={}", Figure(longest))?;
                writeln!(formatter, "Avg{name}={}", Figure(sum / event.count as f64))?;
            }
        }
        writeln!(formatter, "Count={}", event.count)?;
        writeln!(formatter, "OMP_instance={}", self.instance)?;
        writeln!(formatter, "Stack:")?;
        let (file, first, last) = &self.source;
        write!(formatter, "{file} ({first}:{last})")?;
        for (thread, number) in &self.threads {
            write!(formatter, " {thread}:{number}")?;
        }
        writeln!(formatter)
    }
}
