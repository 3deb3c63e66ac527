//! Changing the program's code.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

use crate::refusal::Refusal;

/// Writes into code.
///
/// The kernel's own way into a process, `/proc/self/mem`, writes what is protected, so that no
/// page has to be writable, or cannot be executed, even for a moment.
#[derive(Debug)]
pub(crate) struct CodeMemory {
    file: File,
}

impl CodeMemory {
    pub(crate) fn open() -> Result<CodeMemory, Refusal> {
        const PATH: &str = "/proc/self/mem";
        OpenOptions::new()
            .write(true)
            .open(PATH)
            .map(|file| CodeMemory { file })
            .map_err(|error| Refusal::Forbidden(format!("{PATH}: {error}")))
    }

    /// Writes code that no thread can be executing.
    ///
    /// # Safety
    /// The bytes must mean at that address what the program means, and what they are in the
    /// place of must be kept elsewhere.
    pub(crate) unsafe fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Refusal> {
        let written = self.file.write_all_at(bytes, address);
        written.map_err(|error| Refusal::Forbidden(format!("/proc/self/mem: {error}")))
    }
}
