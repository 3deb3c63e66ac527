//! Events of a process that runs already. Each of its threads gets one on each processor; threads
//! and children that it starts from then on inherit them. A processor has one ring, for all.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use super::{Perf, includes_kernel, open_on, processors, read, request, with_memory};
use crate::kernel_record::{KernelRecord, What};
use crate::perf_event::{Begins, Request, SetupError, open};
use crate::ring::Ring;
use crate::sampling::Sampling;
use crate::source::Read;

/// `PERF_EVENT_IOC_SET_OUTPUT`.
const SET_OUTPUT: libc::Ioctl = 0x2405;
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
    pub fn attach(pid: u32, sampling: Sampling) -> Result<Perf, SetupError> {
        if !is_process(pid) {
            return Err(SetupError::NoProcess(pid));
        }
        raise_limit_of_files();
        let mut request = request(sampling, Begins::InThread(pid));
        request.includes_kernel = includes_kernel(&request);
        let perf = with_memory(&mut request, |request, data_bytes| {
            let mut perf = Perf {
                rings: Vec::new(),
                events: Vec::new(),
                pending: Vec::new(),
                request: *request,
            };
            perf.follow(pid, data_bytes)?;
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
    fn follow(&mut self, pid: u32, data_bytes: usize) -> Result<(), SetupError> {
        let mut outputs: Vec<(i32, RawFd)> = Vec::new();
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
                self.follow_thread(tid, data_bytes, &mut outputs)?;
                known.insert(tid);
            }
        }
        if self.rings.is_empty() {
            return Err(SetupError::NoProcess(pid));
        }
        self.pending.extend(present(pid).into_iter().map(Ok));
        Ok(())
    }

    /// Follows a thread, which may have ended.
    fn follow_thread(
        &mut self,
        tid: u32,
        data_bytes: usize,
        outputs: &mut Vec<(i32, RawFd)>,
    ) -> Result<(), SetupError> {
        let request = Request {
            begins: Begins::InThread(tid),
            ..self.request
        };
        for processor in processors() {
            let event = match open_on(&request, processor) {
                Ok(Some(event)) => event,
                Ok(None) => continue,
                Err(error) if error.number() == Some(libc::ESRCH) => return Ok(()),
                Err(error) => return Err(error),
            };
            let output = outputs.iter().find(|(other, _)| *other == processor);
            let Some((_, output)) = output else {
                outputs.push((processor, event.as_raw_fd()));
                self.rings.push(Ring::new(event, data_bytes)?);
                continue;
            };
            // SAFETY: both are events of this process, on the same processor.
            if unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, *output) } != 0 {
                return Err(SetupError::Impossible(io::Error::last_os_error()));
            }
            self.events.push(event);
        }
        Ok(())
    }

    /// The threads of which the kernel has said that a thread that was followed has started them.
    fn started(&mut self) -> Vec<u32> {
        read(&mut self.rings, &mut |read| self.pending.push(read));
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
