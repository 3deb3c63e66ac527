//! Memory that is shared with others: the kernel, or sampled programs.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A part of a file, mapped until this value is dropped.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: NonNull<u8>,
    bytes: usize,
}

impl SharedMemory {
    /// Maps so many bytes of a file.
    pub(crate) fn map(file: &impl AsFd, offset: usize, bytes: usize) -> io::Result<SharedMemory> {
        let offset = libc::off_t::try_from(offset).map_err(io::Error::other)?;
        // SAFETY: new memory, where the kernel wants it.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_fd().as_raw_fd(),
                offset,
            )
        };
        match NonNull::new(start.cast::<u8>()) {
            Some(place) if start != libc::MAP_FAILED => Ok(SharedMemory {
                start: place,
                bytes,
            }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// A word, which all sides access as one.
    pub(crate) fn word(&self, place: usize) -> &AtomicU64 {
        // SAFETY: an aligned word of the mapping.
        unsafe { AtomicU64::from_ptr(self.aligned(place, size_of::<u64>()).cast()) }
    }

    /// Half a word, likewise.
    pub(crate) fn half_word(&self, place: usize) -> &AtomicU32 {
        // SAFETY: an aligned half of a word of the mapping.
        unsafe { AtomicU32::from_ptr(self.aligned(place, size_of::<u32>()).cast()) }
    }

    fn aligned(&self, place: usize, bytes: usize) -> *mut u8 {
        assert!(place.is_multiple_of(bytes) && place + bytes <= self.bytes);
        self.start.as_ptr().wrapping_add(place)
    }

    /// Copies bytes out, which nobody writes meanwhile.
    pub(crate) fn copy(&self, place: usize, to: &mut [u8]) {
        assert!(place + to.len() <= self.bytes);
        let from = self.start.as_ptr().wrapping_add(place);
        // SAFETY: within the mapping, as was tested.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
    }

    /// Writes bytes, as the other side does.
    #[cfg(test)]
    pub(crate) fn write(&self, place: usize, bytes: &[u8]) {
        assert!(place + bytes.len() <= self.bytes);
        let to = self.start.as_ptr().wrapping_add(place);
        // SAFETY: within the mapping, as was tested.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: this value's own memory, to which nothing refers any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
