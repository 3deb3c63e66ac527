//! What a recording consists of.

use unspool_container::bytes::{ByteReader, Malformed, put_bytes, put_varint};

/// One thing that a recording says. Numbers of images, frames and nodes are given by the writer;
/// what a record refers to stands before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// How samples are taken.
    Settings(Settings),
    /// A process, or its new name.
    Process(Process),
    /// A thread, or its new name.
    Thread(Thread),
    /// A file, or other memory, with code.
    Image(Image),
    /// A place in code.
    Frame(Frame),
    /// A call path: a frame called from another path.
    Node(Node),
    /// A thread was found on a path.
    Sample(Sample),
    /// So many samples could not be taken in.
    Lost(u64),
    /// The run is over.
    Ending(Ending),
    /// What timers inside the program have counted.
    Counted(Counted),
    /// Samples are of this part of the run only.
    Window(Window),
    /// A process is one of an MPI job.
    Rank(Rank),
    /// A function that its program has made itself.
    Symbol(Symbol),
    /// A thread had no processor for a while.
    Wait(Wait),
    /// All waits are recorded, however many there are.
    HasWaits,
    /// Something else than time is sampled, too.
    Event(Event),
    /// An event was found to happen on a path.
    Occurrence(Occurrence),
    /// How often an event has happened in all.
    EventCount(EventCount),
    /// Samples are of regions only that the program has told.
    Regions(Regions),
}

/// How samples are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The time of a thread from one of its samples to the next.
    pub period_ns: u64,
    /// How much of a stack is looked at.
    pub stack_bytes: u64,
    /// Whether time in the kernel is sampled, apart from what called it.
    pub includes_kernel: bool,
    /// What takes the samples.
    pub source: Source,
}

/// What takes samples, and of which time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// The kernel (`perf_event_open`), of CPU time.
    Kernel = 0,
    /// Timers inside the program, of CPU time.
    CpuTimers = 1,
    /// Timers inside the program, of time, in which threads run or wait.
    WallTimers = 2,
    /// The kernel, of the time in which threads wait. Recordings have such samples beside others.
    KernelWaits = 3,
    /// `perf record`, of CPU time; the recording was made of its file.
    PerfRecord = 4,
}

impl Source {
    /// Whether samples are of time in which threads ran.
    #[must_use]
    pub fn is_of_cpu_time(self) -> bool {
        matches!(
            self,
            Source::Kernel | Source::CpuTimers | Source::PerfRecord
        )
    }

    fn from_u64(value: u64) -> Option<Source> {
        let all = [
            Source::Kernel,
            Source::CpuTimers,
            Source::WallTimers,
            Source::KernelWaits,
            Source::PerfRecord,
        ];
        all.into_iter().find(|one| *one as u64 == value)
    }
}

/// What timers inside the program have counted, beside what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// How often timers expired.
    pub expirations: u64,
    /// How many of these the samples stand for.
    pub sampled: u64,
    /// How many left no sample, since there was no room for it.
    pub without_room: u64,
    /// The time of all threads that had a timer, by its clock, from there to their end; of one that
    /// was ended from outside, to its latest sample.
    pub used_ns: u64,
    /// Threads that had no timer, for want of room or of what the kernel gives.
    pub threads_left_out: u64,
}

/// A part of a run, in times after its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Where it begins.
    pub from_ns: u64,
    /// Where it ends; none where that is the run's end.
    pub until_ns: Option<u64>,
}

/// What of a run was in regions of interest, as programs tell them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Regions {
    /// How often processes entered one.
    pub entered: u64,
    /// How long they were in them, all together.
    pub inside_ns: u64,
    /// What they told of it and was not heard.
    pub lost_marks: u64,
    /// Processes of which nothing was heard, since they are in another PID namespace.
    pub processes_elsewhere: u64,
}

/// A process of an MPI job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    /// The kernel's number.
    pub pid: u32,
    /// The job's number: its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
}

/// A function of an image, whose file does not tell it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// The image.
    pub image: u32,
    /// The address at which it begins.
    pub start: u64,
    /// Its length in bytes.
    pub length: u64,
    /// Its name.
    pub name: String,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The kernel's number.
    pub pid: u32,
    /// Its name, as `ps` shows it.
    pub name: String,
}

