//! Reading a recording.

use std::collections::{BTreeMap, HashMap};

use unspool_container::bytes::ByteReader;
use unspool_container::in_place::InPlace;
use unspool_container::{HeaderError, TraceHeader};

use crate::declaration;
use crate::record::{
    Counted, Ending, Event, EventCount, Frame, Image, Node, Process, Record, Regions, Sample,
    Settings, Source, Symbol, Thread, Wait, Window,
};

/// Why a file is no recording that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// The start of the file cannot be used.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// It is a file of Unspool, of something else.
    #[error("it holds no samples")]
    NoSamples,
    /// Its records are of a version that is not known.
    #[error("its samples are of version {0}, which this program does not know")]
    UnknownVersion(u32),
}

/// What a recording says.
#[derive(Debug, Clone)]
pub struct Recording {
    /// Of which run it is.
    pub header: TraceHeader,
    /// How samples were taken.
    pub settings: Option<Settings>,
    /// The last that is known of each process.
    pub processes: HashMap<u32, Process>,
    /// The last that is known of each thread, by its process's number and its own.
    pub threads: HashMap<(u32, u32), Thread>,
    /// Images by their numbers.
    pub images: HashMap<u32, Image>,
    /// Frames by their numbers.
    pub frames: HashMap<u32, Frame>,
    /// Call paths by their numbers. The parent of each is there, and no path is endless.
    pub nodes: HashMap<u32, Node>,
    /// The samples, as they were taken.
    pub samples: Vec<Sample>,
    /// When and where threads had no processor; none where that was not asked for.
    pub waits: Option<Vec<Wait>>,
    /// What else was sampled, by the events' numbers.
    pub events: BTreeMap<u32, RecordedEvent>,
    /// The number of the event that the samples are of; none where they are of time.
    pub sampled_event: Option<u32>,
    /// How many more could not be taken in.
    pub lost: u64,
    /// How the run ended; none where its recording was cut off.
    pub ending: Option<Ending>,
    /// What timers inside the program have counted, if they took the samples.
    pub counted: Option<Counted>,
    /// The part of the run that samples are of; none where that is all of it.
    pub window: Option<Window>,
    /// What of the run was in regions of interest, if samples are of these only.
    pub regions: Option<Regions>,
    /// The ranks of processes in their MPI job, by the processes' numbers.
    pub ranks: HashMap<u32, u32>,
    /// Functions that programs have made themselves, by image and start.
    pub symbols: BTreeMap<(u32, u64), Symbol>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// An event that was sampled beside time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedEvent {
    /// What it is.
    pub event: Event,
    /// Where it happened.
    pub samples: Vec<Sample>,
    /// How often in all; none where the recording was cut off.
    pub counted: Option<EventCount>,
}

impl Recording {
    /// Whether a file that starts so may be a recording.
    #[must_use]
    pub fn begins(start: &[u8]) -> bool {
        TraceHeader::begins(start)
    }

    /// Reads a file, from bytes that may say anything.
    ///
    /// # Errors
    /// If it is no recording.
    pub fn read(bytes: &[u8]) -> Result<Recording, ReadError> {
        let file = InPlace::read(bytes)?;
        let known = declaration();
        let declared = file.stream(&known.name).ok_or(ReadError::NoSamples)?;
        if !(1..=known.version).contains(&declared.version) {
            return Err(ReadError::UnknownVersion(declared.version));
        }
        let number = declared.number;
        let mut recording = Recording {
            header: file.header,
            settings: None,
            processes: HashMap::new(),
            threads: HashMap::new(),
            images: HashMap::new(),
            frames: HashMap::new(),
            nodes: HashMap::new(),
            samples: Vec::new(),
            waits: None,
            events: BTreeMap::new(),
            sampled_event: None,
            lost: 0,
            ending: None,
            counted: None,
            window: None,
            regions: None,
            ranks: HashMap::new(),
            symbols: BTreeMap::new(),
            problems: Vec::new(),
        };
        for gap in &file.gaps {
            let (offset, length, what) = (gap.offset, gap.length, gap.what);
            let problem = format!("{length} bytes at {offset} were left out: {what}");
            recording.problems.push(problem);
        }
        for block in file.blocks.iter().filter(|block| block.stream == number) {
            let mut bytes = ByteReader::new(block.payload);
            while bytes.remaining() > 0 {
                let at = block.payload.len() - bytes.remaining();
                let read = Record::read(&mut bytes).ok();
                if read.and_then(|record| recording.add(record)).is_none() {
                    let (block, rest) = (block.number, block.payload.len() - at);
                    let problem = format!("{rest} bytes of block {block} were left out: damaged");
                    recording.problems.push(problem);
                    break;
                }
            }
        }
        Ok(recording)
    }

