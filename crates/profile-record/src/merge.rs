//! Recordings of several runs as one.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

use unspool_container::TraceHeader;

use crate::read::Recording;
use crate::record::{
    Counted, Ending, Event, EventCount, Frame, Image, Node, Occurrence, Process, Rank, Record,
    Regions, Sample, Settings, StepCertainty, Symbol, Thread, Wait,
};
use crate::write::Writer;

/// The kernel's numbers of processes are less than this. Where two recordings have the same number, the
/// later one's becomes larger by multiples of it.
const NUMBERS: u32 = 1 << 22;

/// Clocks whose difference would be less than this are the same.
const SAME_CLOCK_NS: i64 = 60_000_000_000;

/// Recordings cannot be one.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// There are none.
    #[error("there is nothing to merge")]
    Nothing,
    /// They count different times.
    #[error("recordings of CPU time and of other time cannot be added up")]
    OtherTime,
    /// The result cannot be written.
    #[error("cannot write the merged recording")]
    Write(#[from] io::Error),
}

/// Writes recordings as one, whose header is the first one's: call paths that are the same are there once;
/// processes, threads, samples, waits and events of all, the latter the same if their names are; times and counts of the system are added up, and the
/// longest run is the run. Merging what was merged before is the same as merging all at once.
///
/// Recordings of one machine have one clock. Those of others are moved so that runs begin when their headers
/// say.
///
/// # Errors
/// If there is nothing to merge, if the recordings count different times, or if the output cannot be written.
pub fn merge(recordings: &[Recording], output: impl Write) -> Result<(), MergeError> {
    let [first, ..] = recordings else {
        return Err(MergeError::Nothing);
    };
    let settings = settings(recordings)?;
    let header = TraceHeader {
        start_unix_ns: first.header.start_unix_ns,
        ..first.header.clone()
    };
    let mut merging = Merging {
        writer: Writer::new(output, &header)?,
        images: HashMap::new(),
        frames: HashMap::new(),
        nodes: HashMap::new(),
        processes: BTreeSet::new(),
        events: HashMap::new(),
    };
    if let Some(settings) = settings {
        merging.writer.write(&Record::Settings(settings))?;
    }
    if recordings.iter().any(|recording| recording.waits.is_some()) {
        merging.writer.write(&Record::HasWaits)?;
    }
    if let Some(window) = first.window
        && recordings.iter().all(|it| it.window == Some(window))
    {
        merging.writer.write(&Record::Window(window))?;
    }
    for recording in recordings {
        merging.add(recording, shift(first, recording))?;
    }
    merging.write_sums(recordings)?;
    merging.writer.flush()?;
    Ok(())
}

/// The settings of the first, if all count the same time.
fn settings(recordings: &[Recording]) -> Result<Option<Settings>, MergeError> {
    let mut all = recordings.iter().filter_map(|recording| recording.settings);
    let Some(first) = all.next() else {
        return Ok(None);
    };
    let mut merged = first;
    for other in all {
        if other.source.is_of_cpu_time() != first.source.is_of_cpu_time() {
            return Err(MergeError::OtherTime);
        }
        merged.includes_kernel &= other.includes_kernel;
        merged.stack_bytes = merged.stack_bytes.min(other.stack_bytes);
    }
    Ok(Some(merged))
}

/// When a recording's first sample was, or 0.
fn begin(recording: &Recording) -> u64 {
    let times = all_samples(recording).map(|sample| sample.time_ns);
    times.min().unwrap_or(0)
}

/// Samples of time, of waits and of events.
fn all_samples(recording: &Recording) -> impl Iterator<Item = &Sample> {
    let waits = recording.waits.iter().flatten().map(|wait| &wait.sample);
    let events = recording.events.values().flat_map(|it| &it.samples);
    recording.samples.iter().chain(waits).chain(events)
}

/// What is added to times of a recording so that they are those of the first one's clock.
fn shift(first: &Recording, recording: &Recording) -> i64 {
    let between = |later: u64, earlier: u64| later.wrapping_sub(earlier) as i64;
    let by_header = between(recording.header.start_unix_ns, first.header.start_unix_ns);
    let shift = by_header.wrapping_sub(between(begin(recording), begin(first)));
    match shift.unsigned_abs() < SAME_CLOCK_NS.unsigned_abs() {
        true => 0,
        false => shift,
    }
}

struct Merging<W> {
    writer: Writer<W>,
    images: HashMap<(String, Vec<u8>), u32>,
    frames: HashMap<(Option<u32>, u64), u32>,
    nodes: HashMap<(Option<u32>, u32, StepCertainty), u32>,
    /// The numbers of processes that are there.
    processes: BTreeSet<u32>,
    /// Events by their names.
    events: HashMap<String, u32>,
}

