//! Where the kernel writes what it says: a ring in memory that is shared with it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::perf_event::{self, SetupError};
use crate::shared_memory::SharedMemory;

const PAGE_BYTES: usize = 4096;
/// Where the kernel's position stands in the first page, in `struct perf_event_mmap_page`.
const HEAD_OFFSET: usize = 1024;
/// Where the reader's position stands.
const TAIL_OFFSET: usize = HEAD_OFFSET + 8;

/// A ring: an event's, or one that a program fills.
#[derive(Debug)]
pub(crate) struct Ring {
    /// While it is there, the kernel writes.
    event: Option<OwnedFd>,
    memory: SharedMemory,
    data_bytes: usize,
}

impl Ring {
    /// Maps a ring of an event; `data_bytes` is a power of two of pages.
    pub(crate) fn new(event: OwnedFd, data_bytes: usize) -> Result<Ring, SetupError> {
        let memory = map(&event, 0, data_bytes).map_err(SetupError::no_memory)?;
        Ok(Ring {
            event: Some(event),
            memory,
            data_bytes,
        })
    }

    /// Maps a ring in a file.
    pub(crate) fn in_file(file: &File, offset: usize, data_bytes: usize) -> io::Result<Ring> {
        Ok(Ring {
            event: None,
            memory: map(file, offset, data_bytes)?,
            data_bytes,
        })
    }

    /// What to wait for.
    pub(crate) fn poll_entry(&self) -> libc::pollfd {
        libc::pollfd {
            fd: self.event.as_ref().map_or(-1, AsRawFd::as_raw_fd),
            events: libc::POLLIN,
            revents: 0,
        }
    }

    /// The event, which the kernel fills the ring for.
    pub(crate) fn event(&self) -> Option<&OwnedFd> {
        self.event.as_ref()
    }

    /// How many records found no room so far.
    pub(crate) fn lost(&self) -> u64 {
        self.event
            .as_ref()
            .map_or(0, |event| perf_event::count(event).lost)
    }

    /// Whether there is something to take out.
    pub(crate) fn has_more(&self) -> bool {
        let position = |offset| self.position(offset).load(Ordering::Relaxed);
        position(HEAD_OFFSET) != position(TAIL_OFFSET)
    }

    /// A word of the page before the data.
    pub(crate) fn word(&self, offset: usize) -> u64 {
        self.position(offset).load(Ordering::Acquire)
    }

    /// Writes a word, as the other side does.
    #[cfg(test)]
    pub(crate) fn set(&self, offset: usize, value: u64) {
        self.position(offset).store(value, Ordering::Release);
    }

    /// Writes bytes of the data, as the other side does.
    #[cfg(test)]
    pub(crate) fn write(&self, position: usize, bytes: &[u8]) {
        self.memory.write(PAGE_BYTES + position, bytes);
    }

    fn position(&self, offset: usize) -> &AtomicU64 {
        assert!(offset < PAGE_BYTES);
        self.memory.word(offset)
    }

    /// Takes all whole records out, one after the other.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(&[u8])) {
        let head = self.position(HEAD_OFFSET).load(Ordering::Acquire);
        let mut tail = self.position(TAIL_OFFSET).load(Ordering::Relaxed);
        if head.wrapping_sub(tail) > self.data_bytes as u64 {
            // Nobody writes so much: a program has written to what is not its own.
            tail = head;
        }
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
        // The other side leaves what lies between the reader's position and its own alone.
        self.memory.copy(PAGE_BYTES + from, before);
        self.memory.copy(PAGE_BYTES, behind);
    }
}

/// Maps the page with the positions and the data behind it.
fn map(file: &impl AsFd, offset: usize, data_bytes: usize) -> io::Result<SharedMemory> {
    assert!(data_bytes.is_power_of_two() && data_bytes >= PAGE_BYTES);
    SharedMemory::map(file, offset, PAGE_BYTES + data_bytes)
}
