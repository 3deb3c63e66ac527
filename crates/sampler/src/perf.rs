//! The kernel as a source: an event on each processor, inherited by all that the program starts; or
//! one for each thread of a process that runs already ([`attached`]).

mod attached;

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use rustc_hash::FxHashMap;
use unspool_container::bytes::Malformed;
use unspool_profile_record::{Counted, EventCount, Rate, Settings, Source as Taken};

use crate::kernel_record::{KernelRecord, What};
use crate::perf_event::{Begins, Event, Request, SetupError, count, identifier, open, set_output};
use crate::ring::Ring;
use crate::sampling::Sampling;
use crate::source::{Read, Source};

/// Bytes of each processor's ring, from what is asked for down to what any user may have.
const LARGEST_RING: usize = 4 << 20;
const SMALLEST_RING: usize = 512 << 10;

/// A thread can leave its processor much more often than it is sampled: rings of that are larger by
/// so much, as long as all together are not larger than this.
const LARGER_OF_SWITCHES: usize = 8;
const ALL_OF_SWITCHES: usize = 128 << 20;

/// How long is waited for samples before it is looked whether the program has ended, and before
/// what was read from one ring is held against what comes later from others.
const ROUND: Duration = Duration::from_millis(50);

/// The kernel's events, which it writes to a ring of each processor.
#[derive(Debug)]
pub struct Perf {
    rings: Vec<Ring>,
    /// Those of the events by which threads leave their processors, if that is asked for.
    switches: Vec<Ring>,
    /// Events beside those whose rings these are.
    events: Vec<OwnedFd>,
    /// What is sampled beside time, which writes to the same rings.
    chosen: Chosen,
    /// How many records the rings have told to be lost.
    told_lost: u64,
    /// What was read before anyone asked.
    pending: Vec<Read>,
    /// What the kernel was asked for.
    pub(crate) request: Request,
}

/// The events that somebody wants sampled, each on all processors.
#[derive(Debug, Default)]
struct Chosen {
    /// Each with its place among those that were asked for.
    events: Vec<(u32, OwnedFd)>,
    /// The places by what records call the events, and their periods, if those are fixed.
    places: FxHashMap<u64, (u32, Option<u64>)>,
}

impl Chosen {
    /// Opens all on a processor, for whom a request is; they write to the ring of `output`, an event there.
    fn follow(
        &mut self,
        sampling: &Sampling,
        request: &Request,
        processor: i32,
        output: &impl AsRawFd,
    ) -> Result<(), SetupError> {
        for (place, choice) in (0..).zip(&sampling.events) {
            let name = choice.name();
            if choice.code.is_of_kernel && !request.includes_kernel {
                return Err(SetupError::event_forbidden(name));
            }
            let rate = choice.rate(sampling.frequency_hz);
            let period = match rate {
                Rate::Period(period) => Some(period),
                Rate::Frequency(_) => None,
            };
            let request = Request {
                event: Event::Of(choice.code),
                rate,
                has_period: period.is_none(),
                ..*request
            };
            let of_event = |error: SetupError| error.of_event(name);
            if let Some(event) = open_on(&request, processor).map_err(of_event)? {
                set_output(&event, output).map_err(of_event)?;
                self.places.insert(identifier(&event)?, (place, period));
                self.events.push((place, event));
            }
        }
        Ok(())
    }

    /// A record of a ring that they share with the event of time, unless there are none.
    fn read(&self, bytes: &[u8]) -> Result<Option<KernelRecord>, Malformed> {
        if self.events.is_empty() {
            return KernelRecord::read(bytes);
        }
        let period = |identifier| self.places.get(&identifier)?.1;
        let read = KernelRecord::read_identified(bytes, period)?;
        Ok(read.map(|(identifier, record)| KernelRecord {
            what: match (record.what, self.places.get(&identifier)) {
                (What::Sampled(sampled), Some((place, _))) => What::Occurred(*place, sampled),
                (what, _) => what,
            },
            ..record
        }))
    }
}

impl Perf {
    /// Of a program that the calling thread is going to start; with time in the kernel where that is
    /// allowed.
    ///
    /// # Errors
    /// If the kernel takes no samples, or gives no memory for them.
    pub fn new(sampling: &Sampling) -> Result<Perf, SetupError> {
        let mut request = request(sampling, Begins::AtExecution);
        request.includes_kernel = includes_kernel(&request);
        let (of_time, of_switching, chosen) = with_memory(&mut request, |request, data_bytes| {
            let rings = rings_of(request, data_bytes)?;
            let switches = match sampling.off_cpu {
                true => rings_of(&of_switches(request), data_bytes * larger_of_switches()),
                false => Ok(Vec::new()),
            };
            let mut chosen = Chosen::default();
            for (processor, ring) in &rings {
                if let Some(output) = ring.event() {
                    chosen.follow(sampling, request, *processor, output)?;
                }
            }
            Ok((rings, switches.map_err(SetupError::of_waits)?, chosen))
        })?;
        let rings = |of: Vec<(i32, Ring)>| of.into_iter().map(|(_, ring)| ring).collect();
        Ok(Perf {
            rings: rings(of_time),
            switches: rings(of_switching),
            events: Vec::new(),
            chosen,
            told_lost: 0,
            pending: Vec::new(),
            request,
        })
    }

    pub(crate) fn settings(&self, sampling: &Sampling) -> Settings {
        sampling.settings(Taken::Kernel, self.request.includes_kernel)
    }
}

fn request(sampling: &Sampling, begins: Begins) -> Request {
    Request {
        event: Event::TaskClock,
        begins,
        rate: Rate::Period(sampling.period_ns()),
        stack_bytes: sampling.stack_bytes,
        includes_kernel: true,
        is_identified: !sampling.events.is_empty(),
        has_period: true,
        wakeup_bytes: 0,
    }
}

