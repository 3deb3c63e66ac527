//! The intermediate trace of one thread.
//!
//! ```text
//! file     := "Trace for thread " number NL ["Thread is master" NL] item*
//! item     := interval | event                     ; intervals first, at every level
//! interval := "B" handle ":" btime ":" dtime ":" counter ":" avg ":" max NL item* "E" handle NL
//! event    := handle ":" btime ":" dtime ":" counter ":" wtime ":" stime ":" avg_dtime ":"
//!             max_dtime ":" avg_wtime ":" max_wtime ":" avg_stime ":" max_stime NL
//! ```
//!
//! Times are milliseconds, in files of the original whole ones. An item's number, by which
//! all else refers to it, is the line it stands on; a line may also start with its number.

use std::fmt::Write;

/// What is wrong in a trace, and on which line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct TraceProblem {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

/// A thread's trace.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ThreadTrace {
    /// The thread's number.
    pub thread: u64,
    /// Whether it is the master.
    pub is_master: bool,
    /// Whether it has only whole milliseconds: then it is the original's, which adds up
    /// moments where synchronisation times should be.
    pub is_whole: bool,
    /// What is outside intervals, and intervals.
    pub items: Vec<Item>,
}

/// An interval or an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// An interval.
    Interval(Interval),
    /// An event.
    Event(Event),
}

/// An interval, and what happened in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// The interval's number: the line that it stands on.
    pub number: usize,
    /// The interval's handle.
    pub handle: u64,
    /// When the interval last began.
    pub begin: f64,
    /// How long all passages of the interval took.
    pub duration: f64,
    /// How often the interval was passed.
    pub count: u64,
    /// The longest passage of the interval; the original leaves 0.
    pub longest: f64,
    /// What happened in the interval.
    pub items: Vec<Item>,
}

/// An event within one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The event's number: the line that it stands on.
    pub number: usize,
    /// The event's handle.
    pub handle: u64,
    /// When the event last began.
    pub begin: f64,
    /// How often the event happened.
    pub count: u64,
    /// How long the event took.
    pub duration: Statistics,
    /// How long the thread waited before the event.
    pub wait: Statistics,
    /// How long the thread synchronised after the event. The original adds up moments here.
    pub synchronisation: Statistics,
}

/// A sum and its largest part.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Statistics {
    /// The sum of all times.
    pub sum: f64,
    /// The largest of the times.
    pub longest: f64,
}

impl ThreadTrace {
    /// Reads a trace. What cannot be read is listed and left out.
    #[must_use]
    pub fn parse(text: &str) -> (ThreadTrace, Vec<TraceProblem>) {
        let mut reader = Reader::default();
        for (index, line) in text.lines().enumerate() {
            reader.read_line(index + 1, line.trim());
        }
        reader.finish(text.lines().count())
    }

    /// The trace as a file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("Trace for thread {}\n", self.thread);
        if self.is_master {
            text.push_str("Thread is master\n");
        }
        let is_whole = self.is_whole;
        let mut writer = Writer { text, is_whole };
        writer.items(&self.items);
        writer.text
    }
}

#[derive(Default)]
struct Reader {
    has_fractions: bool,
    trace: ThreadTrace,
    has_title: bool,
    open: Vec<Interval>,
    problems: Vec<TraceProblem>,
}

impl Reader {
    fn problem(&mut self, line: usize, what: impl Into<String>) {
        let what = what.into();
        self.problems.push(TraceProblem { line, what });
    }

    fn read_line(&mut self, line: usize, text: &str) {
        if let Some(thread) = text.strip_prefix("Trace for thread ") {
            self.has_title = true;
            match thread.trim().parse() {
                Ok(thread) => self.trace.thread = thread,
                Err(_) => self.problem(line, format!("{thread:?} is no thread number")),
            }
            return;
        }
        if text == "Thread is master" {
            self.trace.is_master = true;
            return;
        }
        if text.is_empty() {
            return;
        }
        let (number, record) = match text.split_once(' ') {
            Some((number, rest)) => match number.parse() {
                Ok(number) => (number, rest.trim()),
                Err(_) => return self.problem(line, "this is no record"),
            },
            None => (line, text),
        };
        match record.as_bytes().first() {
            Some(b'B') => self.begin_interval(line, number, &record[1..]),
            Some(b'E') => self.end_interval(line, &record[1..]),
            _ => self.event(line, number, record),
        }
    }

    fn begin_interval(&mut self, line: usize, number: usize, record: &str) {
        let Some((handle, [begin, duration, count, _, longest])) = self.fields(line, record) else {
            return;
        };
        self.open.push(Interval {
            number,
            handle,
            begin,
            duration,
            count: count as u64,
            longest,
            items: Vec::new(),
        });
    }

