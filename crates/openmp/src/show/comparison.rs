//! Comparisons, as people and programs read them.

use std::fmt::Write;

use serde_json::{Value, json};

use super::json::losses_json;
use super::seconds;
use crate::characteristics::LossClass;
use crate::comparison::Comparison;

/// Changes, and regions that have grown, that are shown; JSON has all.
const SHOWN_CHANGES: usize = 12;

impl Comparison {
    /// As text for a person.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = write_comparison(&mut text, self);
        text
    }

    /// For other programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let side = |report: &crate::Report| {
            let figures = &report.characteristics;
            json!({
                "execution_time": seconds(figures.execution_ns),
                "processors": figures.processors,
                "total": seconds(figures.total_ns()),
                "productive": seconds(figures.productive_ns()),
                "idle": seconds(figures.idle_ns()),
                "lost": seconds(figures.lost_ns()),
                "efficiency": figures.efficiency(),
                "losses": losses_json(&figures.losses()),
            })
        };
        json!({
            "schema": "unspool-openmp-comparison",
            "version": 1,
            "before": side(&self.before),
            "after": side(&self.after),
            "speed_up": self.speed_up,
            "scaling_efficiency": self.scaling_efficiency,
            "changes": self.changes.iter().map(|change| json!({
                "place": change.place,
                "before": seconds(change.before_ns),
                "after": seconds(change.after_ns),
            })).collect::<Vec<_>>(),
            "growth": self.growth.iter().map(|growth| json!({
                "place": growth.place,
                "with_fewer_threads": seconds(growth.fewer_ns),
                "with_more_threads": seconds(growth.more_ns),
            })).collect::<Vec<_>>(),
        })
    }
}

fn write_comparison(text: &mut String, one: &Comparison) -> std::fmt::Result {
    let (before, after) = (&one.before.characteristics, &one.after.characteristics);
    writeln!(
        text,
        "Speed-up {:.3}, from {} to {} threads: {:.1} % of what the threads allow",
        one.speed_up,
        before.processors,
        after.processors,
        one.scaling_efficiency * 100.0
    )?;
    writeln!(
        text,
        "\n{:<26} {:>13} {:>13} {:>13}",
        "", "before", "after", "change"
    )?;
    let mut row = |name: &str, before: u64, after: u64| {
        let change = seconds(after) - seconds(before);
        writeln!(
            text,
            "{name:<26} {:>13.6} {:>13.6} {change:>+13.6}",
            seconds(before),
            seconds(after)
        )
    };
    row("Execution time", before.execution_ns, after.execution_ns)?;
    row("Total time", before.total_ns(), after.total_ns())?;
    row(
        "Productive time",
        before.productive_ns(),
        after.productive_ns(),
    )?;
    row("Idle time", before.idle_ns(), after.idle_ns())?;
    row("Lost time", before.lost_ns(), after.lost_ns())?;
    for class in LossClass::ALL {
        let (one, other) = (before.losses().get(*class), after.losses().get(*class));
        if one > 0 || other > 0 {
            row(&format!("  {}", class.words()), one, other)?;
        }
    }
    writeln!(
        text,
        "{:<26} {:>12.1}% {:>12.1}% {:>+12.1}%",
        "Efficiency",
        before.efficiency() * 100.0,
        after.efficiency() * 100.0,
        (after.efficiency() - before.efficiency()) * 100.0
    )?;
    write_growth(text, one)?;
    writeln!(text, "\nWaits that changed most")?;
    for change in one.changes.iter().take(SHOWN_CHANGES) {
        let difference = seconds(change.after_ns) - seconds(change.before_ns);
        writeln!(
            text,
            "{difference:>+13.6} s  {} ({:.6} s, then {:.6} s)",
            change.place,
            seconds(change.before_ns),
            seconds(change.after_ns)
        )?;
    }
    Ok(())
}

fn write_growth(text: &mut String, one: &Comparison) -> std::fmt::Result {
    if one.growth.is_empty() {
        return Ok(());
    }
    let mut threads = [&one.before, &one.after].map(|report| report.characteristics.processors);
    threads.sort_unstable();
    let [fewer, more] = threads;
    writeln!(
        text,
        "\nThe same work takes longer with {more} threads than with {fewer}: threads may wait for memory together, write \
         to the same cache lines, or share a core"
    )?;
    for growth in one.growth.iter().take(SHOWN_CHANGES) {
        let (before, after) = (seconds(growth.fewer_ns), seconds(growth.more_ns));
        writeln!(
            text,
            "{:>+13.6} s  {} ({before:.6} s, then {after:.6} s: {:.2} times)",
            after - before,
            growth.place,
            after / before.max(1e-9)
        )?;
    }
    Ok(())
}
