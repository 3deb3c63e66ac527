//! The memory of a trace buffer.

use unspool_kernel::layout;

use super::{PAGE, WORD};

/// Words in a page.
const PAGE_WORDS: u64 = PAGE / WORD;

/// The memory of a thread's buffer, with a page behind it that cannot be accessed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferMemory {
    pub(super) base: u64,
    pub(super) size: u64,
}

impl BufferMemory {
    /// Maps a new one, for so many words at least.
    pub(crate) fn map(words: u64) -> std::io::Result<BufferMemory> {
        let words = words.max(PAGE_WORDS).next_multiple_of(PAGE_WORDS);
        let size = words * WORD;
        let base = layout::map_memory(size + PAGE, libc::PROT_READ | libc::PROT_WRITE)?;
        let memory = BufferMemory { base, size };
        // SAFETY: the page is the mapping's last.
        unsafe { layout::protect(base + size, PAGE, libc::PROT_NONE) }
            .inspect_err(|_| memory.unmap())?;
        Ok(memory)
    }

    /// Gives it back: nobody uses it any more.
    pub(crate) fn unmap(self) {
        // SAFETY: the mapping is this one's.
        unsafe { libc::munmap(self.base as *mut libc::c_void, (self.size + PAGE) as usize) };
    }
}