/// Each time that a thread leaves its processor.
fn of_switches(request: &Request) -> Request {
    Request {
        event: Event::ContextSwitches,
        rate: Rate::Period(1),
        includes_kernel: true,
        is_identified: false,
        ..*request
    }
}

/// How much larger rings of switches are than others: a power of two.
fn larger_of_switches() -> usize {
    let fitting = ALL_OF_SWITCHES / LARGEST_RING / processors().len();
    1 << fitting.clamp(1, LARGER_OF_SWITCHES).ilog2()
}

/// Whether what is asked for is allowed with time in the kernel.
fn includes_kernel(request: &Request) -> bool {
    !matches!(open(request, -1), Err(SetupError::Forbidden { .. }))
}

/// Makes rings as large as there is memory for.
fn with_memory<R>(
    request: &mut Request,
    make: impl Fn(&Request, usize) -> Result<R, SetupError>,
) -> Result<R, SetupError> {
    let mut data_bytes = LARGEST_RING;
    loop {
        request.wakeup_bytes = u32::try_from(data_bytes / 4).expect("a small ring");
        match make(&*request, data_bytes) {
            Err(SetupError::NoMemory { .. }) if data_bytes > SMALLEST_RING => data_bytes /= 2,
            made => return made,
        }
    }
}

/// The numbers of all processors, in use or not.
fn processors() -> std::ops::Range<i32> {
    // SAFETY: asks for a number.
    let count = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    0..i32::try_from(count).unwrap_or(1).max(1)
}

/// An event on a processor; none if that is not in use.
fn open_on(request: &Request, processor: i32) -> Result<Option<OwnedFd>, SetupError> {
    match open(request, processor) {
        Ok(event) => Ok(Some(event)),
        Err(SetupError::Impossible(error)) if error.raw_os_error() == Some(libc::ENODEV) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// A ring for each processor in use.
fn rings_of(request: &Request, data_bytes: usize) -> Result<Vec<(i32, Ring)>, SetupError> {
    let mut rings = Vec::new();
    for processor in processors() {
        if let Some(event) = open_on(request, processor)? {
            rings.push((processor, Ring::new(event, data_bytes)?));
        }
    }
    Ok(rings)
}

impl Source for Perf {
    fn wait(&self) {
        let rings = self.rings.iter().chain(&self.switches);
        let mut entries: Vec<_> = rings.map(Ring::poll_entry).collect();
        let timeout = i32::try_from(ROUND.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: as many entries as there are. That a signal or an event ends the wait is the
        // same to the caller.
        unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as u64, timeout) };
        let has_ended = |entry: &libc::pollfd| entry.revents & libc::POLLHUP != 0;
        if !self.events.is_empty() && entries.iter().any(has_ended) {
            // The thread has ended whose event's ring others share: it is ready for ever.
            std::thread::sleep(ROUND / 5);
        }
    }

    fn drain(&mut self, each: &mut dyn FnMut(Read)) {
        let told_lost = &mut self.told_lost;
        let mut each = |read: Read| {
            if let Ok(KernelRecord {
                what: What::Lost(count),
                ..
            }) = read
            {
                *told_lost += count;
            }
            each(read);
        };
        self.pending.drain(..).for_each(&mut each);
        let chosen = &self.chosen;
        read(&mut self.rings, |bytes| chosen.read(bytes), &mut each);
        read(&mut self.switches, KernelRecord::read_of_waits, &mut each);
    }

    fn finish(&mut self, each: &mut dyn FnMut(Read)) -> Option<Counted> {
        self.drain(each);
        // Behind the last that were lost came no record that could have told it.
        let rings = self.rings.iter().chain(&self.switches);
        let lost: u64 = rings.map(Ring::lost).sum();
        let chosen = self.chosen.events.iter().map(|(_, event)| event);
        let events = self.events.iter().chain(chosen);
        let lost = lost + events.map(|event| count(event).lost).sum::<u64>();
        if let Some(count @ 1..) = lost.checked_sub(self.told_lost) {
            each(Ok(KernelRecord {
                time_ns: u64::MAX,
                pid: 0,
                tid: 0,
                what: What::Lost(count),
            }));
        }
        None
    }

    /// An event's time on a processor counts as one in which it should be counted wherever the thread runs.
    fn event_counts(&self) -> Vec<EventCount> {
        let mut counts: Vec<EventCount> = Vec::new();
        for (place, event) in &self.chosen.events {
            let counted = count(event);
            let known = counts.iter_mut().find(|it| it.event == *place);
            let sum = match known {
                Some(sum) => sum,
                None => {
                    counts.push(EventCount {
                        event: *place,
                        count: 0,
                        enabled_ns: 0,
                        running_ns: 0,
                    });
                    counts.last_mut().expect("it was just added")
                }
            };
            sum.count += counted.events;
            sum.enabled_ns += counted.enabled_ns;
            sum.running_ns += counted.running_ns;
        }
        for sum in &mut counts {
            sum.enabled_ns /= self.rings.len().max(1) as u64;
            sum.enabled_ns = sum.enabled_ns.max(sum.running_ns);
        }
        counts
    }
}

/// Takes out what has come.
fn read(
    rings: &mut [Ring],
    as_record: impl Fn(&[u8]) -> Result<Option<KernelRecord>, Malformed>,
    each: &mut dyn FnMut(Read),
) {
    for ring in rings {
        ring.drain(|bytes| {
            if let Some(read) = as_record(bytes).transpose() {
                each(read);
            }
        });
    }
}
