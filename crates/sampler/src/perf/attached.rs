//! Events of a process that runs already. Each of its threads gets one on each processor; threads
//! and children that it starts from then on inherit them. A processor has one ring, for all.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use super::{
    Chosen, Perf, includes_kernel, larger_of_switches, of_switches, open_on, processors, read,
    request, with_memory,
};
use crate::clock::now_ns;
use crate::kernel_record::{KernelRecord, What};
use crate::perf_event::{Begins, Request, SetupError, open, set_output};
use crate::ring::Ring;
use crate::sampling::Sampling;
use crate::source::Read;

/// The events whose rings those of other threads write to, by their processors.
type Outputs = Vec<(i32, RawFd)>;

/// How long a thread may take from where it is seen to where the kernel has said who started it.
const TOLD_AFTER: Duration = Duration::from_millis(2);
/// A process that starts threads faster than they can be followed is followed as far as that.
const MOST_LOOKS: usize = 1000;

impl Perf {
    /// Of all threads of a process, and all that it starts from now on; with time in the kernel
    /// where that is allowed. Nothing is changed in the process.
    ///
    /// # Errors
    /// If there is no such process, or the kernel takes no samples of it.
    pub fn attach(pid: u32, sampling: &Sampling) -> Result<Perf, SetupError> {
        if !is_process(pid) {
            return Err(SetupError::NoProcess(pid));
        }
        raise_limit_of_files();
        let mut request = request(sampling, Begins::InThread(pid));
        request.includes_kernel = includes_kernel(&request);
        let perf = with_memory(&mut request, |request, data_bytes| {
            let mut perf = Perf {
                rings: Vec::new(),
                switches: Vec::new(),
                events: Vec::new(),
                chosen: Chosen::default(),
                told_lost: 0,
                pending: Vec::new(),
                request: *request,
            };
            perf.follow(pid, sampling, data_bytes)?;
            Ok(perf)
        });
        match perf {
            Err(SetupError::Forbidden { source, .. }) if may_sample_itself(request) => {
                Err(SetupError::Foreign { pid, source })
            }
            made => made,
        }
    }

    /// Follows every thread that there is, and those that these have started meanwhile.
    fn follow(
        &mut self,
        pid: u32,
        sampling: &Sampling,
        data_bytes: usize,
    ) -> Result<(), SetupError> {
        let mut outputs = Outputs::default();
        let mut outputs_of_switches = Outputs::default();
        let mut known = BTreeSet::new();
        for look in 0..MOST_LOOKS {
            let mut new = new_threads(pid, &known);
            if look > 0 && !new.is_empty() {
                // Who was started by a thread that was followed is followed already.
                std::thread::sleep(TOLD_AFTER);
                known.extend(self.started());
                new = new_threads(pid, &known);
            }
            if new.is_empty() {
                break;
            }
            for tid in new {
                let request = self.request;
                let rings = self.follow_thread(tid, request, data_bytes, &mut outputs)?;
                self.rings.extend(rings);
                self.follow_events(tid, sampling, &outputs)?;
                if sampling.off_cpu {
                    let request = of_switches(&request);
                    let outputs = &mut outputs_of_switches;
                    let data_bytes = data_bytes * larger_of_switches();
                    let rings = self.follow_thread(tid, request, data_bytes, outputs);
                    self.switches.extend(rings.map_err(SetupError::of_waits)?);
                }
                known.insert(tid);
            }
        }
        if self.rings.is_empty() {
            return Err(SetupError::NoProcess(pid));
        }
        self.pending.extend(present(pid).into_iter().map(Ok));
        if sampling.off_cpu {
            self.pending.extend(waiting(pid).into_iter().map(Ok));
        }
        Ok(())
    }

