//! A comparison for people.

use std::fmt::Write;

use super::{BothTimes, Context, Expectation, RunSize, Scaling};
use crate::text::{DEEPEST, SHOWN, View};
use crate::unit::Unit;

/// What changes by less than this share of the larger run's time is not shown.
const SMALLEST_SHARE: f64 = 0.01;

impl Scaling {
    /// The comparison as text.
    #[must_use]
    pub fn to_text(&self, views: &[View]) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, views);
        text
    }

    fn write(&self, out: &mut String, views: &[View]) -> std::fmt::Result {
        let kind = match self.expectation {
            Expectation::Strong => "Strong scaling: all threads together should take the same time",
            Expectation::Weak => "Weak scaling: each thread should take the same time",
        };
        writeln!(out, "{kind}")?;
        writeln!(out, "from {}", self.size_to_text(&self.base))?;
        writeln!(out, "to   {}", self.size_to_text(&self.run))?;
        let loss = self.total_loss();
        let share = 100.0 * self.share(loss);
        writeln!(
            out,
            "lost: {}, {share:.1} % of the larger run's time; efficiency {:.1} %",
            self.told(loss),
            100.0 - share
        )?;
        for view in views {
            match view {
                View::Flat => self.write_functions(out)?,
                // Losses divide otherwise than time.
                View::HotPath => {}
                View::TopDown => {
                    self.write_tree(out, "Top down: the loss by call path", &self.contexts)?
                }
                View::BottomUp => self.write_tree(
                    out,
                    "Bottom up: the functions with the loss, and their callers",
                    &self.callers,
                )?,
            }
        }
        Ok(())
    }

    fn write_functions(&self, out: &mut String) -> std::fmt::Result {
        let mut functions: Vec<_> = self.functions.iter().zip(&self.times).collect();
        let loss = |times: &BothTimes| self.loss(times, false);
        functions.sort_by(|(_, one), (_, other)| loss(other).abs().total_cmp(&loss(one).abs()));
        writeln!(
            out,
            "\n    loss   time lost      before         now  function"
        )?;
        for ((name, image), times) in functions.iter().take(SHOWN) {
            let loss = loss(times);
            if self.share(loss).abs() < SMALLEST_SHARE {
                break;
            }
            let (before, now) = (times.base[super::OWN], times.run[super::OWN]);
            writeln!(
                out,
                "{}  {:>10}  {:>10}  {:>10}  {name} ({image})",
                self.percent(loss),
                self.told(loss),
                self.told(before as f64),
                self.told(now as f64),
            )?;
        }
        Ok(())
    }

    fn write_tree(&self, out: &mut String, title: &str, contexts: &[Context]) -> std::fmt::Result {
        writeln!(out, "\n{title}")?;
        writeln!(out, "    loss    in itself")?;
        let mut children = vec![Vec::new(); contexts.len()];
        let mut outermost = Vec::new();
        for (place, context) in contexts.iter().enumerate() {
            match context.parent {
                Some(parent) => children[parent].push(place),
                None => outermost.push(place),
            }
        }
        let loss = |place: usize| self.loss(&contexts[place].times, true);
        let by_loss = |one: &usize, other: &usize| loss(*one).abs().total_cmp(&loss(*other).abs());
        children.iter_mut().for_each(|list| list.sort_by(by_loss));
        outermost.sort_by(by_loss);
        let mut waiting: Vec<(usize, usize)> = Vec::new();
        waiting.extend(outermost.into_iter().map(|place| (place, 0)));
        while let Some((place, depth)) = waiting.pop() {
            let context = &contexts[place];
            let own = self.loss(&context.times, false);
            if self.share(loss(place)).abs() < SMALLEST_SHARE {
                continue;
            }
            let name = match depth == DEEPEST {
                true => "…",
                false => &self.functions[context.function.0].0,
            };
            writeln!(
                out,
                "{}     {}  {}{name}",
                self.percent(loss(place)),
                self.percent(own),
                "  ".repeat(depth)
            )?;
            if depth < DEEPEST {
                waiting.extend(children[place].iter().map(|&child| (child, depth + 1)));
            }
        }
        Ok(())
    }

    fn percent(&self, ns: f64) -> String {
        format!("{:>6.1} %", 100.0 * self.share(ns))
    }

    fn size_to_text(&self, run: &RunSize) -> String {
        let threads = match run.threads {
            1 => "1 thread".to_owned(),
            threads => format!("{threads} threads"),
        };
        let ranks = match run.ranks {
            0 => String::new(),
            ranks => format!(" of {ranks} ranks"),
        };
        let command = run.command.join(" ");
        let all = self.told(run.total_weight as f64);
        format!("{threads}{ranks}, {all}: {command}")
    }

    /// A weight, or the difference between two.
    fn told(&self, weight: f64) -> String {
        match &self.unit {
            Unit::Time => format!("{:.3} s", weight / 1e9),
            Unit::Events { .. } => format!("{weight:.0}"),
        }
    }
}
