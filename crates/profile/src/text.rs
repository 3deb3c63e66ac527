//! The profile for people.

use std::collections::BTreeMap;
use std::fmt::Write;

use unspool_profile_record::{Event, EventCount, Rate, Source};

use crate::call_tree::CallTree;
use crate::loop_times::LoopTime;
use crate::metric_values::Known;
use crate::profile::{Function, Preempted, Profile};
use crate::unit::{Unit, seconds};

/// Functions, lines and threads of a list that are shown.
pub(crate) const SHOWN: usize = 20;
/// What takes less than this share of the time is not shown in trees: one in so many.
const SMALLEST_SHARE: u64 = 100;
/// How deep trees are shown.
pub(crate) const DEEPEST: usize = 60;

/// What is shown of a profile, besides how it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Functions and lines.
    Flat,
    /// Where most of the time is, from above.
    HotPath,
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
                View::HotPath => self.write_hot_path(out)?,
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
            self.write_metrics(out)?;
            self.write_loops(out)?;
            self.write_spread(out)?;
            self.write_threads(out)?;
        }
        Ok(())
    }

    fn write_summary(&self, out: &mut String) -> std::fmt::Result {
        match &self.unit {
            Unit::Time => self.write_times(out)?,
            Unit::Events { event, counted } => self.write_events(out, event, *counted)?,
        }
        if self.lost > 0 {
            let lost = self.lost;
            writeln!(
                out,
                "{lost} samples were lost: the recorder did not keep up"
            )?;
        }
        if let Some(Preempted { times, ns }) = self.preempted {
            let time = seconds(ns);
            writeln!(
                out,
                "{times} times threads had no processor though they could have gone on, for {time}"
            )?;
        }
        self.write_window(out)?;
        self.write_regions(out)?;
        self.write_source(out)?;
        self.write_quality(out)
    }

    /// Of what samples there are, if they are of events.
    fn write_events(
        &self,
        out: &mut String,
        event: &Event,
        counted: Option<EventCount>,
    ) -> std::fmt::Result {
        let name = &event.name;
        writeln!(out, "Where {name} happened")?;
        let often = match event.rate {
            Rate::Period(period) => format!("one for each {period} of them"),
            Rate::Frequency(frequency) => format!("about {frequency} in a second of a thread"),
        };
        let (samples, all) = (self.samples, self.total_weight);
        write!(out, "{samples} samples, {often}: {all} {name}")?;
        match counted {
            None => writeln!(out, ", up to where the recording ends")?,
            Some(counted) => {
                writeln!(out, "; the kernel counted {} in all", counted.count)?;
                let share = 100.0 * counted.running_ns as f64 / counted.enabled_ns.max(1) as f64;
                if share < 99.0 {
                    writeln!(
                        out,
                        "they were counted for {share:.1} % of the time: the processor does not count so \
                         many events at once; figures are of that part"
                    )?;
                }
            }
        }
        Ok(())
    }

    /// Of what samples there are, if they are of time.
    fn write_times(&self, out: &mut String) -> std::fmt::Result {
        let source = self.settings.map(|settings| settings.source);
        let kind = match source {
            Some(Source::KernelWaits) => "waiting",
            Some(Source::WallTimers) => "time",
            _ => "CPU time",
        };
        if source == Some(Source::KernelWaits) {
            writeln!(out, "Where threads waited")?;
            write!(out, "{} waits", self.samples)?;
        } else {
            writeln!(out, "{}", self.command.join(" "))?;
            write!(out, "{} samples", self.samples)?;
            if let Some(settings) = self.settings {
                let period_ms = settings.period_ns as f64 / 1e6;
                write!(out, ", one for each {period_ms} ms of a thread's {kind}")?;
            }
        }
        write!(out, ": {}", seconds(self.total_weight))?;
        match self.ending {
            Some(ending) if self.counted_by_system().is_some() => {
                let (user, system) = (seconds(ending.user_ns), seconds(ending.system_ns));
                let elapsed = seconds(ending.elapsed_ns);
                writeln!(
                    out,
                    " of {kind}\nthe system counted {user} in user mode and {system} in the \
                     kernel, in {elapsed}"
                )?;
            }
            Some(ending) => {
                let elapsed = seconds(ending.elapsed_ns);
                writeln!(out, " of {kind}, in {elapsed} from the first to the last")?;
                writeln!(out, "perf record has taken the samples")?;
            }
            None => writeln!(out, " of {kind}, up to where the recording ends")?,
        }
        Ok(())
    }

    fn write_quality(&self, out: &mut String) -> std::fmt::Result {
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

    /// Which part of the run samples are of.
    fn write_window(&self, out: &mut String) -> std::fmt::Result {
        let Some(window) = self.window else {
            return Ok(());
        };
        let elapsed_ns = self.ending.map(|ending| ending.elapsed_ns);
        let ends = [window.until_ns, elapsed_ns].into_iter().flatten().min();
        let from = seconds(window.from_ns);
        let until = ends.map_or("its end".to_owned(), seconds);
        write!(out, "samples are of the run from {from} to {until}")?;
        if let Some((ends, elapsed_ns)) = ends.zip(elapsed_ns) {
            let part = ends.saturating_sub(window.from_ns) as f64;
            let share = 100.0 * part / elapsed_ns.max(1) as f64;
            write!(out, ", {share:.1} % of it; other figures are of all of it")?;
        }
        writeln!(out)
    }

    /// Which regions samples are of.
    fn write_regions(&self, out: &mut String) -> std::fmt::Result {
        let Some(regions) = self.regions else {
            return Ok(());
        };
        let (entered, time) = (regions.entered, seconds(regions.inside_ns));
        writeln!(
            out,
            "samples are of regions of interest: {entered} were entered, and processes were in them for \
             {time}"
        )?;
        if regions.lost_marks > 0 {
            let lost = regions.lost_marks;
            writeln!(
                out,
                "{lost} times a process entered or left one and was not heard: the recorder did not keep up"
            )?;
        }
        if regions.processes_elsewhere > 0 {
            let elsewhere = regions.processes_elsewhere;
            writeln!(
                out,
                "{elsewhere} processes were not heard: they are in another PID namespace"
            )?;
        }
        Ok(())
    }

    /// What the way in which samples were taken says of them.
    fn write_source(&self, out: &mut String) -> std::fmt::Result {
        let Some(settings) = self.settings else {
            return Ok(());
        };
        if settings.source == Source::PerfRecord {
            return Ok(());
        }
        if matches!(settings.source, Source::Kernel | Source::KernelWaits) {
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
        // A program can write anything to what it shares.
        let told = counted.sampled.saturating_add(counted.without_room);
        match counted.expirations.saturating_sub(told) {
            0 => writeln!(out)?,
            cut => writeln!(out, ", {cut} were of threads that ended meanwhile")?,
        }
        let expired_ns = counted.expirations.saturating_mul(settings.period_ns);
        writeln!(
            out,
            "one sample stands for {} ms at most; the clocks of the threads counted {}, of which {} \
             came after the last sample of each",
            self.heaviest as f64 / 1e6,
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
        let heading = self.unit.self_heading();
        writeln!(out, "\n    self   total  {heading}  function")?;
        for function in self.by_self().into_iter().take(SHOWN) {
            let (own, all) = (
                self.percent(function.self_weight),
                self.percent(function.total_weight),
            );
            let image = function.image.rsplit('/').next().unwrap_or_default();
            let time = self.unit.told(function.self_weight);
            writeln!(out, "{own} {all}  {time:>9}  {} ({image})", function.name)?;
        }
        if self.functions.len() > SHOWN {
            let more = self.functions.len() - SHOWN;
            writeln!(out, "                          and {more} more functions")?;
        }
        if !self.lines.is_empty() {
            let heading = self.unit.self_heading();
            writeln!(out, "\n    self  {heading}  line")?;
        }
        for line in self.lines.iter().take(SHOWN) {
            let own = self.percent(line.self_weight);
            let time = self.unit.told(line.self_weight);
            let function = &self.functions[line.function.0].name;
            writeln!(out, "{own}  {time:>9}  {} in {function}", line.line)?;
        }
        Ok(())
    }

    /// For each metric, the functions with the greatest values.
    fn write_metrics(&self, out: &mut String) -> std::fmt::Result {
        for metric in &self.metrics {
            let mut values: Vec<(f64, &Function)> = self
                .functions
                .iter()
                .enumerate()
                .filter_map(|(place, it)| {
                    let value = self.value_of(metric, Known::of(place, it))?;
                    Some((value, it))
                })
                .collect();
            values.sort_by(|one, other| {
                let by_time = other.1.self_weight.cmp(&one.1.self_weight);
                other.0.total_cmp(&one.0).then(by_time)
            });
            let (name, formula) = (metric.name(), metric.formula());
            writeln!(
                out,
                "\n{name} = {formula}\n       value  {}  function",
                self.unit.self_heading()
            )?;
            for (value, function) in values.iter().take(SHOWN) {
                let time = self.unit.told(function.self_weight);
                writeln!(out, "{value:>12.4}  {time:>9}  {}", function.name)?;
            }
            let without = self.functions.len() - values.len();
            if without > 0 {
                writeln!(out, "{without} functions have none")?;
            }
        }
        Ok(())
    }

    /// The loops with the most time, each with those around it.
    fn write_loops(&self, out: &mut String) -> std::fmt::Result {
        let least = self.total_weight.div_ceil(SMALLEST_SHARE).max(1);
        let mut loops: Vec<&LoopTime> = self.loops.iter().collect();
        loops.retain(|one| one.total_weight >= least);
        loops.sort_by_key(|one| std::cmp::Reverse((one.self_weight, one.total_weight)));
        if !loops.is_empty() {
            let heading = self.unit.self_heading();
            writeln!(out, "\n    self   total  {heading}  loop")?;
        }
        for one in loops.iter().take(SHOWN) {
            let (own, all) = (
                self.percent(one.self_weight),
                self.percent(one.total_weight),
            );
            let time = self.unit.told(one.self_weight);
            let place = |one: &LoopTime| match &one.code.line {
                Some(line) => line.to_string(),
                None => format!("{:#x}", one.code.address),
            };
            let around = one.code.parent.map(|parent| place(&self.loops[parent]));
            let around = around.map_or(String::new(), |place| format!(", within {place}"));
            writeln!(
                out,
                "{own} {all}  {time:>9}  {} in {}{around}",
                place(one),
                one.function
            )?;
        }
        Ok(())
    }

    /// The functions in which threads spend different times: those first for which threads that do
    /// less would wait longest if all of them met behind it.
    fn write_spread(&self, out: &mut String) -> std::fmt::Result {
        let threads = self.threads.len();
        if threads < 2 {
            return Ok(());
        }
        let waiting = |function: &Function| {
            (function.spread.most as f64 - function.spread.mean) * threads as f64
        };
        let mut functions: Vec<&Function> = self.functions.iter().collect();
        functions.sort_by(|one, other| waiting(other).total_cmp(&waiting(one)));
        writeln!(
            out,
            "\n    mean    least     most  deviation  {} of the {threads} threads in",
            self.unit.self_heading().trim_start()
        )?;
        for function in functions.into_iter().take(SHOWN) {
            let least = self.total_weight as f64 / SMALLEST_SHARE as f64;
            if waiting(function) < least {
                break;
            }
            let spread = &function.spread;
            let [mean, deviation] =
                [spread.mean, spread.deviation].map(|weight| self.unit.told(weight as u64));
            let [least, most] = [spread.least, spread.most].map(|weight| self.unit.told(weight));
            writeln!(
                out,
                "{mean:>8} {least:>8} {most:>8}   {deviation:>8}  {}",
                function.name
            )?;
        }
        Ok(())
    }

    fn write_threads(&self, out: &mut String) -> std::fmt::Result {
        self.write_ranks(out)?;
        let heading = self.unit.self_heading();
        writeln!(out, "\n   share  {heading}  thread")?;
        let mut threads: Vec<_> = self.threads.iter().collect();
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.self_weight));
        for thread in threads.iter().take(SHOWN) {
            let own = self.percent(thread.self_weight);
            let time = self.unit.told(thread.self_weight);
            let (name, pid, tid) = (&thread.name, thread.pid, thread.tid);
            let rank = thread
                .rank
                .map_or(String::new(), |rank| format!("rank {rank}, "));
            writeln!(
                out,
                "{own}  {time:>9}  {name} ({rank}process {pid}, thread {tid})"
            )?;
        }
        if threads.len() > SHOWN {
            let more = threads.len() - SHOWN;
            writeln!(out, "                     and {more} more threads")?;
        }
        Ok(())
    }

    /// The processes of an MPI job, by their ranks.
    fn write_ranks(&self, out: &mut String) -> std::fmt::Result {
        let mut ranks: BTreeMap<u32, u64> = BTreeMap::new();
        for thread in &self.threads {
            if let Some(rank) = thread.rank {
                let spent = ranks.entry(rank).or_default();
                *spent = spent.saturating_add(thread.self_weight);
            }
        }
        if ranks.is_empty() {
            return Ok(());
        }
        let heading = self.unit.self_heading();
        writeln!(out, "\n   share  {heading}  rank")?;
        for (rank, &ns) in ranks.iter().take(SHOWN) {
            let (own, time) = (self.percent(ns), self.unit.told(ns));
            writeln!(out, "{own}  {time:>9}  rank {rank}")?;
        }
        if ranks.len() > SHOWN {
            let more = ranks.len() - SHOWN;
            writeln!(out, "                     and {more} more ranks")?;
        }
        Ok(())
    }

    /// From the outermost function with the most time to the one it calls with the most, as long as
    /// that has at least half of it.
    fn write_hot_path(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "\nHot path: most of the time, until it divides\n   total    self"
        )?;
        let (children, outermost) = self.tree.children();
        let mut next = outermost.first().copied();
        let mut depth = 0;
        while let Some(place) = next {
            let node = &self.tree.nodes()[place];
            let (all, own) = (
                self.percent(node.total_weight),
                self.percent(node.self_weight),
            );
            let name = &self.functions[node.function.0].name;
            writeln!(
                out,
                "{all} {own}  {}{name}",
                "  ".repeat(depth.min(DEEPEST))
            )?;
            let called = children[place].first().copied();
            next = called.filter(|&called| {
                let called_ns = self.tree.nodes()[called].total_weight;
                called_ns >= node.total_weight.div_ceil(2)
            });
            depth += 1;
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
            if node.total_weight < self.total_weight.div_ceil(SMALLEST_SHARE) {
                continue;
            }
            let (all, own) = (
                self.percent(node.total_weight),
                self.percent(node.self_weight),
            );
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
        let share = ns as f64 / self.total_weight.max(1) as f64;
        format!("{:>6.1} %", 100.0 * share)
    }
}

