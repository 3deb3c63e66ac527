//! The memory that becomes the program's stack.

use std::ffi::CStr;
use std::io;
use std::ops::Range;
use std::path::Path;

use super::error::LoadError;
use super::layout::{PAGE, page_end, page_start};
use super::stack::InitialStack;

/// The kernel keeps at least this much free below the stack for its growth, and more where the
/// limit is larger (`mmap_base` in `arch/x86/mm/mmap.c`).
const SMALLEST_REACH: u64 = 128 << 20;
/// Where the limit is larger than this, so much is taken to be free.
const LARGEST_REACH: u64 = 1 << 40;
/// With less than this the program could do nothing.
const ROOM: u64 = 2 * PAGE;

/// The part of the process's stack that is free for the program.
#[derive(Debug)]
pub struct ProgramStack {
    /// Lower addresses are free.
    top: u64,
    /// Where the mapping ends that `top` lies in.
    end: u64,
    /// Nothing below this is part of it, however far it grows.
    floor: u64,
}

impl ProgramStack {
    /// What lies below `top` in the stack that the kernel gave this process.
    ///
    /// # Safety
    /// Nothing below `top` is used, now or later, but by the program.
    #[must_use]
    pub unsafe fn below(top: u64) -> ProgramStack {
        // Above the arguments and the environment there is only the name that was executed,
        // and one word.
        // SAFETY: getauxval has no preconditions.
        let name = unsafe { libc::getauxval(libc::AT_EXECFN) };
        let end = if name < top {
            top
        } else {
            // SAFETY: the kernel has put a string there, and nobody takes it away.
            let name_size = unsafe { CStr::from_ptr(name as *const libc::c_char) };
            name + name_size.to_bytes_with_nul().len() as u64 + 8
        };
        ProgramStack {
            top: top & !15,
            end: page_end(end),
            floor: 0,
        }
    }

    /// A mapping of its own, for programs that are loaded by a test.
    #[cfg(test)]
    pub(crate) fn mapped(size: u64) -> ProgramStack {
        let mapping = super::memory::Reservation::anywhere(size, libc::MAP_STACK)
            .and_then(|mapping| {
                let protection = libc::PROT_READ | libc::PROT_WRITE;
                mapping.protect(mapping.start(), size, protection)?;
                Ok(mapping)
            })
            .expect("memory for a stack");
        let (floor, end) = (mapping.start(), mapping.end());
        mapping.keep();
        ProgramStack {
            top: end,
            end,
            floor,
        }
    }

    pub(crate) fn top(&self) -> u64 {
        self.top
    }

    /// What may become part of the stack as it grows, given its limit in bytes.
    pub(crate) fn reach(&self, limit: u64) -> Range<u64> {
        let size = page_start(limit.clamp(SMALLEST_REACH, LARGEST_REACH));
        self.end.saturating_sub(size)..self.end
    }

    /// Puts in what a program finds at its start, and zeros below.
    pub(crate) fn fill(
        &self,
        path: &Path,
        initial: &InitialStack,
        limit: u64,
        executable: bool,
    ) -> Result<(), LoadError> {
        let size = self.end - initial.pointer + ROOM;
        if size > limit {
            let path = path.to_owned();
            return Err(LoadError::TooLong { path, size, limit });
        }
        // SAFETY: the memory belongs to the program (`below`), and what is not mapped yet is
        // when it is touched, because the limit allows it.
        unsafe {
            std::ptr::copy_nonoverlapping(
                initial.bytes.as_ptr(),
                initial.pointer as *mut u8,
                initial.bytes.len(),
            );
            clear(self.floor, initial.pointer);
        }
        if executable {
            let start = page_start(initial.pointer);
            protect_executable(start..self.end).map_err(|source| LoadError::Map {
                path: path.to_owned(),
                operation: "make its stack executable",
                address: start,
                size: self.end - start,
                source,
            })?;
        }
        Ok(())
    }
}

/// Takes away what was left on a stack below `pointer`.
///
/// # Safety
/// Nothing between the two is in use.
unsafe fn clear(floor: u64, pointer: u64) {
    let used = page_start(pointer);
    // SAFETY: by the caller's promise, as far as the page is mapped.
    unsafe { std::ptr::write_bytes(used as *mut u8, 0, (pointer - used) as usize) };
    let discard = |page: u64| {
        // SAFETY: as above. Where the stack ends, the call fails: the kernel keeps everything
        // else away from where a stack may grow.
        unsafe { libc::madvise(page as *mut _, PAGE as usize, libc::MADV_DONTNEED) == 0 }
    };
    let mut page = used - PAGE;
    while page >= floor && discard(page) {
        page -= PAGE;
    }
}

/// Makes a stack executable from its lowest page, wherever that is, to the end of a range.
fn protect_executable(range: Range<u64>) -> io::Result<()> {
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let size = range.end - range.start;
    let protect = |protection| {
        // SAFETY: what could be done with the pages can still be done.
        unsafe { unspool_kernel::layout::protect(range.start, size, protection) }
    };
    // Where it is not a mapping that grows, nothing is below.
    protect(protection | libc::PROT_GROWSDOWN).or_else(|_| protect(protection))
}
