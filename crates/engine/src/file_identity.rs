//! Which file something is, and which content it has, as the kernel tells it.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
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
        let path = CString::new(path.as_os_str().as_bytes()).ok()?;
        // SAFETY: the path is a C string, and there is room for the answer.
        FileIdentity::ask(|facts| unsafe { libc::stat(path.as_ptr(), facts) })
    }

    /// Of an open file of the program's. A program that has forbidden itself some system calls
    /// may still use the oldest of those that tell this, so it is the one that is made here.
    #[must_use]
    pub fn open(descriptor: i32) -> Option<FileIdentity> {
        // SAFETY: there is room for the answer; a descriptor that is closed has none.
        FileIdentity::ask(|facts| unsafe { libc::fstat(descriptor, facts) })
    }

    fn ask(question: impl FnOnce(*mut libc::stat) -> i32) -> Option<FileIdentity> {
        // SAFETY: all fields are integers.
        let mut facts: libc::stat = unsafe { std::mem::zeroed() };
        (question(&raw mut facts) == 0).then_some(FileIdentity {
            object: Object {
                device: facts.st_dev,
                inode: facts.st_ino,
            },
            version: Version {
                size: facts.st_size as u64,
                modified: (facts.st_mtime, facts.st_mtime_nsec),
            },
            named: facts.st_nlink != 0,
        })
    }
}