/// Text of others' without what would end a line or command a terminal.
pub(crate) fn printable(text: &str) -> String {
    let character = |character: char| match character.is_control() {
        true => ' ',
        false => character,
    };
    text.chars().map(character).collect()
}

#[cfg(test)]
mod tests {
    use unspool_profile_record::{Counted, Ending, Settings, Window};

    use super::*;
    use crate::named_paths::NamedPaths;
    use crate::recordings::of_paths;

    const SECOND: u64 = 1_000_000_000;

    fn summary(window: Option<Window>, counted: Option<Counted>) -> String {
        let mut recording = of_paths(&[(&["main"], SECOND)]);
        recording.window = window;
        recording.counted = counted;
        recording.settings = Some(Settings {
            period_ns: u64::MAX,
            stack_bytes: 512,
            includes_kernel: false,
            source: Source::CpuTimers,
        });
        recording.ending = Some(Ending {
            elapsed_ns: 4 * SECOND,
            user_ns: SECOND,
            system_ns: 0,
        });
        recording.ranks.insert(7, 3);
        Profile::new(&NamedPaths::new(&recording)).to_text(&[View::Flat])
    }

    #[test]
    fn a_part_of_a_run_ends_with_it() {
        let window = |from_ns, until_ns| {
            let text = summary(Some(Window { from_ns, until_ns }), None);
            let line = text.lines().find(|line| line.starts_with("samples are"));
            line.unwrap_or_default().to_owned()
        };
        let all = "; other figures are of all of it";
        let expected = format!("samples are of the run from 1.000 s to 3.000 s, 50.0 % of it{all}");
        assert_eq!(window(SECOND, Some(3 * SECOND)), expected);
        let expected = format!("samples are of the run from 1.000 s to 4.000 s, 75.0 % of it{all}");
        assert_eq!(window(SECOND, None), expected);
        assert_eq!(window(SECOND, Some(9 * SECOND)), expected);
        assert!(window(5 * SECOND, None).contains(" 0.0 %"));
        assert!(!summary(None, None).contains("samples are of"));
    }