    /// The same run, with what threads waited for in the place of samples: each wait is one, with the
    /// time that it took. Without those in which a thread waited for a processor alone.
    #[must_use]
    pub fn of_waits(&self) -> Option<Recording> {
        let waits = self.waits.as_ref()?;
        let waits = waits.iter().filter(|wait| !wait.is_preempted);
        Some(Recording {
            samples: waits.map(|wait| wait.sample).collect(),
            settings: self.settings.map(|settings| Settings {
                source: Source::KernelWaits,
                ..settings
            }),
            ..self.clone()
        })
    }

    /// The same run, with where an event happened in the place of samples, whose weights are numbers of
    /// events.
    #[must_use]
    pub fn of_event(&self, number: u32) -> Option<Recording> {
        let recorded = self.events.get(&number)?;
        Some(Recording {
            samples: recorded.samples.clone(),
            sampled_event: Some(number),
            ..self.clone()
        })
    }

    /// The function at an address of an image, as its program has told it.
    #[must_use]
    pub fn symbol_at(&self, image: u32, address: u64) -> Option<&Symbol> {
        let before = self.symbols.range((image, 0)..=(image, address));
        let (_, symbol) = before.last()?;
        (address - symbol.start < symbol.length).then_some(symbol)
    }

    /// Whether the path of a sample is there; none if not.
    fn check(&self, sample: &Sample) -> Option<()> {
        let is_known = |number: u32| self.nodes.contains_key(&number);
        sample.node.is_none_or(is_known).then_some(())
    }

    /// Adds a record; none if it makes no sense.
    fn add(&mut self, record: Record) -> Option<()> {
        match record {
            Record::Settings(settings) => self.settings = Some(settings),
            Record::Process(process) => {
                self.processes.insert(process.pid, process);
            }
            Record::Thread(thread) => {
                self.threads.insert((thread.pid, thread.tid), thread);
            }
            Record::Image(image) => {
                self.images.insert(image.number, image);
            }
            Record::Frame(frame) => {
                self.frames.insert(frame.number, frame);
            }
            Record::Node(node) => {
                // Every path leads over ones that were there before: none is endless.
                let is_known = |number: u32| self.nodes.contains_key(&number);
                let is_whole = node.parent.is_none_or(is_known) && !is_known(node.number);
                if !is_whole || !self.frames.contains_key(&node.frame) {
                    return None;
                }
                self.nodes.insert(node.number, node);
            }
            Record::Sample(sample) => {
                self.check(&sample)?;
                self.samples.push(sample);
            }
            Record::Wait(wait) => {
                self.check(&wait.sample)?;
                self.waits.get_or_insert_default().push(wait);
            }
            Record::HasWaits => {
                self.waits.get_or_insert_default();
            }
            Record::Event(event) => {
                let recorded = RecordedEvent {
                    samples: Vec::new(),
                    counted: None,
                    event,
                };
                self.events.entry(recorded.event.number).or_insert(recorded);
            }
            Record::Occurrence(occurrence) => {
                self.check(&occurrence.sample)?;
                let recorded = self.events.get_mut(&occurrence.event)?;
                recorded.samples.push(occurrence.sample);
            }
            Record::EventCount(counted) => {
                self.events.get_mut(&counted.event)?.counted = Some(counted);
            }
            Record::Lost(count) => self.lost = self.lost.saturating_add(count),
            Record::Counted(counted) => self.counted = Some(counted),
            Record::Ending(ending) => self.ending = Some(ending),
            Record::Window(window) => self.window = Some(window),
            Record::Regions(regions) => self.regions = Some(regions),
            Record::Rank(rank) => {
                self.ranks.insert(rank.pid, rank.rank);
            }
            Record::Symbol(symbol) => {
                self.symbols.insert((symbol.image, symbol.start), symbol);
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
