//! The profile for people.

use std::fmt::Write;

use unspool_profile_record::Source;

use crate::call_tree::CallTree;
use crate::profile::Profile;

/// Functions, lines and threads of a list that are shown.
const SHOWN: usize = 20;
/// What takes less than this share of the time is not shown in trees: one in so many.
const SMALLEST_SHARE: u64 = 100;
/// How deep trees are shown.
const DEEPEST: usize = 60;

/// What is shown of a profile, besides how it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Functions and lines.
    Flat,
    /// What each function called.
    TopDown,
    /// What each function was called by.
    BottomUp,
}

impl Profile {
    /// The profile as text.
    #[must_use]
    pub fn to_text(&self, views: &[View]) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, views);
        text
    }

    fn write(&self, out: &mut String, views: &[View]) -> std::fmt::Result {
        self.write_summary(out)?;
        for view in views {
            match view {
                View::Flat => self.write_flat(out)?,
                View::TopDown => {
                    writeln!(out, "\nTop down: what was called from where")?;
                    self.write_tree(out, &self.tree)?;
                }
                View::BottomUp => {
                    writeln!(
                        out,
                        "\nBottom up: the functions with the time, and their callers"
                    )?;
                    self.write_tree(out, &self.tree.callers())?;
                }
            }
        }
        if views.contains(&View::Flat) {
            self.write_threads(out)?;
        }
        Ok(())
    }

    fn write_summary(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "{}", self.command.join(" "))?;
        let source = self.settings.map(|settings| settings.source);
        let kind = match source {
            Some(Source::WallTimers) => "time",
            _ => "CPU time",
        };
        write!(out, "{} samples", self.samples)?;
        if let Some(settings) = self.settings {
            let period_ms = settings.period_ns as f64 / 1e6;
            write!(out, ", one for each {period_ms} ms of a thread's {kind}")?;
        }
        write!(out, ": {}", seconds(self.total_ns))?;
        match self.ending {
            Some(ending) => {
                let (user, system) = (seconds(ending.user_ns), seconds(ending.system_ns));
                let elapsed = seconds(ending.elapsed_ns);
                writeln!(
                    out,
                    " of {kind}\nthe system counted {user} in user mode and {system} in the \
                     kernel, in {elapsed}"
                )?;
            }
            None => writeln!(out, " of {kind}, up to where the recording ends")?,
        }
        if self.lost > 0 {
            let lost = self.lost;
            writeln!(
                out,
                "{lost} samples were lost: the recorder did not keep up"
            )?;
        }
        self.write_source(out)?;
        let quality = &self.quality;
        writeln!(
            out,
            "unwinds: {} complete, {} cut off, {} failed, {} without a stack; callers: {} confirmed, \
             {} probable, {} wrong; failure rate {:.4} %",
            quality.complete,
            quality.cut_off,
            quality.failed,
            quality.without_stack,
            quality.confirmed,
            quality.probable,
            quality.wrong,
            100.0 * quality.failure_rate(),
        )?;
        if quality.cut_off > 0 {
            writeln!(out, "--stack-bytes looks at more of each stack")?;
        }
        Ok(())
    }

    /// What the way in which samples were taken says of them.
    fn write_source(&self, out: &mut String) -> std::fmt::Result {
        let Some(settings) = self.settings else {
            return Ok(());
        };
        if settings.source == Source::Kernel {
            if !settings.includes_kernel {
                writeln!(
                    out,
                    "time in the kernel is missing: sysctl kernel.perf_event_paranoid=1 lets it be \
                     sampled"
                )?;
            }
            return Ok(());
        }
        writeln!(
            out,
            "timers inside the program took the samples: time in the kernel is that of the \
             functions that called it"
        )?;
        let Some(counted) = self.counted else {
            return Ok(());
        };
        write!(
            out,
            "timers expired {} times: samples stand for {}, {} found no room",
            counted.expirations, counted.sampled, counted.without_room
        )?;
        let told = counted.sampled + counted.without_room;
        match counted.expirations.saturating_sub(told) {
            0 => writeln!(out)?,
            cut => writeln!(out, ", {cut} were of threads that ended meanwhile")?,
        }
        let expired_ns = counted.expirations.saturating_mul(settings.period_ns);
        writeln!(
            out,
            "one sample stands for {} ms at most; the clocks of the threads counted {}, of which {} \
             came after the last sample of each",
            self.longest_ns as f64 / 1e6,
            seconds(counted.used_ns),
            seconds(counted.used_ns.saturating_sub(expired_ns))
        )?;
        if counted.threads_left_out > 0 {
            let threads = counted.threads_left_out;
            writeln!(out, "{threads} threads had no timer and are missing")?;
        }
        Ok(())
    }

    fn write_flat(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "\n    self   total  self time  function")?;
        for function in self.by_self().into_iter().take(SHOWN) {
            let (own, all) = (
                self.percent(function.self_ns),
                self.percent(function.total_ns),
            );
            let image = function.image.rsplit('/').next().unwrap_or_default();
            let time = seconds(function.self_ns);
            writeln!(out, "{own} {all}  {time:>9}  {} ({image})", function.name)?;
        }
        if self.functions.len() > SHOWN {
            let more = self.functions.len() - SHOWN;
            writeln!(out, "                          and {more} more functions")?;
        }
        if !self.lines.is_empty() {
            writeln!(out, "\n    self  self time  line")?;
        }
        for line in self.lines.iter().take(SHOWN) {
            let own = self.percent(line.self_ns);
            let time = seconds(line.self_ns);
            let function = &self.functions[line.function.0].name;
            writeln!(out, "{own}  {time:>9}  {} in {function}", line.line)?;
        }
        Ok(())
    }

    fn write_threads(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "\n    time  self time  thread")?;
        let mut threads: Vec<_> = self.threads.iter().collect();
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.self_ns));
        for thread in threads.iter().take(SHOWN) {
            let own = self.percent(thread.self_ns);
            let time = seconds(thread.self_ns);
            let (name, pid, tid) = (&thread.name, thread.pid, thread.tid);
            writeln!(
                out,
                "{own}  {time:>9}  {name} (process {pid}, thread {tid})"
            )?;
        }
        if threads.len() > SHOWN {
            let more = threads.len() - SHOWN;
            writeln!(out, "                     and {more} more threads")?;
        }
        Ok(())
    }

    fn write_tree(&self, out: &mut String, tree: &CallTree) -> std::fmt::Result {
        writeln!(out, "   total    self")?;
        let (children, outermost) = tree.children();
        let mut waiting: Vec<(usize, usize)> = Vec::new();
        waiting.extend(outermost.into_iter().rev().map(|place| (place, 0)));
        while let Some((place, depth)) = waiting.pop() {
            let node = &tree.nodes()[place];
            if node.total_ns < self.total_ns.div_ceil(SMALLEST_SHARE) {
                continue;
            }
            let (all, own) = (self.percent(node.total_ns), self.percent(node.self_ns));
            let name = &self.functions[node.function.0].name;
            if depth == DEEPEST {
                writeln!(out, "{all} {own}  {}…", "  ".repeat(depth))?;
                continue;
            }
            writeln!(out, "{all} {own}  {}{name}", "  ".repeat(depth))?;
            let below = children[place].iter().rev();
            waiting.extend(below.map(|&child| (child, depth + 1)));
        }
        Ok(())
    }

    /// A share of the whole time, in eight columns.
    fn percent(&self, ns: u64) -> String {
        let share = ns as f64 / self.total_ns.max(1) as f64;
        format!("{:>6.1} %", 100.0 * share)
    }
}

fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}