    /// Follows a thread, which may have ended, by one event on each processor. Gives the rings of
    /// processors that had none yet.
    fn follow_thread(
        &mut self,
        tid: u32,
        request: Request,
        data_bytes: usize,
        outputs: &mut Outputs,
    ) -> Result<Vec<Ring>, SetupError> {
        let mut rings = Vec::new();
        let request = Request {
            begins: Begins::InThread(tid),
            ..request
        };
        for processor in processors() {
            let event = match open_on(&request, processor) {
                Ok(Some(event)) => event,
                Ok(None) => continue,
                Err(error) if error.number() == Some(libc::ESRCH) => break,
                Err(error) => return Err(error),
            };
            let output = outputs.iter().find(|(other, _)| *other == processor);
            let Some((_, output)) = output else {
                outputs.push((processor, event.as_raw_fd()));
                rings.push(Ring::new(event, data_bytes)?);
                continue;
            };
            set_output(&event, output)?;
            self.events.push(event);
        }
        Ok(rings)
    }

    /// The same by the events that are sampled beside time, where there are rings.
    fn follow_events(
        &mut self,
        tid: u32,
        sampling: &Sampling,
        outputs: &Outputs,
    ) -> Result<(), SetupError> {
        let request = Request {
            begins: Begins::InThread(tid),
            ..self.request
        };
        for (processor, output) in outputs {
            match self.chosen.follow(sampling, &request, *processor, output) {
                Err(error) if error.number() == Some(libc::ESRCH) => break,
                other => other?,
            }
        }
        Ok(())
    }

    /// The threads of which the kernel has said that a thread that was followed has started them.
    fn started(&mut self) -> Vec<u32> {
        let mut each = |read| self.pending.push(read);
        let chosen = &self.chosen;
        read(&mut self.rings, |bytes| chosen.read(bytes), &mut each);
        let started = |read: &Read| match read {
            Ok(KernelRecord {
                what: What::Started { .. },
                tid,
                ..
            }) => Some(*tid),
            _ => None,
        };
        self.pending.iter().filter_map(started).collect()
    }
}

/// Whether the kernel lets this user take samples at all.
fn may_sample_itself(request: Request) -> bool {
    let begins = Begins::Now;
    open(&Request { begins, ..request }, -1).is_ok()
}

/// The threads of a process.
fn threads(pid: u32) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return Vec::new();
    };
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    entries.filter_map(number).collect()
}

fn new_threads(pid: u32, known: &BTreeSet<u32>) -> Vec<u32> {
    let is_new = |tid: &u32| !known.contains(tid);
    threads(pid).into_iter().filter(is_new).collect()
}

/// Whether a number is a process's: other threads have directories, too, which are not listed.
fn is_process(pid: u32) -> bool {
    let own = format!("Tgid:\t{pid}");
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    status.is_ok_and(|status| status.lines().any(|line| line == own))
}

/// What is mapped in a process, and what its threads are called. The kernel tells only of changes.
fn present(pid: u32) -> Vec<KernelRecord> {
    let record = |tid, what| KernelRecord {
        time_ns: 0,
        pid,
        tid,
        what,
    };
    let mut records = Vec::new();
    if let Ok(text) = fs::read(format!("/proc/{pid}/maps")) {
        records.push(record(pid, What::Mappings(text)));
    }
    for tid in threads(pid) {
        if let Ok(mut name) = fs::read(format!("/proc/{pid}/task/{tid}/comm")) {
            name.pop_if(|last| *last == b'\n');
            let is_execution = false;
            records.push(record(tid, What::Named { name, is_execution }));
        }
    }
    records
}

/// Which threads of a process wait already. The kernel tells only when they will go on.
fn waiting(pid: u32) -> Vec<KernelRecord> {
    let record = |tid| {
        // Whoever leaves its processor between these two is told of by the kernel, with a later time.
        let time_ns = now_ns();
        let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stat")).ok()?;
        let (_, state) = text.rsplit_once(") ")?;
        let is_preempted = false;
        state
            .starts_with(['S', 'D', 'T', 't'])
            .then_some(KernelRecord {
                time_ns,
                pid,
                tid,
                what: What::Left { is_preempted },
            })
    };
    threads(pid).into_iter().filter_map(record).collect()
}

/// A process has more threads than this one may have files open, unless it is allowed to.
fn raise_limit_of_files() {
    // SAFETY: the kernel reads and writes one structure of this frame.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
