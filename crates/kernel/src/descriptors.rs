//! The engine's own descriptors: at numbers that the program does not use, whatever its limit.
//!
//! A limit bounds the numbers that are handed out, not those in use: what was opened beyond it
//! stays. So the limit is raised for a moment, while the process has a single thread.

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use crate::limits;

/// Numbers from here on are out of the way.
const OUT_OF_THE_WAY: i32 = 200;
/// What the limit is raised to where it may be raised beyond the hard one.
const ENOUGH: libc::rlim_t = 1024;

/// The limit of descriptors, raised until this is dropped. Other threads may get more meanwhile,
/// so that none should run.
#[derive(Debug)]
pub struct Headroom {
    /// The program's own limit, if it was changed.
    own: Option<libc::rlimit>,
}

impl Headroom {
    /// Raises the limit as far as the system allows and the engine needs.
    pub fn get() -> Headroom {
        let own = limits::get(libc::RLIMIT_NOFILE);
        let Some(own) = own.ok().filter(|own| own.rlim_cur < ENOUGH) else {
            return Headroom { own: None };
        };
        // Only privileged processes may raise the hard limit.
        let beyond = set(libc::rlimit {
            rlim_cur: ENOUGH,
            rlim_max: own.rlim_max.max(ENOUGH),
        });
        let raised = beyond
            || set(libc::rlimit {
                rlim_cur: own.rlim_max,
                ..own
            });
        Headroom {
            own: raised.then_some(own),
        }
    }
}

impl Drop for Headroom {
    fn drop(&mut self) {
        if let Some(own) = self.own {
            set(own);
        }
    }
}

fn set(limit: libc::rlimit) -> bool {
    // SAFETY: the kernel reads one structure.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) == 0 }
}

/// Copies a descriptor out of the way of the program's. None: there is no such number, or
/// nothing to copy.
pub fn copy_away(number: i32) -> Option<OwnedFd> {
    // SAFETY: duplicates a descriptor.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) };
    // SAFETY: a descriptor that was just made is nobody else's.
    (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Copies a descriptor out of the way of the program's, for the next program in this process.
pub fn copy_to_stay(own: &OwnedFd) -> Option<OwnedFd> {
    [OUT_OF_THE_WAY, 0].into_iter().find_map(|lowest| {
        // SAFETY: duplicates a descriptor.
        let copy = unsafe { libc::fcntl(own.as_raw_fd(), libc::F_DUPFD, lowest) };
        // SAFETY: a descriptor that was just made is nobody else's.
        (copy >= 0).then(|| unsafe { OwnedFd::from_raw_fd(copy) })
    })
}

/// Moves a descriptor out of the way, or as far as the limit lets it.
pub fn move_away(own: OwnedFd) -> OwnedFd {
    let number = own.into_raw_fd();
    let limit = limits::get(libc::RLIMIT_NOFILE).map_or(0, |limit| limit.rlim_cur);
    let end = limit.min(OUT_OF_THE_WAY as libc::rlim_t + 1) as i32;
    // SAFETY: the descriptor is ours.
    unsafe {
        let moved = (number + 1..end)
            .rev()
            .map(|wanted| libc::fcntl(number, libc::F_DUPFD_CLOEXEC, wanted))
            .find(|&moved| moved > number);
        let Some(moved) = moved else {
            return OwnedFd::from_raw_fd(number);
        };
        libc::close(number);
        OwnedFd::from_raw_fd(moved)
    }
}
