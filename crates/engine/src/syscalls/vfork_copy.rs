//! A parent's thread that waits for a child with a copy of the memory (`CLONE_VFORK` without
//! `CLONE_VM`) until that executes a program or ends.
//!
//! While the process is copied no other thread may hold a lock of the engine's. In the kernel the
//! copying and the wait are one call, behind which the other threads would stand still: so the
//! engine waits by itself, at a pipe that the child closes. The kernel closes it when the child
//! executes or ends, however that comes.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};

use super::clone_request::Request;
use crate::descriptors::{Headroom, move_away};
use crate::trace;

/// The descriptor at whose end the parent of this process waits; -1 for none.
static PARENTS_END: AtomicI32 = AtomicI32::new(-1);

/// The descriptor, which the program must not close.
pub(crate) fn parents_end() -> Option<i32> {
    Some(PARENTS_END.load(Ordering::Acquire)).filter(|&end| end >= 0)
}

/// Waits for a child that is about to be made.
pub(super) struct Wait {
    ours: OwnedFd,
    childs: OwnedFd,
}

/// Whether the engine waits for the child. Where both share descriptors, that one of them closes
/// a pipe says nothing, and the kernel waits.
pub(super) fn is_wanted(request: &Request) -> bool {
    request.has(libc::CLONE_VFORK) && !request.has(libc::CLONE_FILES)
}

impl Wait {
    /// `None` where there is no descriptor for it.
    pub(super) fn new() -> Option<Wait> {
        let _headroom = Headroom::get();
        let mut ends = [0; 2];
        // SAFETY: the kernel writes two descriptors, which are nobody else's.
        let [ours, childs] = unsafe {
            if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
                return None;
            }
            ends.map(|end| move_away(OwnedFd::from_raw_fd(end)))
        };
        Some(Wait { ours, childs })
    }

    /// Waits until the child has executed a program or ended.
    pub(super) fn wait(self) {
        let Wait { ours, childs } = self;
        drop(childs);
        let _rest = trace::rest();
        let mut ours = File::from(ours);
        while ours
            .read(&mut [0])
            .is_err_and(|error| error.kind() == std::io::ErrorKind::Interrupted)
        {}
    }

    /// In the child, which keeps its end.
    pub(super) fn keep(self) {
        let childs = self.childs.into_raw_fd();
        PARENTS_END.store(childs.as_raw_fd(), Ordering::Release);
    }
}

/// In any forked child: for whom its parent's own parent waits is not its business.
pub(super) fn forget() {
    let end = PARENTS_END.swap(-1, Ordering::AcqRel);
    if end >= 0 {
        // SAFETY: the descriptor is the engine's copy of its parent's.
        unsafe { libc::close(end) };
    }
}
