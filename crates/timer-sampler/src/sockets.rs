//! Functions that wait at a socket: where that has a timeout (`SO_RCVTIMEO`, `SO_SNDTIMEO`), they
//! return when any signal comes, as those of [`crate::blocking`] do. Most programs set none, and
//! call these functions often: only from the first timeout on they go without our signal.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{iovec, size_t, sockaddr, socklen_t, ssize_t};

use crate::own_signal;
use crate::real::real;

/// Whether the program has set a timeout of any socket.
static HAS_TIMEOUTS: AtomicBool = AtomicBool::new(false);

/// `SO_RCVTIMEO` and `SO_SNDTIMEO`, with times of either size.
const TIMEOUTS: [c_int; 4] = [20, 21, 66, 67];

/// # Safety
/// The C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn setsockopt(
    socket: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    bytes: socklen_t,
) -> c_int {
    type Set = unsafe extern "C" fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
    if level == libc::SOL_SOCKET && TIMEOUTS.contains(&name) {
        HAS_TIMEOUTS.store(true, Ordering::Relaxed);
    }
    let real = real!(setsockopt: Set);
    // SAFETY: the program's arguments.
    unsafe { real(socket, level, name, value, bytes) }
}

/// Calls the function of this name behind ours, with our signal away where there are timeouts.
macro_rules! may_have_timeout {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {$(
        /// # Safety
        /// The C library's.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            let real = real!($name: unsafe extern "C-unwind" fn($($type),*) -> $result);
            // SAFETY: the program's arguments.
            let call = || unsafe { real($($argument),*) };
            match HAS_TIMEOUTS.load(Ordering::Relaxed) {
                true => own_signal::away(call),
                false => call(),
            }
        }
    )*};
}

may_have_timeout! {
    accept(socket: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int;
    accept4(socket: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int;
    connect(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    __connect(socket: c_int, address: *const sockaddr, length: socklen_t) -> c_int;
    recv(socket: c_int, to: *mut c_void, bytes: size_t, flags: c_int) -> ssize_t;
    __recv_chk(socket: c_int, to: *mut c_void, bytes: size_t, room: size_t, flags: c_int)
        -> ssize_t;
    recvfrom(socket: c_int, to: *mut c_void, bytes: size_t, flags: c_int,
        address: *mut sockaddr, length: *mut socklen_t) -> ssize_t;
    __recvfrom_chk(socket: c_int, to: *mut c_void, bytes: size_t, room: size_t, flags: c_int,
        address: *mut sockaddr, length: *mut socklen_t) -> ssize_t;
    recvmsg(socket: c_int, message: *mut c_void, flags: c_int) -> ssize_t;
    send(socket: c_int, from: *const c_void, bytes: size_t, flags: c_int) -> ssize_t;
    __send(socket: c_int, from: *const c_void, bytes: size_t, flags: c_int) -> ssize_t;
    sendto(socket: c_int, from: *const c_void, bytes: size_t, flags: c_int,
        address: *const sockaddr, length: socklen_t) -> ssize_t;
    sendmsg(socket: c_int, message: *const c_void, flags: c_int) -> ssize_t;
    sendmmsg(socket: c_int, messages: *mut c_void, count: c_uint, flags: c_int) -> c_int;
    read(file: c_int, to: *mut c_void, bytes: size_t) -> ssize_t;
    __read(file: c_int, to: *mut c_void, bytes: size_t) -> ssize_t;
    __read_chk(file: c_int, to: *mut c_void, bytes: size_t, room: size_t) -> ssize_t;
    readv(file: c_int, parts: *const iovec, count: c_int) -> ssize_t;
    write(file: c_int, from: *const c_void, bytes: size_t) -> ssize_t;
    __write(file: c_int, from: *const c_void, bytes: size_t) -> ssize_t;
    writev(file: c_int, parts: *const iovec, count: c_int) -> ssize_t;
}
