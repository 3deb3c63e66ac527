//! Functions that wait and return when any signal comes, even one whose handler has calls made
//! again (`signal(7)`): ours does not come to a thread while it is in one of them. What expires
//! meanwhile comes as one signal at its end.

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
            let is_unblocked = slot::is_open() && own_signal::block();
            // SAFETY: the program's arguments.
            let result = unsafe { real($($argument),*) };
            if is_unblocked {
                own_signal::unblock();
            }
            result
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
    pause() -> c_int;
    poll(descriptors: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
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
    ($($name:ident($($argument:ident: $type:ty,)* | $mask:ident) -> $result:ty;)*) => {$(
        /// # Safety
        /// The C library's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name(
            $($argument: $type,)*
            $mask: *const sigset_t,
        ) -> $result {
            let real =
                real!($name: unsafe extern "C-unwind" fn($($type,)* *const sigset_t) -> $result);
            if !slot::is_open() {
                // SAFETY: the program's arguments.
                return unsafe { real($($argument,)* $mask) };
            }
            let is_unblocked = own_signal::block();
            // SAFETY: the program's arguments, or a copy of what they point to.
            let result = unsafe {
                if $mask.is_null() {
                    real($($argument,)* $mask)
                } else {
                    let mask = own_signal::with(&*$mask);
                    real($($argument,)* &raw const mask)
                }
            };
            if is_unblocked {
                own_signal::unblock();
            }
            result
        }
    )*};
}

with_mask! {
    sigsuspend(| mask) -> c_int;
    ppoll(descriptors: *mut pollfd, count: nfds_t, timeout: *const timespec, | mask) -> c_int;
    pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, | mask) -> c_int;
    epoll_pwait(epoll: c_int, events: *mut libc::epoll_event, count: c_int, timeout: c_int,
        | mask) -> c_int;
    epoll_pwait2(epoll: c_int, events: *mut libc::epoll_event, count: c_int,
        timeout: *const timespec, | mask) -> c_int;
}
