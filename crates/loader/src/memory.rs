//! The system calls that map memory, each with the check that makes it safe to make.
//!
//! Contract: a [`Reservation`] owns its pages. It is made only of addresses that were free
//! (the system is asked not to replace anything), changes nothing outside itself, and gives
//! the pages back when dropped unless they were [kept](Reservation::keep_only). So nothing here
//! can disturb memory that Rust code uses.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::layout::PAGE;

/// Address space that belongs to the program being loaded.
#[derive(Debug)]
pub(crate) struct Reservation {
    start: u64,
    size: u64,
    kept: bool,
}

impl Reservation {
    /// Takes `size` bytes at `start`, without access. Fails with `EEXIST` if in use.
    pub(crate) fn at(start: u64, size: u64) -> io::Result<Reservation> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let reservation = Reservation::new(start, size, flags | libc::MAP_FIXED_NOREPLACE)?;
        // Kernels before 4.17 do not know the flag and take the address as a hint.
        if reservation.start == start {
            Ok(reservation)
        } else {
            Err(io::Error::from_raw_os_error(libc::EEXIST))
        }
    }

    /// Takes `size` bytes wherever the system likes, without access.
    pub(crate) fn anywhere(size: u64, additional_flags: i32) -> io::Result<Reservation> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        Reservation::new(0, size, flags | additional_flags)
    }

    fn new(start: u64, size: u64, flags: i32) -> io::Result<Reservation> {
        let length = usize::try_from(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: without MAP_FIXED, no existing mapping is replaced.
        let address = unsafe {
            libc::mmap(
                start as *mut libc::c_void,
                length,
                libc::PROT_NONE,
                flags,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Reservation {
            start: address as u64,
            size,
            kept: false,
        })
    }

    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn end(&self) -> u64 {
        self.start + self.size
    }

    pub(crate) fn contains(&self, address: u64, size: u64) -> bool {
        address >= self.start
            && address
                .checked_add(size)
                .is_some_and(|end| end <= self.end())
    }

    /// Maps part of a file, privately.
    pub(crate) fn map_file(
        &self,
        address: u64,
        size: u64,
        protection: i32,
        file: &File,
        offset: u64,
    ) -> io::Result<()> {
        self.map(
            address,
            size,
            protection,
            libc::MAP_PRIVATE,
            file.as_raw_fd(),
            offset,
        )
    }

    /// Maps zeros.
    pub(crate) fn map_zeros(&self, address: u64, size: u64, protection: i32) -> io::Result<()> {
        self.map(
            address,
            size,
            protection,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    }

    fn map(
        &self,
        address: u64,
        size: u64,
        protection: i32,
        flags: i32,
        file: i32,
        offset: u64,
    ) -> io::Result<()> {
        self.require(address, size)?;
        let offset =
            i64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EOVERFLOW))?;
        let (pointer, length) = (address as *mut libc::c_void, size as usize);
        // SAFETY: replaces only pages of this reservation, to which nothing refers.
        let result = unsafe {
            libc::mmap(
                pointer,
                length,
                protection,
                flags | libc::MAP_FIXED,
                file,
                offset,
            )
        };
        if result == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Changes the protection of pages.
    #[cfg(test)]
    pub(crate) fn protect(&self, address: u64, size: u64, protection: i32) -> io::Result<()> {
        self.require(address, size)?;
        // SAFETY: changes only pages of this reservation, to which nothing refers.
        unsafe { unspool_kernel::layout::protect(address, size, protection) }
    }

    /// Writes bytes into pages that the caller has mapped writable, and whose file, if any,
    /// reaches into their last page.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> io::Result<()> {
        self.require(address, bytes.len() as u64)?;
        // SAFETY: the target is inside this reservation, mapped and writable, and no
        // reference to it exists.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
        Ok(())
    }

    /// Leaves the pages to the program, but gives what is not in `parts` (in order) back to
    /// the system.
    pub(crate) fn keep_only(mut self, parts: &[(u64, u64)]) -> io::Result<()> {
        // From here on other threads may get the pages between the parts.
        self.kept = true;
        let mut gap_start = self.start;
        for &(start, end) in parts {
            if gap_start < start {
                self.require(gap_start, start - gap_start)?;
                unmap(gap_start, start - gap_start)?;
            }
            gap_start = gap_start.max(end);
        }
        if gap_start < self.end() {
            unmap(gap_start, self.end() - gap_start)?;
        }
        Ok(())
    }

    /// Leaves all pages to the program.
    #[cfg(test)]
    pub(crate) fn keep(mut self) {
        self.kept = true;
    }

    fn require(&self, address: u64, size: u64) -> io::Result<()> {
        if self.contains(address, size) {
            Ok(())
        } else {
            Err(io::Error::from_raw_os_error(libc::EFAULT))
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.kept && self.size >= PAGE {
            // Unmapping pages that are ours fails only if the kernel runs out of memory for
            // its own tables; they then merely stay mapped.
            let _ = unmap(self.start, self.size);
        }
    }
}

/// The callers have established that the pages belong to a reservation.
fn unmap(address: u64, size: u64) -> io::Result<()> {
    // SAFETY: by contract nothing refers to the pages.
    let result = unsafe { libc::munmap(address as *mut libc::c_void, size as usize) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