    #[test]
    fn the_hot_path_ends_where_time_divides() {
        let recording = of_paths(&[
            (&["main", "work", "left"], 4 * SECOND),
            (&["main", "work", "right"], 3 * SECOND),
            (&["main", "work"], 2 * SECOND),
            (&["main", "rest"], SECOND),
        ]);
        let text = Profile::new(&NamedPaths::new(&recording)).to_text(&[View::HotPath]);
        let (_, path) = text.split_once("total    self\n").expect("a path");
        let shown: Vec<&str> = path.lines().collect();
        let expected = [
            " 100.0 %    0.0 %  main+0x10",
            "  90.0 %   20.0 %    work+0x10",
        ];
        assert_eq!(shown, expected, "{text}");
    }

    #[test]
    fn ranks_are_told_beside_processes() {
        let text = summary(None, None);
        assert!(text.contains("1.000 s  rank 3\n"), "{text}");
        assert!(
            text.contains("worker (rank 3, process 7, thread 7)"),
            "{text}"
        );
    }

    /// A program can write anything into memory that it shares.
    #[test]
    fn counts_of_any_size_are_told() {
        let most = u64::MAX;
        let counted = Counted {
            expirations: most,
            sampled: most,
            without_room: most,
            used_ns: most,
            threads_left_out: most,
        };
        assert!(summary(None, Some(counted)).contains("timers expired"));
    }
}
