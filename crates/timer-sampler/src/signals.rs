//! What the program says of the timers' signal: it may have a handler for it, which gets what is
//! not ours; but it does not keep it from its threads.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{sighandler_t, siginfo_t, sigset_t};

use crate::own_signal::{self, SIGNAL, without};
use crate::real::real;
use crate::slot;

type SetAction = unsafe extern "C" fn(c_int, *const libc::sigaction, *mut libc::sigaction) -> c_int;
type SetMask = unsafe extern "C" fn(c_int, *const sigset_t, *mut sigset_t) -> c_int;
type Handler = unsafe extern "C" fn(c_int);
type InformedHandler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);

pub(crate) fn real_sigaction() -> SetAction {
    real!(sigaction: SetAction)
}

/// The program's action for our signal.
struct Action(UnsafeCell<MaybeUninit<libc::sigaction>>);

// SAFETY: changed and read as a whole, under `ACTION_LOCK`.
unsafe impl Sync for Action {}

/// Zeros are the action that nothing has been set of.
static ACTION: Action = Action(UnsafeCell::new(MaybeUninit::zeroed()));
static ACTION_LOCK: AtomicBool = AtomicBool::new(false);

/// The program's action, changed where one is given. It is held for a few instructions, with our
/// signal away; handlers of the program's that come meanwhile do not ask for it in the same thread
/// unless they set actions themselves, which is why all signals are kept away.
fn action(new: Option<libc::sigaction>) -> libc::sigaction {
    let set_mask = real!(pthread_sigmask: SetMask);
    // SAFETY: sets of this frame; the action is this thread's while it has the lock.
    unsafe {
        let mut all: sigset_t = std::mem::zeroed();
        let mut before: sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        set_mask(libc::SIG_BLOCK, &raw const all, &raw mut before);
        while ACTION_LOCK.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        let place = ACTION.0.get().cast::<libc::sigaction>();
        let old = place.read();
        if let Some(new) = new {
            place.write(new);
        }
        ACTION_LOCK.store(false, Ordering::Release);
        set_mask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        old
    }
}

/// Gives a signal that is none of our timers' to the program.
///
/// # Safety
/// The arguments are those of a handler.
pub(crate) unsafe fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let action = action(None);
    match action.sa_sigaction {
        libc::SIG_IGN => {}
        // What happens without a handler is that the process ends. It may be sent by anyone.
        // SAFETY: the signal comes again when this handler has returned, and has no handler then.
        libc::SIG_DFL => unsafe {
            let default: libc::sigaction = std::mem::zeroed();
            real_sigaction()(signal, &raw const default, std::ptr::null_mut());
            libc::raise(signal);
        },
        // SAFETY: functions that the program has given as such handlers.
        handler => unsafe {
            if action.sa_flags & libc::SA_SIGINFO == 0 {
                std::mem::transmute::<usize, Handler>(handler)(signal);
            } else {
                std::mem::transmute::<usize, InformedHandler>(handler)(signal, info, context);
            }
        },
    }
}

/// # Safety
/// The C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    let real = real_sigaction();
    // SAFETY: the program's arguments, or copies of what they point to.
    unsafe {
        if !slot::is_open() {
            return real(signal, new, old);
        }
        let mut new_action = (!new.is_null()).then(|| *new);
        if signal == SIGNAL {
            let before = action(new_action);
            if !old.is_null() {
                *old = before;
            }
            return 0;
        }
        let Some(new_action) = &mut new_action else {
            return real(signal, new, old);
        };
        new_action.sa_mask = without(&new_action.sa_mask);
        real(signal, new_action, old)
    }
}

/// The same by its older name.
///
/// # Safety
/// The C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { sigaction(signal, new, old) }
}

/// # Safety
/// The C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn signal(signal: c_int, handler: sighandler_t) -> sighandler_t {
    type Signal = unsafe extern "C" fn(c_int, sighandler_t) -> sighandler_t;
    if signal != SIGNAL || !slot::is_open() {
        let real = real!(signal: Signal);
        // SAFETY: the program's arguments.
        return unsafe { real(signal, handler) };
    }
    // SAFETY: zeros are a value of the structure.
    let mut new: libc::sigaction = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler;
    new.sa_flags = libc::SA_RESTART;
    action(Some(new)).sa_sigaction
}

/// Changes the mask with our signal left out of what is kept away.
unsafe fn change_mask(
    real: SetMask,
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    // SAFETY: the program's arguments, or a copy of what they point to.
    unsafe {
        if new.is_null() || how == libc::SIG_UNBLOCK || !slot::is_open() {
            return real(how, new, old);
        }
        let new = without(&*new);
        real(how, &raw const new, old)
    }
}

/// # Safety
/// The C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pthread_sigmask(
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    let real = real!(pthread_sigmask: SetMask);
    // SAFETY: the program's arguments.
    unsafe { change_mask(real, how, new, old) }
}

/// # Safety
/// The C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn sigprocmask(
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    let real = real!(sigprocmask: SetMask);
    // SAFETY: the program's arguments.
    unsafe { change_mask(real, how, new, old) }
}

/// A set of signals to wait for: ours comes to its handler.
fn waited(set: *const sigset_t) -> Option<sigset_t> {
    // SAFETY: the program's argument.
    (!set.is_null() && slot::is_open()).then(|| without(unsafe { &*set }))
}

fn or_given(set: Option<&sigset_t>, given: *const sigset_t) -> *const sigset_t {
    set.map_or(given, std::ptr::from_ref)
}

/// # Safety
/// The C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
    type Wait = unsafe extern "C-unwind" fn(*const sigset_t, *mut c_int) -> c_int;
    let waited = waited(set);
    let real = real!(sigwait: Wait);
    // SAFETY: the program's arguments, or a copy of what they point to.
    own_signal::away(|| unsafe { real(or_given(waited.as_ref(), set), signal) })
}

/// # Safety
/// The C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn sigwaitinfo(
    set: *const sigset_t,
    info: *mut siginfo_t,
) -> c_int {
    type Wait = unsafe extern "C-unwind" fn(*const sigset_t, *mut siginfo_t) -> c_int;
    let waited = waited(set);
    let real = real!(sigwaitinfo: Wait);
    // SAFETY: the program's arguments, or a copy of what they point to.
    own_signal::away(|| unsafe { real(or_given(waited.as_ref(), set), info) })
}

/// # Safety
/// The C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn sigtimedwait(
    set: *const sigset_t,
    info: *mut siginfo_t,
    timeout: *const libc::timespec,
) -> c_int {
    type Wait = unsafe extern "C-unwind" fn(
        *const sigset_t,
        *mut siginfo_t,
        *const libc::timespec,
    ) -> c_int;
    let waited = waited(set);
    let real = real!(sigtimedwait: Wait);
    // SAFETY: the program's arguments, or a copy of what they point to.
    own_signal::away(|| unsafe { real(or_given(waited.as_ref(), set), info, timeout) })
}

/// # Safety
/// The C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn signalfd(
    descriptor: c_int,
    set: *const sigset_t,
    flags: c_int,
) -> c_int {
    type Make = unsafe extern "C" fn(c_int, *const sigset_t, c_int) -> c_int;
    let waited = waited(set);
    let real = real!(signalfd: Make);
    // SAFETY: the program's arguments, or a copy of what they point to.
    unsafe { real(descriptor, or_given(waited.as_ref(), set), flags) }
}
