//! By which ids threads in different PID namespaces know each other.
//!
//! A child that shares the memory may be in a PID namespace of its own. It is on the list of
//! threads, and others may have to bring it out of the code cache with a signal: by its ids
//! in their namespace, not by those that it sees itself, which belong to somebody else there.
//! From inside a namespace the threads outside cannot be reached at all.

use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use unspool_kernel::ids::{Pid, Tid};

use crate::call::clone_request::CloneRequest;
use crate::process::PidNamespace;
use crate::thread::Thread;

/// The number of the last PID namespace that was met; 0 is that of the process.
static LAST: AtomicU32 = AtomicU32::new(0);

/// How parent and child know each other.
pub(super) struct Relation {
    /// The parent's namespace.
    namespace: PidNamespace,
    /// The parent's process, if the child is to be a thread of it.
    shared_process: Option<Pid>,
    /// What `getppid` says in the child if it is in the same namespace.
    parent: Pid,
    enters_another: bool,
    /// Whether the kernel is asked for the child's id as its parent sees it.
    asks: bool,
    answer: AtomicI32,
}

/// The ids of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ids {
    /// Of its process and of itself.
    pub(super) ids: (Pid, Tid),
    /// The namespace to which they belong.
    pub(super) namespace: PidNamespace,
    /// The namespace in which the thread is.
    pub(super) own: PidNamespace,
}

impl Relation {
    pub(super) fn new(thread: &Thread, request: &CloneRequest) -> Relation {
        let own = Pid::own();
        Relation {
            namespace: thread.namespace,
            shared_process: request.has(libc::CLONE_THREAD).then_some(own),
            parent: match request.has(libc::CLONE_PARENT) {
                // SAFETY: no preconditions.
                true => Pid::of(unsafe { libc::getppid() }),
                false => own,
            },
            enters_another: request.has(libc::CLONE_NEWPID),
            asks: request.can_tell_parent(),
            answer: AtomicI32::new(0),
        }
    }

    /// Where the kernel is to put the child's id as its parent sees it; 0 for nowhere. This must
    /// not be moved afterwards.
    pub(super) fn word(&self) -> u64 {
        match self.asks {
            true => self.answer.as_ptr() as u64,
            false => 0,
        }
    }

    /// The ids of the child that runs here.
    pub(super) fn of_child(&self, tid: Tid) -> Ids {
        // SAFETY: no preconditions.
        let parent = Pid::of(unsafe { libc::getppid() });
        self.ids(tid, parent, || {
            PidNamespace::numbered(LAST.fetch_add(1, Ordering::Relaxed) + 1)
        })
    }

    fn ids(&self, tid: Tid, parent: Pid, another: impl FnOnce() -> PidNamespace) -> Ids {
        if let Some(process) = self.shared_process {
            return Ids {
                ids: (process, tid),
                namespace: self.namespace,
                own: self.namespace,
            };
        }
        let answer = self.answer.load(Ordering::Relaxed);
        let (outer, is_known) = match self.asks {
            true => (Tid::of(answer), true),
            false => (tid, parent == self.parent && !self.enters_another),
        };
        let stays = !self.enters_another && is_known && outer == tid;
        Ids {
            // The child is the first thread of a process.
            ids: (Pid::of(outer.get()), outer),
            namespace: if is_known {
                self.namespace
            } else {
                PidNamespace::NOBODYS
            },
            own: if stays { self.namespace } else { another() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: i32 = 50;
    const NOBODYS: u32 = u32::MAX;

    fn check(enters_another: bool, answer: Option<i32>, parent: i32, tid: i32, expected: Ids) {
        let relation = Relation {
            namespace: PidNamespace::numbered(4),
            shared_process: None,
            parent: Pid::of(PARENT),
            enters_another,
            asks: answer.is_some(),
            answer: AtomicI32::new(answer.unwrap_or(0)),
        };
        let another = || PidNamespace::numbered(9);
        let found = relation.ids(Tid::of(tid), Pid::of(parent), another);
        assert_eq!(found, expected);
    }

    fn ids(id: i32, namespace: u32, own: u32) -> Ids {
        Ids {
            ids: (Pid::of(id), Tid::of(id)),
            namespace: PidNamespace::numbered(namespace),
            own: PidNamespace::numbered(own),
        }
    }

    #[test]
    fn a_child_is_known_by_the_id_that_its_parent_sees() {
        check(false, Some(60), PARENT, 60, ids(60, 4, 4));
        check(true, Some(60), 0, 1, ids(60, 4, 9));
        // Its parent has let its children enter another namespace.
        check(false, Some(60), 0, 2, ids(60, 4, 9));
    }

    #[test]
    fn where_the_parent_cannot_be_asked_the_child_looks_for_it() {
        check(false, None, PARENT, 60, ids(60, 4, 4));
        check(true, None, 0, 1, ids(1, NOBODYS, 9));
        check(false, None, 0, 2, ids(2, NOBODYS, 9));
    }
}