/// The number of something, and whether it is new.
fn number<Key: std::hash::Hash + Eq>(all: &mut HashMap<Key, u32>, key: Key) -> (u32, bool) {
    let next = u32::try_from(all.len()).unwrap_or(u32::MAX);
    let number = *all.entry(key).or_insert(next);
    (number, number == next)
}

impl<W: Write> Merging<W> {
    fn add(&mut self, recording: &Recording, shift: i64) -> io::Result<()> {
        let pids = self.pids(recording);
        let pid = |own: u32| pids.get(&own).copied().unwrap_or(own);
        self.add_names(recording, &pid)?;
        let images = self.add_images(recording)?;
        let nodes = self.add_paths(recording, &images)?;
        let moved = |sample: &Sample| Sample {
            pid: pid(sample.pid),
            time_ns: sample.time_ns.saturating_add_signed(shift),
            node: sample.node.map(|node| nodes[&node]),
            ..*sample
        };
        for sample in &recording.samples {
            self.writer.write(&Record::Sample(moved(sample)))?;
        }
        for wait in recording.waits.iter().flatten() {
            self.writer.write(&Record::Wait(Wait {
                sample: moved(&wait.sample),
                is_preempted: wait.is_preempted,
            }))?;
        }
        for recorded in recording.events.values() {
            let name = recorded.event.name.clone();
            let (event, is_new) = number(&mut self.events, name.clone());
            if is_new {
                self.writer.write(&Record::Event(Event {
                    number: event,
                    name,
                    rate: recorded.event.rate,
                }))?;
            }
            for sample in &recorded.samples {
                let sample = moved(sample);
                self.writer
                    .write(&Record::Occurrence(Occurrence { event, sample }))?;
            }
        }
        Ok(())
    }

    /// What the processes of a recording are called that have the number of another one's.
    fn pids(&mut self, recording: &Recording) -> HashMap<u32, u32> {
        let samples = all_samples(recording).map(|sample| sample.pid);
        let threads = recording.threads.keys().map(|(pid, _)| *pid);
        let processes = recording.processes.keys().copied();
        let own: BTreeSet<u32> = samples.chain(threads).chain(processes).collect();
        let mut pids = HashMap::new();
        for pid in &own {
            let mut number = *pid;
            while self.processes.contains(&number) || (number != *pid && own.contains(&number)) {
                // There are so many multiples and no more: then the next number's.
                let next = number.checked_add(NUMBERS);
                number = next.unwrap_or(number % NUMBERS + 1);
            }
            pids.insert(*pid, number);
        }
        self.processes.extend(pids.values());
        pids
    }

    fn add_names(&mut self, recording: &Recording, pid: &impl Fn(u32) -> u32) -> io::Result<()> {
        let mut processes: Vec<&Process> = recording.processes.values().collect();
        processes.sort_by_key(|process| process.pid);
        for process in processes {
            self.writer.write(&Record::Process(Process {
                pid: pid(process.pid),
                name: process.name.clone(),
            }))?;
        }
        let mut threads: Vec<&Thread> = recording.threads.values().collect();
        threads.sort_by_key(|thread| (thread.pid, thread.tid));
        for thread in threads {
            self.writer.write(&Record::Thread(Thread {
                pid: pid(thread.pid),
                ..thread.clone()
            }))?;
        }
        let mut ranks: Vec<(u32, u32)> = recording.ranks.iter().map(|it| (*it.0, *it.1)).collect();
        ranks.sort_unstable();
        for (own, rank) in ranks {
            let pid = pid(own);
            self.writer.write(&Record::Rank(Rank { pid, rank }))?;
        }
        Ok(())
    }

    /// The new numbers of images. Memory without a file is each recording's own.
    fn add_images(&mut self, recording: &Recording) -> io::Result<HashMap<u32, u32>> {
        let mut images: Vec<&Image> = recording.images.values().collect();
        images.sort_by_key(|image| image.number);
        let has_symbols: BTreeSet<u32> = recording.symbols.keys().map(|key| key.0).collect();
        let mut numbers = HashMap::new();
        for image in images {
            let mut build_id = image.build_id.clone();
            if has_symbols.contains(&image.number) {
                // No other image has such a key.
                let own = [self.images.len() as u64, 0, 0, 0, 0];
                build_id.extend(own.iter().flat_map(|word| word.to_le_bytes()));
            }
            let (number, is_new) = number(&mut self.images, (image.path.clone(), build_id));
            numbers.insert(image.number, number);
            if is_new {
                self.writer.write(&Record::Image(Image {
                    number,
                    ..image.clone()
                }))?;
            }
        }
        for symbol in recording.symbols.values() {
            let Some(image) = numbers.get(&symbol.image) else {
                continue;
            };
            self.writer.write(&Record::Symbol(Symbol {
                image: *image,
                ..symbol.clone()
            }))?;
        }
        Ok(numbers)
    }

