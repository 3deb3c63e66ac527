//! Which file something is, and which content it has, as the kernel tells it.

use std::fs::{File, Metadata};
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::regions::{Object, Version};

/// A file at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIdentity {
    /// Which file.
    pub object: Object,
    /// Which content.
    pub version: Version,
    /// Whether it has a name, by which any process may open it.
    pub named: bool,
}

impl FileIdentity {
    /// Of the file at a path, if there is one.
    #[must_use]
    pub fn at(path: &Path) -> Option<FileIdentity> {
        let facts = std::fs::metadata(path).ok()?;
        Some(FileIdentity::new(&facts))
    }

    /// Of an open file of the program's.
    #[must_use]
    pub fn open(descriptor: i32) -> Option<FileIdentity> {
        if descriptor < 0 {
            return None;
        }
        // SAFETY: the file is only asked about, and stays open, because it is never dropped. A
        // descriptor that is closed meanwhile is answered with an error.
        let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
        let facts = file.metadata().ok()?;
        Some(FileIdentity::new(&facts))
    }

    fn new(facts: &Metadata) -> FileIdentity {
        FileIdentity {
            object: Object {
                device: facts.dev(),
                inode: facts.ino(),
            },
            version: Version {
                size: facts.len(),
                modified: (facts.mtime(), facts.mtime_nsec()),
            },
            named: facts.nlink() != 0,
        }
    }
}
