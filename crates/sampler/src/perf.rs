//! The kernel as a source: an event on each processor, inherited by all that the program starts; or
//! one for each thread of a process that runs already ([`attached`]).

mod attached;

use std::os::fd::OwnedFd;
use std::time::Duration;

use unspool_container::bytes::Malformed;
use unspool_profile_record::{Counted, Settings, Source as Taken};

use crate::kernel_record::{KernelRecord, What};
use crate::perf_event::{Begins, Event, Request, SetupError, lost as lost_of, open};
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
    /// How many records the rings have told to be lost.
    told_lost: u64,
    /// What was read before anyone asked.
    pending: Vec<Read>,
    /// What the kernel was asked for.
    pub(crate) request: Request,
}

impl Perf {
    /// Of a program that the calling thread is going to start; with time in the kernel where that is
    /// allowed.
    ///
    /// # Errors
    /// If the kernel takes no samples, or gives no memory for them.
    pub fn new(sampling: Sampling) -> Result<Perf, SetupError> {
        let mut request = request(sampling, Begins::AtExecution);
        request.includes_kernel = includes_kernel(&request);
        let (rings, switches) = with_memory(&mut request, |request, data_bytes| {
            let rings = rings_of(request, data_bytes)?;
            let switches = match sampling.off_cpu {
                true => rings_of(&of_switches(request), data_bytes * larger_of_switches()),
                false => Ok(Vec::new()),
            };
            Ok((rings, switches.map_err(SetupError::of_waits)?))
        })?;
        Ok(Perf {
            rings,
            switches,
            events: Vec::new(),
            told_lost: 0,
            pending: Vec::new(),
            request,
        })
    }

    pub(crate) fn settings(&self, sampling: Sampling) -> Settings {
        sampling.settings(Taken::Kernel, self.request.includes_kernel)
    }
}

fn request(sampling: Sampling, begins: Begins) -> Request {
    Request {
        event: Event::TaskClock,
        begins,
        period: sampling.period_ns(),
        stack_bytes: sampling.stack_bytes,
        includes_kernel: true,
        wakeup_bytes: 0,
    }
}

/// Each time that a thread leaves its processor.
fn of_switches(request: &Request) -> Request {
    Request {
        event: Event::ContextSwitches,
        period: 1,
        includes_kernel: true,
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

fn rings_of(request: &Request, data_bytes: usize) -> Result<Vec<Ring>, SetupError> {
    let mut rings = Vec::new();
    for processor in processors() {
        if let Some(event) = open_on(request, processor)? {
            rings.push(Ring::new(event, data_bytes)?);
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
        read(&mut self.rings, KernelRecord::read, &mut each);
        read(&mut self.switches, KernelRecord::read_of_waits, &mut each);
    }

    fn finish(&mut self, each: &mut dyn FnMut(Read)) -> Option<Counted> {
        self.drain(each);
        // Behind the last that were lost came no record that could have told it.
        let rings = self.rings.iter().chain(&self.switches);
        let lost: u64 = rings.map(Ring::lost).sum();
        let lost = lost + self.events.iter().map(lost_of).sum::<u64>();
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