    fn end_interval(&mut self, line: usize, record: &str) {
        let Ok(handle) = record.trim().parse::<u64>() else {
            return self.problem(line, "the end of an interval has no handle");
        };
        let Some(position) = self.open.iter().rposition(|open| open.handle == handle) else {
            return self.problem(line, format!("interval {handle} ends and has not begun"));
        };
        while self.open.len() > position + 1 {
            self.close(line);
        }
        if let Some(interval) = self.open.pop() {
            self.items().push(Item::Interval(interval));
        }
    }

    /// Closes an interval that does not end.
    fn close(&mut self, line: usize) {
        if let Some(interval) = self.open.pop() {
            self.problem(line, format!("interval {} does not end", interval.handle));
            self.items().push(Item::Interval(interval));
        }
    }

    fn items(&mut self) -> &mut Vec<Item> {
        match self.open.last_mut() {
            Some(interval) => &mut interval.items,
            None => &mut self.trace.items,
        }
    }

    fn event(&mut self, line: usize, number: usize, record: &str) {
        let Some((handle, fields)) = self.fields::<11>(line, record) else {
            return;
        };
        let [
            begin,
            duration,
            count,
            wait,
            synchronisation,
            _,
            longest,
            _,
            longest_wait,
            _,
            longest_synchronisation,
        ] = fields;
        let event = Event {
            number,
            handle,
            begin,
            count: count as u64,
            duration: Statistics {
                sum: duration,
                longest,
            },
            wait: Statistics {
                sum: wait,
                longest: longest_wait,
            },
            synchronisation: Statistics {
                sum: synchronisation,
                longest: longest_synchronisation,
            },
        };
        self.items().push(Item::Event(event));
    }

    fn fields<const COUNT: usize>(
        &mut self,
        line: usize,
        record: &str,
    ) -> Option<(u64, [f64; COUNT])> {
        let mut parts = record.split(':');
        let handle = parts.next().unwrap_or("").trim();
        let Ok(handle) = handle.parse() else {
            self.problem(line, format!("{handle:?} is no handle"));
            return None;
        };
        let values: Vec<&str> = parts.collect();
        self.has_fractions |= record.contains('.');
        if values.len() != COUNT {
            self.problem(
                line,
                format!("{} figures stand where {COUNT} belong", values.len()),
            );
            return None;
        }
        let mut fields = [0.0; COUNT];
        for (field, value) in fields.iter_mut().zip(values) {
            match value.trim().parse::<f64>() {
                Ok(number) if number.is_finite() => *field = number,
                _ => {
                    self.problem(line, format!("{value:?} is no figure"));
                    return None;
                }
            }
        }
        Some((handle, fields))
    }

    fn finish(mut self, lines: usize) -> (ThreadTrace, Vec<TraceProblem>) {
        while !self.open.is_empty() {
            self.close(lines);
        }
        if !self.has_title {
            self.problem(1, "the file does not say of which thread it is");
        }
        self.trace.is_whole = !self.has_fractions;
        (self.trace, self.problems)
    }
}

/// Writes items; times have digits behind the point unless all are whole.
struct Writer {
    text: String,
    is_whole: bool,
}

impl Writer {
    fn items(&mut self, items: &[Item]) {
        for item in items {
            if let Item::Interval(one) = item {
                self.interval(one);
            }
        }
        for item in items {
            if let Item::Event(one) = item {
                self.event(one);
            }
        }
    }

    fn interval(&mut self, one: &Interval) {
        let average = one.duration / one.count.max(1) as f64;
        let _ = write!(self.text, "B{}", one.handle);
        self.times(&[one.begin, one.duration]);
        let _ = write!(self.text, ":{}", one.count);
        self.times(&[average, one.longest]);
        self.text.push('\n');
        self.items(&one.items);
        let _ = writeln!(self.text, "E{}", one.handle);
    }

    fn event(&mut self, one: &Event) {
        let (duration, wait, synchronisation) = (one.duration, one.wait, one.synchronisation);
        let _ = write!(self.text, "{}", one.handle);
        self.times(&[one.begin, duration.sum]);
        let _ = write!(self.text, ":{}", one.count);
        self.times(&[wait.sum, synchronisation.sum]);
        for Statistics { sum, longest } in [duration, wait, synchronisation] {
            self.times(&[sum / one.count.max(1) as f64, longest]);
        }
        self.text.push('\n');
    }

    /// Writing to a string cannot fail.
    fn times(&mut self, times: &[f64]) {
        for time in times {
            let _ = match self.is_whole {
                true => write!(self.text, ":{time}"),
                false => write!(self.text, ":{time:.6}"),
            };
        }
    }
}
