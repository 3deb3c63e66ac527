//! Which file something is, and which content it has, as the kernel tells it.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::regions::{Object, Version};

/// File systems without a server (`linux/magic.h`): ext2 to ext4, XFS, Btrfs, F2FS, bcachefs, ZFS,
/// tmpfs, what starts as tmpfs, overlayfs, SquashFS, EROFS, ISO 9660.
const LOCAL: [u32; 12] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0xca45_1a4e,
    0x2fc1_2fc1,
    0x0102_1994,
    0x8584_58f6,
    0x794c_7630,
    0x7371_7368,
    0xe0f5_e1e2,
    0x9660,
];

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

    /// Of an open file, if its file system is one whose answers can be relied on: those of this
    /// machine's own disks and memory. A server, or a process that serves files, may tell of a
    /// change late or never.
    #[must_use]
    pub fn reliable(descriptor: i32) -> Option<FileIdentity> {
        // SAFETY: all fields are integers.
        let mut system: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: there is room for the answer.
        let asked = unsafe { libc::fstatfs(descriptor, &raw mut system) };
        let known = asked == 0 && LOCAL.contains(&(system.f_type as u32));
        known.then(|| FileIdentity::open(descriptor))?
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
                changed: (facts.st_ctime, facts.st_ctime_nsec),
            },
            named: facts.st_nlink != 0,
        })
    }
}
