//! The file that sampled programs share with this process, and the library that they load.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use unspool_sample_slots::{HEADER_BYTES, MAGIC, SLOTS, header, offset};

use crate::ring::Ring;
use crate::sampling::Sampling;

/// Where files are memory.
const MEMORY: &str = "/dev/shm";
/// How much of the samples that may come in this time a ring holds.
const HELD_MS: u64 = 25;
const SMALLEST_RING: u64 = 256 << 10;
const LARGEST_RING: u64 = 4 << 20;

/// A file of slots. It and the library go with this value.
pub(crate) struct SlotFile {
    file: File,
    path: tempfile::TempPath,
    library: PathBuf,
    /// Removes the library in the end.
    _folder: tempfile::TempDir,
    header: NonNull<u8>,
    data_bytes: usize,
}

impl SlotFile {
    /// Makes the file, and writes the library beside.
    pub(crate) fn new(sampling: Sampling, clock: i32, library: &[u8]) -> io::Result<SlotFile> {
        let mut named = tempfile::Builder::new();
        let named = named.prefix("unspool-profile-");
        let folder = named.tempdir()?;
        let library_path = folder.path().join("libunspool_timer_sampler.so");
        std::fs::write(&library_path, library)?;
        let file = named
            .tempfile_in(MEMORY)
            .or_else(|_| named.tempfile_in(folder.path()))?;
        let (file, path) = file.into_parts();
        let bytes = u64::from(sampling.frequency_hz) * u64::from(sampling.stack_bytes) * HELD_MS;
        let bytes = (bytes / 1000).next_power_of_two();
        let data_bytes = bytes.clamp(SMALLEST_RING, LARGEST_RING) as usize;
        // It is filled where slots are used only.
        file.set_len(offset(SLOTS, data_bytes) as u64)?;
        let slots = SlotFile {
            header: map_header(&file)?,
            file,
            path,
            library: library_path,
            _folder: folder,
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

    /// Where the library is.
    pub(crate) fn library(&self) -> &Path {
        &self.library
    }

    /// A word of the header.
    pub(crate) fn word(&self, place: usize) -> &AtomicU64 {
        assert!(place < header::STATES && place.is_multiple_of(8));
        // SAFETY: an aligned word of the mapping, which all processes access as one.
        unsafe { AtomicU64::from_ptr(self.header.as_ptr().add(place).cast()) }
    }

    /// The state of a slot.
    pub(crate) fn state(&self, number: usize) -> &AtomicU32 {
        assert!(number < SLOTS);
        let place = header::STATES + 4 * number;
        // SAFETY: as above, half a word.
        unsafe { AtomicU32::from_ptr(self.header.as_ptr().add(place).cast()) }
    }

    /// The ring of a slot.
    pub(crate) fn ring(&self, number: usize) -> io::Result<Ring> {
        assert!(number < SLOTS);
        Ring::in_file(&self.file, offset(number, self.data_bytes), self.data_bytes)
    }
}

fn map_header(file: &File) -> io::Result<NonNull<u8>> {
    // SAFETY: new memory, where the kernel wants it.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            HEADER_BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        )
    };
    match NonNull::new(start.cast::<u8>()) {
        Some(place) if start != libc::MAP_FAILED => Ok(place),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Drop for SlotFile {
    fn drop(&mut self) {
        // SAFETY: this value's own memory, to which nothing refers any more.
        unsafe { libc::munmap(self.header.as_ptr().cast(), HEADER_BYTES) };
    }
}
