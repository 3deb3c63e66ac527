//! A batch that belongs to whoever has it, and its memory.

use std::io;
use std::mem::ManuallyDrop;

use unspool_kernel::layout;

use super::Consumer;

pub(crate) const PAGE: u64 = 4096;

/// The memory of a thread's part of a buffer, with a page behind it that cannot be accessed.
#[derive(Debug)]
pub(crate) struct Memory {
    base: u64,
    end: u64,
}

impl Memory {
    /// So many bytes, which are whole pages.
    pub(crate) fn new(size: usize) -> io::Result<Memory> {
        let size = size as u64;
        let base = layout::map_memory(size + PAGE, libc::PROT_READ | libc::PROT_WRITE)?;
        let memory = Memory {
            base,
            end: base + size,
        };
        // SAFETY: the page is the mapping's last.
        unsafe { layout::protect(memory.end, PAGE, libc::PROT_NONE)? };
        Ok(memory)
    }

    /// Takes over what [`Memory::into_places`] has given.
    ///
    /// # Safety
    /// It must be used no longer but through this.
    pub(crate) unsafe fn from_places((base, end): (u64, u64)) -> Memory {
        Memory { base, end }
    }

    /// Where it starts, and where the page without access is. It is the caller's to free it.
    pub(crate) fn into_places(self) -> (u64, u64) {
        let memory = ManuallyDrop::new(self);
        (memory.base, memory.end)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let size = (self.end - self.base + PAGE) as usize;
        // SAFETY: the mapping is this value's, which nobody has any more.
        unsafe { libc::munmap(self.base as *mut libc::c_void, size) };
    }
}

/// A batch of a buffer, which belongs to whoever has it. Its memory goes back when it is dropped.
#[derive(Debug)]
pub struct Filled {
    memory: ManuallyDrop<Memory>,
    count: usize,
    thread: u32,
    number: u64,
    is_last: bool,
    consumer: &'static Consumer,
    /// The copy of the process in which it was given away.
    pub(super) copy: u64,
}

impl Filled {
    /// So many entries of a thread, at the start of this memory.
    pub(crate) fn new(
        consumer: &'static Consumer,
        memory: Memory,
        count: usize,
        (thread, number, is_last): (u32, u64, bool),
    ) -> Filled {
        Filled {
            memory: ManuallyDrop::new(memory),
            count,
            thread,
            number,
            is_last,
            consumer,
            copy: 0,
        }
    }

    /// The address of the first entry.
    #[must_use]
    pub fn entries(&self) -> *const u8 {
        self.memory.base as *const u8
    }

    /// How many entries there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The number of the thread that has made them.
    #[must_use]
    pub fn thread(&self) -> u32 {
        self.thread
    }

    /// How many batches of the same buffer the thread has given away before.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Whether the thread has ended.
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.is_last
    }
}

impl Drop for Filled {
    fn drop(&mut self) {
        // SAFETY: it is not used any more.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        self.consumer.give_back(memory, self.copy);
    }
}
