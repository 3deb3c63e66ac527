//! From a source to a recording: all that comes is read and put in order of time.

use std::io::{self, Write};
use std::time::{Duration, Instant, SystemTime};

use unspool_container::TraceHeader;
use unspool_container::bytes::Malformed;
use unspool_profile_record::{
    Ending, Event, Record, Regions, Settings, Window as Recorded, Writer,
};

use crate::clock::now_ns;
use crate::kernel_record::KernelRecord;
use crate::observer::{Observer, Origin};
use crate::part_of_run::PartOfRun;
use crate::region_marks::RegionMarks;
use crate::run_error::RunError;
use crate::sampling::Window;
use crate::source::{Read, Source};

/// How often a reader sees what is new.
const FLUSHED_EVERY: Duration = Duration::from_millis(500);

/// When a run began, and which part of it is of interest.
pub(crate) struct Run {
    /// By the system's monotonic clock.
    pub(crate) start_ns: u64,
    /// When its first process began.
    pub(crate) since: SystemTime,
    pub(crate) window: Window,
    /// Whether the source tells of waits.
    pub(crate) has_waits: bool,
    /// What else than time it samples.
    pub(crate) events: Vec<Event>,
    /// Where programs tell which regions are of interest, if only those are.
    pub(crate) marks: Option<RegionMarks>,
}

/// What is read, and what waits to be taken in.
pub(crate) struct Recording<'a, S, W> {
    source: &'a mut S,
    observer: Observer<W>,
    marks: Option<RegionMarks>,
    /// What was read and may still be preceded by something from another thread.
    waiting: Vec<KernelRecord>,
    /// The latest time of what was read in the rounds before.
    latest_ns: u64,
    damaged: u64,
    start_ns: u64,
}

impl<'a, S: Source, W: Write> Recording<'a, S, W> {
    /// Begins the file. `left_out` is the path of what is in the program for our sake.
    pub(crate) fn begin(
        source: &'a mut S,
        output: W,
        header: &TraceHeader,
        left_out: Option<String>,
        settings: Settings,
        run: Run,
    ) -> Result<Self, RunError> {
        let Run {
            start_ns, window, ..
        } = run;
        let writer = Writer::new(output, header).map_err(RunError::Write)?;
        let from_ns = nanoseconds(window.delay);
        let until_ns = window.end().map(nanoseconds);
        let part = start_ns.saturating_add(from_ns)
            ..until_ns.map_or(u64::MAX, |until_ns| start_ns.saturating_add(until_ns));
        let part = PartOfRun::new(part, run.marks.is_some());
        let mut recording = Recording {
            source,
            observer: Observer::new(writer, Origin::Here { left_out }, part, run.since),
            marks: run.marks,
            waiting: Vec::new(),
            latest_ns: 0,
            damaged: 0,
            start_ns,
        };
        recording.write(&Record::Settings(settings))?;
        if run.has_waits {
            recording.write(&Record::HasWaits)?;
        }
        for event in run.events {
            recording.write(&Record::Event(event))?;
        }
        if window != Window::default() {
            recording.write(&Record::Window(Recorded { from_ns, until_ns }))?;
        }
        Ok(recording)
    }

    fn write(&mut self, record: &Record) -> Result<(), RunError> {
        self.observer.write(record).map_err(RunError::Write)
    }

    /// Takes in what happens until there is an end.
    pub(crate) fn until<E>(
        &mut self,
        mut ended: impl FnMut() -> Result<Option<E>, RunError>,
    ) -> Result<E, RunError> {
        let mut flushed = Instant::now();
        loop {
            self.source.wait();
            let ended = ended()?;
            self.round().map_err(RunError::Write)?;
            if let Some(ended) = ended {
                return Ok(ended);
            }
            if flushed.elapsed() > FLUSHED_EVERY {
                self.observer.flush().map_err(RunError::Write)?;
                flushed = Instant::now();
            }
        }
    }

    /// Takes the rest in. The system has counted so much CPU time.
    pub(crate) fn end(mut self, (user_ns, system_ns): (u64, u64)) -> Result<(), RunError> {
        let elapsed_ns = now_ns().saturating_sub(self.start_ns);
        let counted = self
            .source
            .finish(&mut into(&mut self.waiting, &mut self.damaged));
        self.take_in(u64::MAX).map_err(RunError::Write)?;
        let end_ns = now_ns();
        self.observer.end(end_ns).map_err(RunError::Write)?;
        if let Some(regions) = self.regions(end_ns) {
            self.write(&Record::Regions(regions))?;
        }
        self.observer.flush().map_err(RunError::Write)?;
        if let Some(counted) = counted {
            self.write(&Record::Counted(counted))?;
        }
        for counted in self.source.event_counts() {
            self.write(&Record::EventCount(counted))?;
        }
        self.write(&Record::Ending(Ending {
            elapsed_ns,
            user_ns,
            system_ns,
        }))?;
        self.observer.flush().map_err(RunError::Write)
    }

    /// What there was of regions of interest.
    fn regions(&mut self, end_ns: u64) -> Option<Regions> {
        let marks = self.marks.as_ref()?;
        let (entered, inside_ns) = self.observer.part.regions(end_ns)?;
        Some(Regions {
            entered,
            inside_ns,
            lost_marks: marks.lost(),
            processes_elsewhere: marks.elsewhere(),
        })
    }

    /// Reads all that has come, and takes in what nothing can precede any more: what is later than
    /// everything of the round before may have been written after its place was read.
    fn round(&mut self) -> io::Result<()> {
        let until_ns = self.latest_ns;
        self.source
            .drain(&mut into(&mut self.waiting, &mut self.damaged));
        self.take_in(until_ns)
    }

    /// Takes in what is not later than this.
    fn take_in(&mut self, until_ns: u64) -> io::Result<()> {
        if let Some(marks) = &mut self.marks {
            marks.drain(&mut |mark| self.observer.part.add(mark));
        }
        self.waiting.sort_by_key(KernelRecord::order);
        if let Some(last) = self.waiting.last() {
            self.latest_ns = last.time_ns;
        }
        let ready = self
            .waiting
            .partition_point(|record| record.time_ns <= until_ns);
        for record in self.waiting.drain(..ready) {
            self.observer.take(record)?;
        }
        if self.damaged > 0 {
            let lost = std::mem::take(&mut self.damaged);
            self.observer.write(&Record::Lost(lost))?;
        }
        Ok(())
    }
}

/// Puts what is read where it waits, and counts what is none.
fn into<'a>(waiting: &'a mut Vec<KernelRecord>, damaged: &'a mut u64) -> impl FnMut(Read) + 'a {
    |read| match read {
        Ok(record) => waiting.push(record),
        Err(Malformed) => *damaged += 1,
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
