//! When each thread spent its time, and where it spent most.

use std::fmt::Write;

use rustc_hash::FxHashMap;
use serde_json::{Value, json};
use unspool_profile_record::Sample;

use crate::named_paths::NamedPaths;
use crate::text::SHOWN;
use crate::unit::{Unit, seconds};

/// Stretches that the time from the first sample to the last is divided into.
const STRETCHES: usize = 60;

/// What stands for functions in text; those behind have the last one together.
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ*";

/// A run in stretches of equal length. A sample's time is taken to have passed just before it was taken.
#[derive(Debug, Clone, PartialEq)]
pub struct TimeLine {
    /// How long each stretch is.
    pub stretch_ns: f64,
    /// What weights are counted in.
    pub unit: Unit,
    /// The functions that threads spent most of their time in, those with the most of all stretches
    /// first.
    pub functions: Vec<String>,
    /// Threads, by process and number.
    pub threads: Vec<ThreadLine>,
}

/// A thread's stretches.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadLine {
    /// Its process.
    pub pid: u32,
    /// The rank of its process, if that is one of an MPI job.
    pub rank: Option<u32>,
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// One for each stretch.
    pub stretches: Vec<Stretch>,
}

/// What a thread did in one stretch.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stretch {
    /// The time that it spent, in nanoseconds, or the events that happened in it.
    pub spent: f64,
    /// The place, in the list, of the function that it spent most of that in itself.
    pub function: Option<usize>,
}

impl NamedPaths<'_> {
    /// When each thread spent its time.
    #[must_use]
    pub fn time_line(&self) -> TimeLine {
        let samples = &self.recording.samples;
        let unit = Unit::of(self.recording);
        // An event happens at a time, and does not take any.
        let length_ns = |sample: &Sample| match unit {
            Unit::Time => sample.weight,
            Unit::Events { .. } => 0,
        };
        let begins = samples
            .iter()
            .map(|it| it.time_ns.saturating_sub(length_ns(it)));
        let from_ns = begins.min().unwrap_or(0);
        let until_ns = samples.iter().map(|it| it.time_ns).max().unwrap_or(0);
        let stretch_ns = (until_ns.saturating_sub(from_ns) as f64 / STRETCHES as f64).max(1.0);
        let mut functions: Vec<(&str, f64)> = Vec::new();
        let mut places: FxHashMap<&str, usize> = FxHashMap::default();
        let mut threads = Vec::new();
        for ((pid, tid), samples) in self.by_thread() {
            let mut spent: Vec<FxHashMap<usize, f64>> = vec![FxHashMap::default(); STRETCHES];
            for sample in samples {
                let frame = self.frames(sample).first().copied();
                let innermost = frame.and_then(|frame| self.steps(frame).next());
                let name = innermost.map_or("[unknown]", |step| step.name);
                let function = *places.entry(name).or_insert_with(|| {
                    functions.push((name, 0.0));
                    functions.len() - 1
                });
                let end = (sample.time_ns - from_ns) as f64 / stretch_ns;
                if unit.event().is_some() {
                    let place = (end as usize).min(STRETCHES - 1);
                    *spent[place].entry(function).or_default() += sample.weight as f64;
                    continue;
                }
                let start = (end - length_ns(sample) as f64 / stretch_ns).max(0.0);
                for (place, stretch) in touched(&mut spent, start, end) {
                    let within = end.min((place + 1) as f64) - start.max(place as f64);
                    *stretch.entry(function).or_default() += within.max(0.0) * stretch_ns;
                }
            }
            let stretches = spent.into_iter().map(|by_function| {
                let most = by_function.iter().max_by(|one, other| {
                    let by_time = one.1.total_cmp(other.1);
                    by_time.then_with(|| other.0.cmp(one.0))
                });
                let function = most.filter(|(_, ns)| **ns > 0.0).map(|(place, _)| *place);
                if let Some(place) = function {
                    functions[place].1 += by_function[&place];
                }
                Stretch {
                    spent: by_function.values().sum(),
                    function,
                }
            });
            threads.push(ThreadLine {
                pid,
                rank: self.rank(pid),
                tid,
                name: self.thread_name((pid, tid)).to_owned(),
                stretches: stretches.collect(),
            });
        }
        let (functions, threads) = ordered(&functions, threads);
        TimeLine {
            stretch_ns,
            unit,
            functions,
            threads,
        }
    }
}