/// A thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thread {
    /// The process that it is in.
    pub pid: u32,
    /// The kernel's number.
    pub tid: u32,
    /// Its name.
    pub name: String,
}

/// A file, or other memory, with code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// By which frames name it.
    pub number: u32,
    /// Its path, or what stands for it: `[vdso]`, `[kernel]`.
    pub path: String,
    /// The identifier that the linker gave it; empty where there is none.
    pub build_id: Vec<u8>,
}

/// A place in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// By which nodes name it.
    pub number: u32,
    /// Where it is; none where no image is known.
    pub image: Option<u32>,
    /// An address within the instruction: the file's, or without an image the process's.
    pub address: u64,
}

/// How certain it is that a caller called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum StepCertainty {
    /// It calls the function directly, perhaps through a linkage table or a tail call.
    Confirmed = 0,
    /// It calls through a pointer, or a function that may have called this one by tail calls.
    Probable = 1,
    /// What was taken for a caller calls nothing there.
    Wrong = 2,
    /// There was no call: the frame is the path's innermost, or was interrupted by a signal.
    NoCall = 3,
}

impl StepCertainty {
    fn from_u8(value: u8) -> Option<StepCertainty> {
        use StepCertainty::{Confirmed, NoCall, Probable, Wrong};
        let all = [Confirmed, Probable, Wrong, NoCall];
        all.into_iter().find(|one| *one as u8 == value)
    }
}

/// A call path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Node {
    /// By which others name it.
    pub number: u32,
    /// The path of the caller; none for the outermost frame.
    pub parent: Option<u32>,
    /// The frame.
    pub frame: u32,
    /// How certain it is that this frame called the one below it on the paths through here.
    pub certainty: StepCertainty,
}

/// Where a call path ends at its outer end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum PathEnd {
    /// Where the thread began.
    Outermost = 0,
    /// Where the part of the stack ends that was looked at.
    CutOff = 1,
    /// Where no caller could be found.
    Failed = 2,
    /// At once: registers or stack could not be had, as while a process begins or ends.
    NoStack = 3,
}

impl PathEnd {
    fn from_u8(value: u8) -> Option<PathEnd> {
        use PathEnd::{CutOff, Failed, NoStack, Outermost};
        let all = [Outermost, CutOff, Failed, NoStack];
        all.into_iter().find(|one| *one as u8 == value)
    }
}

/// A thread was found on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When, on the system's monotonic clock.
    pub time_ns: u64,
    /// What the sample stands for: nanoseconds, or events.
    pub weight: u64,
    /// The path of the innermost frame; none where nothing is known.
    pub node: Option<u32>,
    /// How the path ends.
    pub end: PathEnd,
}

/// A thread had no processor for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Where it was meanwhile; its time is that at which the thread got a processor again, its weight how
    /// long it had none.
    pub sample: Sample,
    /// Whether it did not wait for anything but for a processor, which another thread had taken from
    /// it.
    pub is_preempted: bool,
}

/// Something that the processor or the kernel counts, as it is sampled beside time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// By which occurrences name it.
    pub number: u32,
    /// What it is called: `cycles`, `page-faults`.
    pub name: String,
    /// How often it is sampled.
    pub rate: Rate,
}

/// How often an event is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Whenever it has happened so many times.
    Period(u64),
    /// About so many times in a second, as the kernel sees to it.
    Frequency(u64),
}

/// An event was found to happen on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrence {
    /// The event's number.
    pub event: u32,
    /// Where that was; its weight is how many events it stands for.
    pub sample: Sample,
}

/// How often an event has happened in all threads, as the kernel has counted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventCount {
    /// The event's number.
    pub event: u32,
    /// How often, in the time in which it was counted.
    pub count: u64,
    /// How long threads ran in which it should have been counted.
    pub enabled_ns: u64,
    /// How long it was: processors count only so many events at one time.
    pub running_ns: u64,
}

