//! What of the traces is to be analysed.

use unspool_openmp_record::original::{Event, Item, Statistics, ThreadTrace};

/// What is to be analysed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Events of the master's trace that do not count.
    pub no_events: Vec<usize>,
    /// Intervals that do not count, with all that is in them.
    pub no_intervals: Vec<usize>,
    /// If there are any, only these intervals count.
    pub intervals: Vec<usize>,
    /// Which thread is the master, if not the one that says so.
    pub main_thread: Option<u64>,
}

impl Selection {
    /// The intervals that alone are to count and that a trace, the master's, does not have.
    #[must_use]
    pub fn unknown_intervals(&self, master: &ThreadTrace) -> Vec<usize> {
        fn collect(items: &[Item], found: &mut Vec<usize>) {
            for item in items {
                if let Item::Interval(one) = item {
                    found.push(one.number);
                    collect(&one.items, found);
                }
            }
        }
        let mut known = Vec::new();
        collect(&master.items, &mut known);
        let wanted = self.intervals.iter().copied();
        wanted.filter(|number| !known.contains(number)).collect()
    }

    /// The trace whose numbers are meant: that of the thread which is given, or says that it is
    /// the master, or the first.
    #[must_use]
    pub fn master<'a>(&self, traces: &'a [ThreadTrace]) -> Option<&'a ThreadTrace> {
        let is_master = |trace: &&ThreadTrace| match self.main_thread {
            Some(thread) => trace.thread == thread,
            None => trace.is_master,
        };
        traces.iter().find(is_master).or_else(|| traces.first())
    }
}

/// An event's intervals, from outside, and its handle: what is the same in all threads.
pub(super) type Path = Vec<u64>;

/// What of the traces counts.
pub(super) struct Selected {
    no_events: Vec<Path>,
    no_intervals: Vec<Path>,
    intervals: Vec<Path>,
    pub(super) execution: f64,
}

impl Selected {
    /// Numbers are those of the master's trace; in others the same intervals and events are
    /// meant.
    pub(super) fn new(master: &ThreadTrace, selection: &Selection) -> Selected {
        let mut selected = Selected {
            no_events: Vec::new(),
            no_intervals: Vec::new(),
            intervals: Vec::new(),
            execution: 0.0,
        };
        selected.find(&master.items, selection, &mut Vec::new());
        if selection.intervals.is_empty() {
            selected.execution = extent(&master.items, master.is_whole);
        }
        selected
    }

    fn find(&mut self, items: &[Item], selection: &Selection, path: &mut Path) {
        for item in items {
            match item {
                Item::Interval(one) => {
                    path.push(one.handle);
                    if selection.no_intervals.contains(&one.number) {
                        self.no_intervals.push(path.clone());
                    }
                    if selection.intervals.contains(&one.number) {
                        self.intervals.push(path.clone());
                        self.execution += one.duration;
                    } else {
                        self.find(&one.items, selection, path);
                    }
                    path.pop();
                }
                Item::Event(one) if selection.no_events.contains(&one.number) => {
                    path.push(one.handle);
                    self.no_events.push(path.clone());
                    path.pop();
                }
                Item::Event(_) => {}
            }
        }
    }

    pub(super) fn takes_all(&self) -> bool {
        self.intervals.is_empty()
    }

    pub(super) fn walk(
        &self,
        items: &[Item],
        path: &mut Path,
        taken: bool,
        each: &mut impl FnMut(&Path, &Event),
    ) {
        for item in items {
            match item {
                Item::Interval(one) => {
                    path.push(one.handle);
                    if !self.no_intervals.contains(path) {
                        let taken = taken || self.intervals.contains(path);
                        self.walk(&one.items, path, taken, each);
                    }
                    path.pop();
                }
                Item::Event(one) => {
                    path.push(one.handle);
                    if taken && !self.no_events.contains(path) {
                        each(path, one);
                    }
                    path.pop();
                }
            }
        }
    }
}

/// From the first beginning to the last end, as far as folded records tell.
fn extent(items: &[Item], is_whole: bool) -> f64 {
    let bounds = items.iter().map(|item| match item {
        Item::Interval(one) if one.count <= 1 => (one.begin, one.begin + one.duration),
        Item::Interval(one) => (one.begin, one.begin + one.longest),
        Item::Event(one) => {
            let last = |figures: Statistics| match one.count {
                0 | 1 => figures.sum,
                _ => figures.longest,
            };
            let after = if is_whole {
                0.0
            } else {
                last(one.synchronisation)
            };
            (
                one.begin - last(one.wait),
                one.begin + last(one.duration) + after,
            )
        }
    });
    let (first, last) = bounds.fold((f64::MAX, 0.0_f64), |(first, last), (begin, end)| {
        (first.min(begin), last.max(end))
    });
    (last - first).max(0.0)
}