/// The stretches that a time touches, with their places. It is given in stretches.
fn touched<T>(stretches: &mut [T], start: f64, end: f64) -> impl Iterator<Item = (usize, &mut T)> {
    let last = (end as usize).min(stretches.len() - 1);
    let first = (start as usize).min(last);
    let all = stretches.iter_mut().enumerate();
    all.take(last + 1).skip(first)
}

/// Leaves out functions that are nowhere the first, and puts those with the most time first.
fn ordered(
    functions: &[(&str, f64)],
    mut threads: Vec<ThreadLine>,
) -> (Vec<String>, Vec<ThreadLine>) {
    let mut order: Vec<usize> = (0..functions.len()).collect();
    order.retain(|&place| functions[place].1 > 0.0);
    order.sort_by(|&one, &other| functions[other].1.total_cmp(&functions[one].1));
    let mut new_places = vec![None; functions.len()];
    for (new, &old) in order.iter().enumerate() {
        new_places[old] = Some(new);
    }
    for stretch in threads.iter_mut().flat_map(|thread| &mut thread.stretches) {
        stretch.function = stretch.function.and_then(|place| new_places[place]);
    }
    let names = order.iter().map(|&place| functions[place].0.to_owned());
    (names.collect(), threads)
}

impl TimeLine {
    /// The time line for people.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let stretch = seconds(self.stretch_ns as u64);
        writeln!(
            out,
            "\nTime line: {STRETCHES} stretches of {stretch}, from the first sample to the last"
        )?;
        match self.unit.event() {
            None => writeln!(
                out,
                "the time of each thread (· none, ▁ at most an eighth of the stretch, █ all of it), and \
                 where it spent most"
            )?,
            Some(event) => writeln!(
                out,
                "{event} of each thread (· none, ▁ at most an eighth of the most in any stretch, █ that), \
                 and where most happened"
            )?,
        }
        let mut shown: Vec<&ThreadLine> = self.threads.iter().collect();
        let spent = |thread: &ThreadLine| -> f64 {
            thread.stretches.iter().map(|stretch| stretch.spent).sum()
        };
        shown.sort_by(|one, other| spent(other).total_cmp(&spent(one)));
        shown.truncate(SHOWN);
        shown.sort_by_key(|thread| (thread.pid, thread.tid));
        for thread in &shown {
            let rank = thread
                .rank
                .map_or(String::new(), |rank| format!("rank {rank}, "));
            let (name, pid, tid) = (&thread.name, thread.pid, thread.tid);
            let levels: String = thread.stretches.iter().map(|it| self.level(it)).collect();
            let letters: String = thread.stretches.iter().map(letter).collect();
            writeln!(out, "{name} ({rank}process {pid}, thread {tid})")?;
            writeln!(out, "  {levels}\n  {letters}")?;
        }
        if self.threads.len() > shown.len() {
            let more = self.threads.len() - shown.len();
            writeln!(out, "and {more} more threads, with less time")?;
        }
        let alone = LETTERS.len() - 1;
        for (letter, name) in LETTERS[..alone].iter().zip(&self.functions) {
            writeln!(out, "{} {name}", char::from(*letter))?;
        }
        if self.functions.len() > alone {
            let more = self.functions.len() - alone;
            writeln!(out, "* {more} more functions")?;
        }
        Ok(())
    }

    /// What fills a stretch.
    fn all(&self) -> f64 {
        let stretches = self.threads.iter().flat_map(|thread| &thread.stretches);
        match self.unit {
            Unit::Time => self.stretch_ns,
            Unit::Events { .. } => stretches.map(|it| it.spent).fold(1.0, f64::max),
        }
    }

    fn level(&self, stretch: &Stretch) -> char {
        const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        if stretch.spent <= 0.0 {
            return '·';
        }
        // What adding rounds is no further level.
        let eighths = 8.0 * stretch.spent / self.all() - 1e-6;
        LEVELS[(eighths.max(0.0) as usize).min(LEVELS.len() - 1)]
    }

    /// The time line for programs: times in seconds, or numbers of events.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let threads = self.threads.iter().map(|thread| {
            let stretches = thread.stretches.iter();
            let functions = thread.stretches.iter().map(|stretch| stretch.function);
            json!({
                "pid": thread.pid,
                "rank": thread.rank,
                "tid": thread.tid,
                "name": thread.name,
                "spent": stretches.map(|it| self.unit.number(it.spent)).collect::<Vec<_>>(),
                "function": functions.collect::<Vec<_>>(),
            })
        });
        json!({
            "stretch": self.stretch_ns / 1e9,
            "functions": self.functions,
            "threads": threads.collect::<Vec<_>>(),
        })
    }
}