/// The run is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ending {
    /// How long it took.
    pub elapsed_ns: u64,
    /// The CPU time that the system has counted for the program's processes in user mode.
    pub user_ns: u64,
    /// The same in the kernel.
    pub system_ns: u64,
}

/// A number that may be missing.
fn put_optional(bytes: &mut Vec<u8>, number: Option<u32>) {
    put_varint(bytes, number.map_or(0, |number| u64::from(number) + 1));
}

fn optional(bytes: &mut ByteReader<'_>) -> Result<Option<u32>, Malformed> {
    match bytes.varint()? {
        0 => Ok(None),
        more => u32::try_from(more - 1).map(Some).map_err(|_| Malformed),
    }
}

impl Sample {
    fn put(&self, bytes: &mut Vec<u8>) {
        let numbers = [self.pid.into(), self.tid.into(), self.time_ns, self.weight];
        numbers.iter().for_each(|number| put_varint(bytes, *number));
        put_optional(bytes, self.node);
        bytes.push(self.end as u8);
    }

    fn read(bytes: &mut ByteReader<'_>) -> Result<Sample, Malformed> {
        Ok(Sample {
            pid: bytes.number()?,
            tid: bytes.number()?,
            time_ns: bytes.varint()?,
            weight: bytes.varint()?,
            node: optional(bytes)?,
            end: PathEnd::from_u8(bytes.byte()?).ok_or(Malformed)?,
        })
    }
}

impl Record {
    /// Appends the record.
    pub(crate) fn put(&self, bytes: &mut Vec<u8>) {
        let mut start = |kind: u8, numbers: &[u64]| {
            bytes.push(kind);
            numbers.iter().for_each(|number| put_varint(bytes, *number));
        };
        match self {
            Record::Settings(settings) => start(
                10,
                &[
                    settings.period_ns,
                    settings.stack_bytes,
                    settings.includes_kernel.into(),
                    settings.source as u64,
                ],
            ),
            Record::Process(process) => {
                start(2, &[process.pid.into()]);
                put_bytes(bytes, process.name.as_bytes());
            }
            Record::Thread(thread) => {
                start(3, &[thread.pid.into(), thread.tid.into()]);
                put_bytes(bytes, thread.name.as_bytes());
            }
            Record::Image(image) => {
                start(4, &[image.number.into()]);
                put_bytes(bytes, image.path.as_bytes());
                put_bytes(bytes, &image.build_id);
            }
            Record::Frame(frame) => {
                start(5, &[frame.number.into()]);
                put_optional(bytes, frame.image);
                put_varint(bytes, frame.address);
            }
            Record::Node(node) => {
                start(6, &[node.number.into()]);
                put_optional(bytes, node.parent);
                put_varint(bytes, node.frame.into());
                bytes.push(node.certainty as u8);
            }
            Record::Sample(sample) => {
                bytes.push(7);
                sample.put(bytes);
            }
            Record::Lost(count) => start(8, &[*count]),
            Record::Ending(ending) => {
                start(9, &[ending.elapsed_ns, ending.user_ns, ending.system_ns])
            }
            Record::Counted(counted) => start(
                11,
                &[
                    counted.expirations,
                    counted.sampled,
                    counted.without_room,
                    counted.used_ns,
                    counted.threads_left_out,
                ],
            ),
            Record::Window(window) => {
                // One more than the end, so that none is zero.
                let until = window.until_ns.map_or(0, |end| end.saturating_add(1));
                start(12, &[window.from_ns, until]);
            }
            Record::Rank(rank) => start(13, &[rank.pid.into(), rank.rank.into()]),
            Record::Symbol(symbol) => {
                start(14, &[symbol.image.into(), symbol.start, symbol.length]);
                put_bytes(bytes, symbol.name.as_bytes());
            }
            Record::Wait(wait) => {
                start(15, &[wait.is_preempted.into()]);
                wait.sample.put(bytes);
            }
            Record::HasWaits => start(16, &[]),
            Record::Event(event) => {
                let (kind, value) = match event.rate {
                    Rate::Period(period) => (0, period),
                    Rate::Frequency(frequency) => (1, frequency),
                };
                start(17, &[event.number.into(), kind, value]);
                put_bytes(bytes, event.name.as_bytes());
            }
            Record::Occurrence(occurrence) => {
                start(18, &[occurrence.event.into()]);
                occurrence.sample.put(bytes);
            }
            Record::Regions(regions) => start(
                20,
                &[
                    regions.entered,
                    regions.inside_ns,
                    regions.lost_marks,
                    regions.processes_elsewhere,
                ],
            ),
            Record::EventCount(counted) => start(
                19,
                &[
                    counted.event.into(),
                    counted.count,
                    counted.enabled_ns,
                    counted.running_ns,
                ],
            ),
        }
    }

