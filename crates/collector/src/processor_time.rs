//! Whether a thread had a processor: how long it ran, and how long it was ready to run and did not.
//!
//! Processor time is the kernel's, as is the time that a thread waits in the queue of its
//! processor (`schedstat`). Reading either is dear beside a passage through a construct, so that
//! it is done where a thread has been at something for long, and the second only where the
//! first shows that it did not run all that time.

use std::mem::MaybeUninit;

/// What the kernel has counted of the calling thread. Times are nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProcessorTime {
    /// How long it ran.
    pub(crate) ran_ns: u64,
    /// How often it stopped running because it waited for something.
    pub(crate) stopped: u64,
    /// How often it was made to stop.
    pub(crate) preempted: u64,
}

impl ProcessorTime {
    /// What is counted by now.
    pub(crate) fn now() -> ProcessorTime {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to room for what the kernel fills; without that it stays zero,
        // which is a value of the type too.
        let usage = unsafe {
            libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
            usage.assume_init()
        };
        let ns = |time: libc::timeval| {
            (time.tv_sec as u64).wrapping_mul(1_000_000_000) + time.tv_usec as u64 * 1000
        };
        ProcessorTime {
            ran_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
            stopped: usage.ru_nvcsw as u64,
            preempted: usage.ru_nivcsw as u64,
        }
    }
}

/// How long the calling thread has been ready to run and had no processor, since it was created,
/// in nanoseconds; nothing where the kernel does not tell.
pub(crate) fn without_processor_ns() -> Option<u64> {
    let path = c"/proc/thread-self/schedstat";
    let mut text = [0_u8; 64];
    // SAFETY: the path ends in a zero, the buffer is as long as is said, and the descriptor is
    // closed by whoever opened it. The program sees neither a descriptor nor an error number.
    let length = unsafe {
        let error = *libc::__errno_location();
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let mut length = -1;
        if file >= 0 {
            length = libc::read(file, text.as_mut_ptr().cast(), text.len());
            libc::close(file);
        }
        *libc::__errno_location() = error;
        length
    };
    let text = text.get(..usize::try_from(length).ok()?)?;
    // What it ran, what it waited, and how often it was given a processor.
    let second = text.split(|byte| *byte == b' ').nth(1)?;
    std::str::from_utf8(second).ok()?.parse().ok()
}
