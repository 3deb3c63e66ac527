//! The file that sampled programs share with this process.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use unspool_sample_slots::{HEADER_BYTES, MAGIC, SLOTS, header, offset};

use crate::removal::Removal;
use crate::ring::Ring;
use crate::sampling::Sampling;
use crate::shared_memory::SharedMemory;

/// Where files are memory.
const MEMORY: &str = "/dev/shm";
/// How much of the samples that may come in this time a ring holds.
const HELD_MS: u64 = 25;
const SMALLEST_RING: u64 = 256 << 10;
const LARGEST_RING: u64 = 4 << 20;

/// A file of slots, which goes with this value.
pub(crate) struct SlotFile {
    file: File,
    /// Removes the file where this process is killed; before that, it is told not to.
    _removal: Option<Removal>,
    path: tempfile::TempPath,
    header: SharedMemory,
    data_bytes: usize,
}

impl SlotFile {
    /// Makes the file.
    pub(crate) fn new(sampling: &Sampling, clock: i32) -> io::Result<SlotFile> {
        let mut named = tempfile::Builder::new();
        let named = named.prefix("unspool-profile-");
        let file = named.tempfile_in(MEMORY).or_else(|_| named.tempfile())?;
        let (file, path) = file.into_parts();
        // Without a process to spare the file may stay: that is no reason not to sample.
        let removal = Removal::of(&path).ok();
        let bytes = u64::from(sampling.frequency_hz) * u64::from(sampling.stack_bytes) * HELD_MS;
        let bytes = (bytes / 1000).next_power_of_two();
        let data_bytes = bytes.clamp(SMALLEST_RING, LARGEST_RING) as usize;
        // It is filled where slots are used only.
        file.set_len(offset(SLOTS, data_bytes) as u64)?;
        let slots = SlotFile {
            header: SharedMemory::map(&file, 0, HEADER_BYTES)?,
            file,
            _removal: removal,
            path,
            data_bytes,
        };
        let namespace = std::fs::metadata("/proc/self/ns/pid")?.ino();
        for (place, value) in [
            (header::DATA_BYTES, data_bytes as u64),
            (header::PERIOD_NS, sampling.period_ns()),
            (header::STACK_BYTES, sampling.stack_bytes.into()),
            (header::CLOCK, u64::from(clock.unsigned_abs())),
            (header::PID_NAMESPACE, namespace),
            (header::MAGIC, MAGIC),
        ] {
            slots.word(place).store(value, Ordering::Release);
        }
        Ok(slots)
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A word of the header.
    pub(crate) fn word(&self, place: usize) -> &AtomicU64 {
        assert!(place < header::STATES);
        self.header.word(place)
    }

    /// The state of a slot.
    pub(crate) fn state(&self, number: usize) -> &AtomicU32 {
        assert!(number < SLOTS);
        self.header.half_word(header::STATES + 4 * number)
    }

    /// The ring of a slot.
    pub(crate) fn ring(&self, number: usize) -> io::Result<Ring> {
        assert!(number < SLOTS);
        Ring::in_file(&self.file, offset(number, self.data_bytes), self.data_bytes)
    }
}
