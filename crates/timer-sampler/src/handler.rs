//! A sample: what happens in a thread whose timer has expired.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use libc::siginfo_t;
use unspool_sample_slots::{header, slot as words};

use crate::own_signal::SIGNAL;
use crate::record::Sample;
use crate::thread::Thread;
use crate::{own_signal, signals, slot, timer};

/// `siginfo_t` of a timer's signal.
#[repr(C)]
struct TimerInformation {
    signal: c_int,
    error: c_int,
    code: c_int,
    padding: c_int,
    timer: c_int,
    overrun: c_int,
    value: u64,
}

const SI_TIMER: c_int = -2;

/// The program's registers in the order in which a sample has them.
const REGISTERS: [c_int; 17] = [
    libc::REG_RAX,
    libc::REG_RBX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_RBP,
    libc::REG_RSP,
    libc::REG_RIP,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Has the signal come here. It goes on the program's own stack for signals where there is one, has
/// system calls made again that allow it, and is not interrupted by handlers of the program's.
pub(crate) fn install() -> bool {
    // SAFETY: zeros are a value of the structure; the function is one for signals with
    // information.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = on_signal;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
        libc::sigfillset(&raw mut action.sa_mask);
        let installed = signals::real_sigaction()(SIGNAL, &raw const action, std::ptr::null_mut());
        own_signal::unblock();
        installed == 0
    }
}

unsafe extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a handler its information, of which a timer's has this form.
    let timer = unsafe { &*info.cast::<TimerInformation>() };
    let number = match timer.code {
        SI_TIMER => timer::slot_of(timer.value),
        _ => None,
    };
    let Some(number) = number else {
        // SAFETY: passed on as it came.
        unsafe { signals::pass_on(signal, info, context) };
        return;
    };
    // A timer that was deleted may have left a signal.
    let Some(thread) = Thread::of_signal(number, timer.timer) else {
        return;
    };
    // SAFETY: the kernel gives a handler the context that it interrupted.
    let context = unsafe { &*context.cast::<libc::ucontext_t>() };
    sample(thread, number, timer, context);
}

fn sample(thread: &Thread, number: usize, timer: &TimerInformation, context: &libc::ucontext_t) {
    let slot = thread.slot(number);
    let expirations = 1 + u64::from(timer.overrun.unsigned_abs());
    slot.word(words::EXPIRATIONS)
        .fetch_add(expirations, Ordering::Relaxed);
    slot.note_time();
    let sample = Sample {
        who: thread.who(),
        weight_ns: slot::word(header::PERIOD_NS).wrapping_mul(expirations),
        registers: REGISTERS.map(|register| context.uc_mcontext.gregs[register as usize] as u64),
    };
    let most = slot::word(header::STACK_BYTES) as usize;
    let bounds = thread.bounds();
    let sp = context.uc_mcontext.gregs[libc::REG_RSP as usize] as u64;
    let is_written = match (bounds.low..bounds.high).contains(&sp) {
        true => sample.write(slot, bounds.high, most),
        // A stack for signals, or one that the program has made itself.
        false => sample.write_readable(slot, most),
    };
    if !is_written {
        slot.word(words::LOST)
            .fetch_add(expirations, Ordering::Relaxed);
    }
}
