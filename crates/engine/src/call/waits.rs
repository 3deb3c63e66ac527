//! System calls that wait with a mask of their own.

use unspool_kernel::guarded;

use super::{Call, MASK_SIZE};
use crate::signals::bit;

pub(crate) const SYS_IO_PGETEVENTS: i64 = 333;
pub(crate) const SYS_EPOLL_PWAIT2: i64 = 441;

/// Where a call that waits with a mask of its own has that mask.
fn mask_place(call: &Call) -> Option<(u64, usize)> {
    let indirect = |place: usize| {
        let pair = call.arguments[place];
        let (mask, size) = (guarded::read_word(pair)?, guarded::read_word(pair + 8)?);
        (mask != 0 && size == MASK_SIZE).then_some((mask, place))
    };
    let direct = |place: usize, size: u64| {
        let mask = call.arguments[place];
        (mask != 0 && size == MASK_SIZE).then_some((mask, place))
    };
    match call.number as i64 {
        libc::SYS_rt_sigsuspend => direct(0, call.arguments[1]),
        libc::SYS_ppoll => direct(3, call.arguments[4]),
        libc::SYS_epoll_pwait | SYS_EPOLL_PWAIT2 => direct(4, call.arguments[5]),
        libc::SYS_pselect6 | SYS_IO_PGETEVENTS => indirect(5),
        _ => None,
    }
}

/// The mask with which a system call waits, and which of its arguments says so.
pub(crate) fn waits_with(call: &Call) -> Option<(u64, usize)> {
    let (at, place) = mask_place(call)?;
    let mask = guarded::read_word(at)?;
    Some((mask & !bit(libc::SIGKILL) & !bit(libc::SIGSTOP), place))
}
