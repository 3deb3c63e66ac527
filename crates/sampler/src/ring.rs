//! Where the kernel writes what it says: a ring in memory that is shared with it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::perf_event::SetupError;

const PAGE_BYTES: usize = 4096;
/// Where the kernel's position stands in the first page, in `struct perf_event_mmap_page`.
const HEAD_OFFSET: usize = 1024;
/// Where the reader's position stands.
const TAIL_OFFSET: usize = HEAD_OFFSET + 8;

/// An event and its ring. The memory is this value's until it is dropped.
#[derive(Debug)]
pub(crate) struct Ring {
    event: OwnedFd,
    start: NonNull<u8>,
    data_bytes: usize,
}

impl Ring {
    /// Maps a ring of an event; `data_bytes` is a power of two of pages.
    pub(crate) fn new(event: OwnedFd, data_bytes: usize) -> Result<Ring, SetupError> {
        assert!(data_bytes.is_power_of_two() && data_bytes >= PAGE_BYTES);
        // SAFETY: new memory, where the kernel wants it.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE_BYTES + data_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(place) if start != libc::MAP_FAILED => Ok(Ring {
                event,
                start: place,
                data_bytes,
            }),
            _ => Err(SetupError::NoMemory(io::Error::last_os_error())),
        }
    }

    /// What to wait for.
    pub(crate) fn poll_entry(&self) -> libc::pollfd {
        libc::pollfd {
            fd: self.event.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        }
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: an aligned word of the first page, which both sides access as one.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// Takes all whole records out, one after the other.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(&[u8])) {
        let head = self.position(HEAD_OFFSET).load(Ordering::Acquire);
        let mut tail = self.position(TAIL_OFFSET).load(Ordering::Relaxed);
        let mut record = Vec::new();
        while head.wrapping_sub(tail) >= 8 {
            let mut start = [0; 8];
            self.copy(tail, &mut start);
            let length = u64::from(u16::from_le_bytes([start[6], start[7]]));
            if length < 8 || length > head.wrapping_sub(tail) {
                // The kernel writes no such record: what remains cannot be told apart.
                tail = head;
                break;
            }
            record.resize(usize::try_from(length).expect("16 bits"), 0);
            self.copy(tail, &mut record);
            each(&record);
            tail = tail.wrapping_add(length);
        }
        self.position(TAIL_OFFSET).store(tail, Ordering::Release);
    }

    /// Copies bytes from a position on, around the end of the ring.
    fn copy(&self, position: u64, to: &mut [u8]) {
        let mask = self.data_bytes as u64 - 1;
        let from = usize::try_from(position & mask).expect("less than the ring");
        let first = to.len().min(self.data_bytes - from);
        let (before, behind) = to.split_at_mut(first);
        let data = self.start.as_ptr().wrapping_add(PAGE_BYTES);
        // SAFETY: both parts lie within the ring's data, which the kernel leaves alone between the
        // reader's position and its own.
        unsafe {
            std::ptr::copy_nonoverlapping(data.add(from), before.as_mut_ptr(), before.len());
            std::ptr::copy_nonoverlapping(data, behind.as_mut_ptr(), behind.len());
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this value's own memory, to which nothing refers any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), PAGE_BYTES + self.data_bytes) };
    }
}