    /// Reads the next record.
    pub(crate) fn read(bytes: &mut ByteReader<'_>) -> Result<Record, Malformed> {
        Ok(match bytes.byte()? {
            // Version 1 of the stream knows the kernel only.
            kind @ (1 | 10) => Record::Settings(Settings {
                period_ns: bytes.varint()?,
                stack_bytes: bytes.varint()?,
                includes_kernel: bytes.varint()? != 0,
                source: match kind {
                    1 => Source::Kernel,
                    _ => Source::from_u64(bytes.varint()?).ok_or(Malformed)?,
                },
            }),
            2 => Record::Process(Process {
                pid: bytes.number()?,
                name: bytes.text()?,
            }),
            3 => Record::Thread(Thread {
                pid: bytes.number()?,
                tid: bytes.number()?,
                name: bytes.text()?,
            }),
            4 => Record::Image(Image {
                number: bytes.number()?,
                path: bytes.text()?,
                build_id: bytes.bytes()?.to_vec(),
            }),
            5 => Record::Frame(Frame {
                number: bytes.number()?,
                image: optional(bytes)?,
                address: bytes.varint()?,
            }),
            6 => Record::Node(Node {
                number: bytes.number()?,
                parent: optional(bytes)?,
                frame: bytes.number()?,
                certainty: StepCertainty::from_u8(bytes.byte()?).ok_or(Malformed)?,
            }),
            7 => Record::Sample(Sample::read(bytes)?),
            8 => Record::Lost(bytes.varint()?),
            9 => Record::Ending(Ending {
                elapsed_ns: bytes.varint()?,
                user_ns: bytes.varint()?,
                system_ns: bytes.varint()?,
            }),
            11 => Record::Counted(Counted {
                expirations: bytes.varint()?,
                sampled: bytes.varint()?,
                without_room: bytes.varint()?,
                used_ns: bytes.varint()?,
                threads_left_out: bytes.varint()?,
            }),
            12 => Record::Window(Window {
                from_ns: bytes.varint()?,
                until_ns: bytes.varint()?.checked_sub(1),
            }),
            13 => Record::Rank(Rank {
                pid: bytes.number()?,
                rank: bytes.number()?,
            }),
            14 => Record::Symbol(Symbol {
                image: bytes.number()?,
                start: bytes.varint()?,
                length: bytes.varint()?,
                name: bytes.text()?,
            }),
            15 => Record::Wait(Wait {
                is_preempted: bytes.varint()? != 0,
                sample: Sample::read(bytes)?,
            }),
            16 => Record::HasWaits,
            17 => Record::Event(Event {
                number: bytes.number()?,
                rate: match bytes.varint()? {
                    0 => Rate::Period(bytes.varint()?),
                    1 => Rate::Frequency(bytes.varint()?),
                    _ => return Err(Malformed),
                },
                name: bytes.text()?,
            }),
            18 => Record::Occurrence(Occurrence {
                event: bytes.number()?,
                sample: Sample::read(bytes)?,
            }),
            19 => Record::EventCount(EventCount {
                event: bytes.number()?,
                count: bytes.varint()?,
                enabled_ns: bytes.varint()?,
                running_ns: bytes.varint()?,
            }),
            20 => Record::Regions(Regions {
                entered: bytes.varint()?,
                inside_ns: bytes.varint()?,
                lost_marks: bytes.varint()?,
                processes_elsewhere: bytes.varint()?,
            }),
            _ => return Err(Malformed),
        })
    }
}