    /// The new numbers of call paths.
    fn add_paths(
        &mut self,
        recording: &Recording,
        images: &HashMap<u32, u32>,
    ) -> io::Result<HashMap<u32, u32>> {
        let mut frames = HashMap::new();
        let mut all: Vec<&Frame> = recording.frames.values().collect();
        all.sort_by_key(|frame| frame.number);
        for frame in all {
            let image = frame.image.and_then(|image| images.get(&image).copied());
            let (number, is_new) = number(&mut self.frames, (image, frame.address));
            frames.insert(frame.number, number);
            if is_new {
                self.writer.write(&Record::Frame(Frame {
                    number,
                    image,
                    address: frame.address,
                }))?;
            }
        }
        let mut nodes: HashMap<u32, u32> = HashMap::new();
        for own in in_order(recording) {
            let Node {
                parent,
                frame,
                certainty,
                ..
            } = recording.nodes[&own];
            let parent = parent.map(|parent| nodes[&parent]);
            let frame = frames[&frame];
            let (number, is_new) = number(&mut self.nodes, (parent, frame, certainty));
            nodes.insert(own, number);
            if is_new {
                self.writer.write(&Record::Node(Node {
                    number,
                    parent,
                    frame,
                    certainty,
                }))?;
            }
        }
        Ok(nodes)
    }

    /// What is not of a thread or path.
    fn write_sums(&mut self, recordings: &[Recording]) -> io::Result<()> {
        let lost = recordings.iter().map(|recording| recording.lost);
        match lost.fold(0, u64::saturating_add) {
            0 => {}
            lost => self.writer.write(&Record::Lost(lost))?,
        }
        let counted = recordings.iter().filter_map(|recording| recording.counted);
        let counted = counted.reduce(|one, other| Counted {
            expirations: one.expirations.saturating_add(other.expirations),
            sampled: one.sampled.saturating_add(other.sampled),
            without_room: one.without_room.saturating_add(other.without_room),
            used_ns: one.used_ns.saturating_add(other.used_ns),
            threads_left_out: one.threads_left_out.saturating_add(other.threads_left_out),
        });
        if let Some(counted) = counted {
            self.writer.write(&Record::Counted(counted))?;
        }
        // What is of one part only is not said of the whole, as with windows.
        let regions: Option<Vec<Regions>> = recordings.iter().map(|it| it.regions).collect();
        let regions = regions.into_iter().flatten().reduce(|one, other| Regions {
            entered: one.entered.saturating_add(other.entered),
            inside_ns: one.inside_ns.saturating_add(other.inside_ns),
            lost_marks: one.lost_marks.saturating_add(other.lost_marks),
            processes_elsewhere: one
                .processes_elsewhere
                .saturating_add(other.processes_elsewhere),
        });
        if let Some(regions) = regions {
            self.writer.write(&Record::Regions(regions))?;
        }
        let mut counts: Vec<(u32, Option<EventCount>)> = Vec::new();
        for (name, event) in &self.events {
            let parts = recordings.iter().flat_map(|it| it.events.values());
            let parts = parts.filter(|part| part.event.name == *name);
            // What one part does not know, nobody knows of the whole.
            let all: Option<Vec<EventCount>> = parts.map(|part| part.counted).collect();
            let sum = all.into_iter().flatten().reduce(|one, other| EventCount {
                event: *event,
                count: one.count.saturating_add(other.count),
                enabled_ns: one.enabled_ns.saturating_add(other.enabled_ns),
                running_ns: one.running_ns.saturating_add(other.running_ns),
            });
            counts.push((*event, sum));
        }
        counts.sort_by_key(|(event, _)| *event);
        for (event, sum) in counts {
            if let Some(sum) = sum {
                self.writer
                    .write(&Record::EventCount(EventCount { event, ..sum }))?;
            }
        }
        // A part that has not ended has left the whole unended.
        let endings: Option<Vec<Ending>> = recordings.iter().map(|it| it.ending).collect();
        let ending = endings.into_iter().flatten().reduce(|one, other| Ending {
            elapsed_ns: one.elapsed_ns.max(other.elapsed_ns),
            user_ns: one.user_ns.saturating_add(other.user_ns),
            system_ns: one.system_ns.saturating_add(other.system_ns),
        });
        match ending {
            Some(ending) => self.writer.write(&Record::Ending(ending)),
            None => Ok(()),
        }
    }
}

/// The numbers of call paths, callers first.
fn in_order(recording: &Recording) -> Vec<u32> {
    let mut all: Vec<u32> = recording.nodes.keys().copied().collect();
    all.sort_unstable();
    let mut ordered = Vec::new();
    let mut placed = BTreeSet::new();
    for first in all {
        let mut missing = Vec::new();
        let mut next = Some(first);
        while let Some(number) = next.filter(|number| !placed.contains(number)) {
            missing.push(number);
            placed.insert(number);
            next = recording.nodes[&number].parent;
        }
        ordered.extend(missing.into_iter().rev());
    }
    ordered
}

#[cfg(test)]
mod tests;
