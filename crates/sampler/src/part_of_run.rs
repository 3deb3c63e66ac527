//! Which part of a run samples are kept of.

use std::collections::VecDeque;
use std::ops::Range;

use rustc_hash::FxHashMap;

/// A process enters a region of interest, or leaves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) time_ns: u64,
    pub(crate) pid: u32,
    pub(crate) enters: bool,
}

/// A time of the run, and within that, if the program says so, its regions of interest.
#[derive(Debug)]
pub(crate) struct PartOfRun {
    window: Range<u64>,
    regions: Option<Regions>,
}

#[derive(Debug, Default)]
struct Regions {
    /// In the order of time.
    coming: VecDeque<Mark>,
    processes: FxHashMap<u32, Process>,
    entered: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Process {
    /// Since when it is in a region.
    inside_since: Option<u64>,
    /// How long it has been in those before.
    inside_ns: u64,
}

/// What of a range lies before a time.
fn before(range: &Range<u64>, from_ns: u64, until_ns: u64) -> u64 {
    let from = from_ns.max(range.start);
    until_ns.min(range.end).saturating_sub(from)
}

impl Process {
    fn until(&self, time_ns: u64, window: &Range<u64>) -> u64 {
        let open = self.inside_since;
        let open = open.map_or(0, |since| before(window, since, time_ns));
        self.inside_ns.saturating_add(open)
    }

    fn leave(&mut self, time_ns: u64, window: &Range<u64>) {
        self.inside_ns = self.until(time_ns, window);
        self.inside_since = None;
    }
}

impl PartOfRun {
    /// A part of the run, or with regions, these in it.
    pub(crate) fn new(window: Range<u64>, has_regions: bool) -> PartOfRun {
        PartOfRun {
            window,
            regions: has_regions.then(Regions::default),
        }
    }

    /// What all that is asked later comes behind may come later.
    pub(crate) fn add(&mut self, mark: Mark) {
        if let Some(regions) = &mut self.regions {
            let coming = &mut regions.coming;
            let place = coming.partition_point(|other| other.time_ns <= mark.time_ns);
            coming.insert(place, mark);
        }
    }

    /// A process that is a copy of another one is where that is.
    pub(crate) fn started(&mut self, parent: u32, pid: u32, time_ns: u64) {
        if let Some(regions) = &mut self.regions {
            regions.pass(time_ns, &self.window);
            let parent = regions.processes.get(&parent).copied().unwrap_or_default();
            let process = regions.processes.entry(pid).or_default();
            process.inside_since = parent.inside_since.map(|_| time_ns);
        }
    }

    /// A program that is executed has entered nothing yet.
    pub(crate) fn executed(&mut self, pid: u32, time_ns: u64) {
        if let Some(regions) = &mut self.regions {
            regions.pass(time_ns, &self.window);
            if let Some(process) = regions.processes.get_mut(&pid) {
                process.leave(time_ns, &self.window);
            }
        }
    }

    /// Whether a process is in it. Times of questions may not become less.
    pub(crate) fn contains(&mut self, pid: u32, time_ns: u64) -> bool {
        let in_region = match &mut self.regions {
            None => true,
            Some(regions) => {
                regions.pass(time_ns, &self.window);
                let process = regions.processes.get(&pid);
                process.is_some_and(|process| process.inside_since.is_some())
            }
        };
        in_region && self.window.contains(&time_ns)
    }

    /// How long a process was in it until a time.
    pub(crate) fn until(&mut self, pid: u32, time_ns: u64) -> u64 {
        match &mut self.regions {
            None => before(&self.window, 0, time_ns),
            Some(regions) => {
                regions.pass(time_ns, &self.window);
                let process = regions.processes.get(&pid);
                process.map_or(0, |process| process.until(time_ns, &self.window))
            }
        }
    }

    /// Where the part of the run ends.
    pub(crate) fn end(&self) -> u64 {
        self.window.end
    }

    /// How many regions were entered until a time, and how long processes were in them all together; none
    /// where that is not asked for.
    pub(crate) fn regions(&mut self, time_ns: u64) -> Option<(u64, u64)> {
        let regions = self.regions.as_mut()?;
        regions.pass(time_ns, &self.window);
        let processes = regions.processes.values();
        let times = processes.map(|process| process.until(time_ns, &self.window));
        Some((regions.entered, times.fold(0, u64::saturating_add)))
    }
}

impl Regions {
    /// Takes in what is not later.
    fn pass(&mut self, time_ns: u64, window: &Range<u64>) {
        while let Some(mark) = self
            .coming
            .front()
            .copied()
            .filter(|it| it.time_ns <= time_ns)
        {
            self.coming.pop_front();
            let process = self.processes.entry(mark.pid).or_default();
            match (mark.enters, process.inside_since) {
                (true, None) => {
                    process.inside_since = Some(mark.time_ns);
                    self.entered += 1;
                }
                (false, Some(_)) => process.leave(mark.time_ns, window),
                // Who enters twice is inside, who leaves twice is not.
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(time_ns: u64, pid: u32, enters: bool) -> Mark {
        Mark {
            time_ns,
            pid,
            enters,
        }
    }

    #[test]
    fn without_regions_the_window_is_kept() {
        let mut part = PartOfRun::new(10..20, false);
        let times = [9, 10, 19, 20];
        assert_eq!(
            times.map(|it| part.contains(1, it)),
            [false, true, true, false]
        );
        assert_eq!([5, 12, 30].map(|it| part.until(1, it)), [0, 2, 10]);
        assert_eq!(part.regions(30), None);
    }

    #[test]
    fn regions_are_of_processes_and_of_those_they_start() {
        let mut part = PartOfRun::new(0..100, true);
        // They come in any order.
        for one in [
            mark(40, 1, false),
            mark(10, 1, true),
            mark(15, 1, true),
            mark(60, 1, true),
            mark(80, 1, false),
            mark(90, 1, false),
        ] {
            part.add(one);
        }
        assert!(!part.contains(1, 9));
        assert!(part.contains(1, 10));
        part.started(1, 2, 20);
        part.started(3, 4, 20);
        assert!(part.contains(2, 21) && !part.contains(4, 21) && !part.contains(3, 21));
        part.executed(2, 25);
        assert!(!part.contains(2, 30) && part.contains(1, 39));
        assert_eq!((part.until(1, 39), part.until(2, 39)), (29, 5));
        assert!(!part.contains(1, 40));
        assert_eq!(part.until(1, 50), 30);
        assert_eq!(part.until(1, 70), 40);
        // Two of the first process, and what its child was in of the first.
        assert_eq!(part.regions(200), Some((2, 55)));
    }

    #[test]
    fn regions_are_cut_to_the_window() {
        let mut part = PartOfRun::new(20..50, true);
        part.add(mark(10, 1, true));
        part.add(mark(30, 1, false));
        part.add(mark(40, 1, true));
        assert!(!part.contains(1, 15) && part.contains(1, 25) && !part.contains(1, 35));
        assert_eq!(part.until(1, 35), 10);
        assert!(part.contains(1, 49) && !part.contains(1, 50));
        assert_eq!(part.regions(70), Some((2, 20)));
    }
}
