//! Functions that wait and return when any signal comes, even one whose handler has calls made
//! again (`signal(7)`): ours does not come to a thread while it is in one of them. What expires
//! meanwhile comes as one signal at its end.
//!
//! A function may have several names: older ones, and those which compilers call that check the
//! sizes of buffers (`_FORTIFY_SOURCE`).

use std::ffi::{c_int, c_long, c_short, c_uint, c_ushort, c_void};

use libc::{fd_set, nfds_t, pollfd, sem_t, sigset_t, size_t, ssize_t, timespec, timeval};

use crate::own_signal;
use crate::real::real;
use crate::slot;

/// Calls the function of this name behind ours, with our signal away.
macro_rules! apart {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        /// # Safety
        /// The C library's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            let real = real!($name: unsafe extern "C-unwind" fn($($type),*) -> $result);
            // SAFETY: the program's arguments.
            own_signal::away(|| unsafe { real($($argument),*) })
        }
    )*};
}

apart! {
    nanosleep(time: *const timespec, rest: *mut timespec) -> c_int;
    clock_nanosleep(clock: c_int, flags: c_int, time: *const timespec, rest: *mut timespec)
        -> c_int;
    sleep(seconds: c_uint) -> c_uint;
    usleep(microseconds: c_uint) -> c_int;
    thrd_sleep(time: *const timespec, rest: *mut timespec) -> c_int;
    __nanosleep(time: *const timespec, rest: *mut timespec) -> c_int;
    pause() -> c_int;
    __xpg_sigpause(signal: c_int) -> c_int;
    poll(descriptors: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    __poll(descriptors: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    __poll_chk(descriptors: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int;
    __select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval) -> c_int;
    select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval) -> c_int;
    epoll_wait(epoll: c_int, events: *mut libc::epoll_event, count: c_int, timeout: c_int)
        -> c_int;
    sem_timedwait(semaphore: *mut sem_t, time: *const timespec) -> c_int;
    sem_clockwait(semaphore: *mut sem_t, clock: c_int, time: *const timespec) -> c_int;
    msgrcv(queue: c_int, message: *mut c_void, bytes: size_t, kind: c_long, flags: c_int)
        -> ssize_t;
    msgsnd(queue: c_int, message: *const c_void, bytes: size_t, flags: c_int) -> c_int;
    semop(set: c_int, operations: *mut SemaphoreOperation, count: size_t) -> c_int;
    semtimedop(set: c_int, operations: *mut SemaphoreOperation, count: size_t,
        timeout: *const timespec) -> c_int;
    aio_suspend(list: *const *const c_void, count: c_int, timeout: *const timespec) -> c_int;
    aio_suspend64(list: *const *const c_void, count: c_int, timeout: *const timespec) -> c_int;
    lio_listio(mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void) -> c_int;
    lio_listio64(mode: c_int, list: *const *mut c_void, count: c_int, event: *mut c_void)
        -> c_int;
    gai_suspend(list: *const *const c_void, count: c_int, timeout: *const timespec) -> c_int;
    // Of libaio.
    io_getevents(context: *mut c_void, least: c_long, most: c_long, events: *mut c_void,
        timeout: *mut timespec) -> c_int;
    recvmmsg(socket: c_int, messages: *mut c_void, count: c_uint, flags: c_int,
        timeout: *mut timespec) -> c_int;
}

/// `struct sembuf`.
#[repr(C)]
pub(crate) struct SemaphoreOperation {
    number: c_ushort,
    operation: c_short,
    flags: c_short,
}

/// Calls the function of this name behind ours, with our signal in the set of those that are kept
/// away meanwhile.
macro_rules! with_mask {
    ($($name:ident($($argument:ident: $type:ty,)* | $mask:ident $(| $behind:ident: $last:ty)?)
        -> $result:ty;)*) => {$(
        /// # Safety
        /// The C library's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name(
            $($argument: $type,)*
            $mask: *const sigset_t,
            $($behind: $last,)?
        ) -> $result {
            let real = real!($name: unsafe extern "C-unwind" fn(
                $($type,)* *const sigset_t $(, $last)?
            ) -> $result);
            if !slot::is_open() {
                // SAFETY: the program's arguments.
                return unsafe { real($($argument,)* $mask $(, $behind)?) };
            }
            // SAFETY: the program's arguments, or a copy of what they point to.
            own_signal::away(|| unsafe {
                if $mask.is_null() {
                    real($($argument,)* $mask $(, $behind)?)
                } else {
                    let mask = own_signal::with(&*$mask);
                    real($($argument,)* &raw const mask $(, $behind)?)
                }
            })
        }
    )*};
}

with_mask! {
    sigsuspend(| mask) -> c_int;
    __sigsuspend(| mask) -> c_int;
    ppoll(descriptors: *mut pollfd, count: nfds_t, timeout: *const timespec, | mask) -> c_int;
    pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, | mask) -> c_int;
    epoll_pwait(epoll: c_int, events: *mut libc::epoll_event, count: c_int, timeout: c_int,
        | mask) -> c_int;
    epoll_pwait2(epoll: c_int, events: *mut libc::epoll_event, count: c_int,
        timeout: *const timespec, | mask) -> c_int;
    __ppoll_chk(descriptors: *mut pollfd, count: nfds_t, timeout: *const timespec, | mask
        | room: size_t) -> c_int;
    io_pgetevents(context: *mut c_void, least: c_long, most: c_long, events: *mut c_void,
        timeout: *mut timespec, | mask) -> c_int;
}

/// The first signals' set of old programs, whose signals are let come.
fn suspend(old_mask: c_int) -> c_int {
    // SAFETY: zeros are the empty set, which begins with the word of the first signals.
    unsafe {
        let mut mask: sigset_t = std::mem::zeroed();
        (&raw mut mask).cast::<u32>().write(old_mask as u32);
        sigsuspend(&raw const mask)
    }
}

/// # Safety
/// The C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn sigpause(mask: c_int) -> c_int {
    suspend(mask)
}

/// What headers make of both kinds of `sigpause`: of a set of signals, and of a signal that is let
/// come beside those that come anyway.
///
/// # Safety
/// The C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn __sigpause(value: c_int, is_signal: c_int) -> c_int {
    match is_signal {
        0 => suspend(value),
        // SAFETY: the program's argument.
        _ => unsafe { __xpg_sigpause(value) },
    }
}