fn letter(stretch: &Stretch) -> char {
    let Some(place) = stretch.function else {
        return ' ';
    };
    char::from(LETTERS[place.min(LETTERS.len() - 1)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recordings::of_threads;

    const SECOND: u64 = 1_000_000_000;

    /// The recording has the threads one after another.
    #[test]
    fn threads_have_their_time_when_they_spent_it() {
        let recording = of_threads(&[
            &[(&["main", "f"], SECOND), (&["main", "g"], SECOND)],
            &[(&["g"], SECOND)],
            &[],
        ]);
        let line = NamedPaths::new(&recording).time_line();
        assert_eq!(line.functions, ["g+0x10", "f+0x10"]);
        assert_eq!(line.threads.len(), 2, "one has no sample");
        let thread = |place: usize| {
            let stretches = &line.threads[place].stretches;
            let text: String = stretches.iter().map(letter).collect();
            let levels: String = stretches.iter().map(|it| line.level(it)).collect();
            (text, levels)
        };
        let third = STRETCHES / 3;
        let (full, none) = ("█".repeat(third), "·".repeat(third));
        let [f, g, nobody] = ["B", "A", " "].map(|letter| letter.repeat(third));
        assert_eq!(
            thread(0),
            (format!("{f}{g}{nobody}"), format!("{full}{full}{none}"))
        );
        assert_eq!(
            thread(1),
            (
                format!("{nobody}{nobody}{g}"),
                format!("{none}{none}{full}")
            )
        );
        let spent: f64 = line.threads[0].stretches.iter().map(|it| it.spent).sum();
        assert!((spent - 2e9).abs() < 1.0, "{spent}");
    }

    /// A part of a stretch is that part of its height; functions beyond the alphabet share a sign.
    #[test]
    fn parts_and_many_functions_are_told() {
        let names: Vec<String> = (0..30).map(|number| format!("f{number}")).collect();
        let paths: Vec<[&str; 1]> = names.iter().map(|name| [name.as_str()]).collect();
        let mut times: Vec<(&[&str], u64)> = Vec::new();
        times.extend(paths.iter().map(|path| (&path[..], 2 * SECOND)));
        let mut recording = of_threads(&[&times]);
        for sample in &mut recording.samples {
            sample.weight /= 4;
        }
        let line = NamedPaths::new(&recording).time_line();
        let text = line.to_text();
        assert!(text.contains("\n* 4 more functions\n"), "{text}");
        let stretches = &line.threads[0].stretches;
        let busy = stretches.iter().filter(|it| it.spent > 0.0).count();
        assert!((30..60).contains(&busy), "{text}");
        assert!(text.contains('▄') || text.contains('▅'), "{text}");
    }

    #[test]
    fn a_recording_without_samples_has_no_line() {
        let line = NamedPaths::new(&of_threads(&[])).time_line();
        assert!(line.threads.is_empty() && line.functions.is_empty());
        assert!(line.to_text().starts_with("\nTime line: 60 stretches"));
    }
}
