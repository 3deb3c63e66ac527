//! The kernel as a source: an event on each processor, inherited by all that the program starts.

use std::time::Duration;

use unspool_profile_record::Counted;

use crate::kernel_record::KernelRecord;
use crate::perf_event::{Begins, Event, Request, SetupError, open};
use crate::ring::Ring;
use crate::sampling::Sampling;
use crate::source::{Read, Source};

/// Bytes of each processor's ring, from what is asked for down to what any user may have.
const LARGEST_RING: usize = 4 << 20;
const SMALLEST_RING: usize = 512 << 10;

/// How long is waited for samples before it is looked whether the program has ended, and before
/// what was read from one ring is held against what comes later from others.
const ROUND: Duration = Duration::from_millis(50);

/// A ring for each processor.
pub(crate) struct Perf {
    rings: Vec<Ring>,
    /// What the kernel was asked for.
    pub(crate) request: Request,
}

impl Perf {
    /// With time in the kernel where that is allowed.
    pub(crate) fn new(sampling: Sampling) -> Result<Perf, SetupError> {
        let mut request = Request {
            event: Event::TaskClock,
            begins: Begins::AtExecution,
            period: sampling.period_ns(),
            stack_bytes: sampling.stack_bytes,
            includes_kernel: true,
            wakeup_bytes: 0,
        };
        if let Err(SetupError::Forbidden { .. }) = open(&request, -1) {
            request.includes_kernel = false;
        }
        let mut data_bytes = LARGEST_RING;
        loop {
            request.wakeup_bytes = u32::try_from(data_bytes / 4).expect("a small ring");
            match rings_of(&request, data_bytes) {
                Err(SetupError::NoMemory(_)) if data_bytes > SMALLEST_RING => data_bytes /= 2,
                made => return made.map(|rings| Perf { rings, request }),
            }
        }
    }
}

fn rings_of(request: &Request, data_bytes: usize) -> Result<Vec<Ring>, SetupError> {
    let mut rings = Vec::new();
    // SAFETY: asks for a number.
    let processors = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) };
    for processor in 0..i32::try_from(processors).unwrap_or(1).max(1) {
        match open(request, processor) {
            Ok(event) => rings.push(Ring::new(event, data_bytes)?),
            // A processor that is not in use.
            Err(SetupError::Impossible(error)) if error.raw_os_error() == Some(libc::ENODEV) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(rings)
}

impl Source for Perf {
    fn wait(&self) {
        let mut entries: Vec<_> = self.rings.iter().map(Ring::poll_entry).collect();
        let timeout = i32::try_from(ROUND.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: as many entries as there are. That a signal or an event ends the wait is the
        // same to the caller.
        unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as u64, timeout) };
    }

    fn drain(&mut self, each: &mut dyn FnMut(Read)) {
        for ring in &mut self.rings {
            ring.drain(|bytes| {
                if let Some(read) = KernelRecord::read(bytes).transpose() {
                    each(read);
                }
            });
        }
    }

    fn finish(&mut self, each: &mut dyn FnMut(Read)) -> Option<Counted> {
        self.drain(each);
        None
    }
}
