//! A parent's thread that waits for a child with a copy of the memory (`CLONE_VFORK` without
//! `CLONE_VM`) until that executes a program or ends.
//!
//! While the process is copied no other thread may hold a lock of the engine's. In the kernel the
//! copying and the wait are one call, behind which the other threads would stand still: so the
//! engine waits by itself, for what the kernel takes from a process that executes or ends, however
//! that comes: its memory.
//!
//! A page of a file is mapped in the child alone, and nobody has a descriptor of that file as it
//! was opened there. So the file is closed when the child's memory goes, and with it goes the lock
//! (`flock`) that it holds and for which the parent's thread waits. A descriptor would not do in
//! place of the page: parent and child may share all of theirs (`CLONE_FILES`).

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use unspool_kernel::descriptors::{Headroom, move_away};
use unspool_kernel::lock::Mutex;

use crate::call::clone_request::CloneRequest;
use crate::process::Process;

const PAGE: usize = 4096;
const NAME: &std::ffi::CStr = c"unspool-vfork";

/// All waits of this process, and in a child that is waited for also that of its parent. Whoever
/// holds this lock takes no other.
static WAITS: Mutex<Vec<ListedWait>> = Mutex::new(Vec::new());

/// A wait that forks must know of.
#[derive(Debug)]
struct ListedWait {
    wait: Wait,
    /// Whether the page is mapped here. Where it is not, something else may have its place.
    is_mapped: bool,
}

/// A wait for a child that is about to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wait {
    /// Where the file is mapped.
    page: u64,
    /// The file, opened once more: who locks it this way waits. -1 in a child with descriptors of
    /// its own.
    lock: RawFd,
}

/// The descriptors for such waits, which the program must not close.
pub(crate) fn vfork_locks() -> Vec<RawFd> {
    let waits = WAITS.lock();
    let locks = waits.iter().map(|listed| listed.wait.lock);
    locks.filter(|&lock| lock >= 0).collect()
}

/// Whether the engine waits for the child.
pub(crate) fn is_wanted(request: &CloneRequest) -> bool {
    request.has(libc::CLONE_VFORK)
}

impl Wait {
    /// `None` where there is no memory or no descriptor for it, or no `/proc`.
    pub(crate) fn new() -> Option<Wait> {
        let _headroom = Headroom::get();
        // A fork comes before or behind all of it, so that every child knows of every page.
        let mut waits = WAITS.lock();
        // SAFETY: new descriptors, which are nobody else's, and a new mapping.
        let wait = unsafe {
            let locked = owned(libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC))?;
            if libc::flock(locked.as_raw_fd(), libc::LOCK_EX) != 0 {
                return None;
            }
            let path = std::ffi::CString::new(format!("/proc/self/fd/{}", locked.as_raw_fd()));
            let flags = libc::O_RDWR | libc::O_CLOEXEC;
            let lock = owned(libc::open(path.ok()?.as_ptr(), flags))?;
            let page = libc::mmap(
                std::ptr::null_mut(),
                PAGE,
                libc::PROT_NONE,
                libc::MAP_SHARED,
                locked.as_raw_fd(),
                0,
            );
            if page == libc::MAP_FAILED {
                return None;
            }
            Wait {
                page: page as u64,
                lock: move_away(lock).into_raw_fd(),
            }
        };
        waits.push(ListedWait {
            wait,
            is_mapped: true,
        });
        Some(wait)
    }

    /// Waits until the child has executed a program or ended.
    pub(crate) fn wait(self, process: &Process) {
        self.unmap();
        {
            let _rest = process.clients.rest();
            // SAFETY: the descriptor is the engine's, which the program cannot close.
            while unsafe { libc::flock(self.lock, libc::LOCK_EX) } != 0
                && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted
            {
            }
        }
        self.forget();
    }

    /// There is no child.
    pub(crate) fn cancel(self) {
        self.unmap();
        self.forget();
    }

    /// Takes the wait from the list, and closes its descriptor: both at once for children that are
    /// forked meanwhile, which close those that are listed.
    fn forget(self) {
        let mut waits = WAITS.lock();
        waits.retain(|listed| listed.wait != self);
        self.close();
    }

    /// Takes the page out of this process, and out of what its forked children will unmap: both at
    /// once for them.
    fn unmap(self) {
        let mut waits = WAITS.lock();
        for listed in waits.iter_mut().filter(|listed| listed.wait == self) {
            listed.unmap();
        }
    }

    fn close(self) {
        if self.lock >= 0 {
            // SAFETY: the descriptor is the engine's.
            unsafe { libc::close(self.lock) };
        }
    }
}

impl ListedWait {
    fn unmap(&mut self) {
        if std::mem::take(&mut self.is_mapped) {
            // SAFETY: the page is the engine's, and nobody accesses it.
            unsafe { libc::munmap(self.wait.page as *mut libc::c_void, PAGE) };
        }
    }
}

/// A descriptor that was just made, if it was.
///
/// # Safety
/// It must be nobody else's.
unsafe fn owned(descriptor: RawFd) -> Option<OwnedFd> {
    // SAFETY: the caller's.
    (descriptor >= 0).then(|| unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// In any child with a copy of the memory: `own` is how its parent waits for it, if it does. For
/// whom others wait is not its business.
pub(crate) fn begin_child(own: Option<Wait>, request: &CloneRequest) {
    let shares_descriptors = request.has(libc::CLONE_FILES);
    let mut waits = WAITS.lock();
    for mut listed in std::mem::take(&mut *waits) {
        let wait = listed.wait;
        if !shares_descriptors {
            wait.close();
        }
        if Some(wait) != own {
            listed.unmap();
            continue;
        }
        let lock = if shares_descriptors { wait.lock } else { -1 };
        waits.push(ListedWait {
            wait: Wait { lock, ..wait },
            ..listed
        });
    }
}
