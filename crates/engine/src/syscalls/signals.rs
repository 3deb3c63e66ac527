//! System calls about signals.

use super::Call;
use crate::emit::gpr;
use crate::guarded;
use crate::process::Process;
use crate::signals::actions::Action;
use crate::signals::deliver::on_alternate_stack;
use crate::signals::{STOP, SYNCHRONOUS, bit, set_kernel_mask};
use crate::thread::{AlternateStack, Thread};

const FAULT: i64 = -(libc::EFAULT as i64);
const INVALID: i64 = -(libc::EINVAL as i64);
const MASK_SIZE: u64 = 8;

/// `rt_sigaction`.
pub(super) fn set_action(thread: &mut Thread, call: &Call) -> i64 {
    let [signal, new, old, size, ..] = call.arguments;
    let signal = signal as i32;
    if size != MASK_SIZE || !(1..=64).contains(&signal) {
        return INVALID;
    }
    if new != 0 && (signal == libc::SIGKILL || signal == libc::SIGSTOP) {
        return INVALID;
    }
    let mut previous = thread.actions.get(signal);
    if new != 0 {
        let mut bytes = [0; size_of::<Action>()];
        if !guarded::read(new, &mut bytes) {
            return FAULT;
        }
        // SAFETY: any bytes are a valid action.
        let mut action: Action = unsafe { std::mem::transmute(bytes) };
        action.mask &= !bit(libc::SIGKILL) & !bit(libc::SIGSTOP);
        previous = thread.actions.set(signal, action);
    }
    // SAFETY: a `repr(C)` struct of u64 has no padding.
    let bytes: [u8; size_of::<Action>()] = unsafe { std::mem::transmute(previous) };
    if old != 0 && !guarded::write(old, &bytes) {
        return FAULT;
    }
    0
}

/// `rt_sigprocmask`.
pub(super) fn set_mask(thread: &mut Thread, call: &Call) -> i64 {
    let [how, new, old, size, ..] = call.arguments;
    if size != MASK_SIZE {
        return INVALID;
    }
    let previous = thread.mask;
    if new != 0 {
        let Some(set) = guarded::read_word(new) else {
            return FAULT;
        };
        let set = set & !bit(libc::SIGKILL) & !bit(libc::SIGSTOP);
        thread.mask = match how as i32 {
            libc::SIG_BLOCK => previous | set,
            libc::SIG_UNBLOCK => previous & !set,
            libc::SIG_SETMASK => set,
            _ => return INVALID,
        };
        set_kernel_mask(thread.mask);
    }
    if old != 0 && !guarded::write(old, &previous.to_le_bytes()) {
        return FAULT;
    }
    0
}

/// `sigaltstack`.
pub(super) fn set_alternate_stack(thread: &mut Thread, call: &Call) -> i64 {
    const MINIMUM: u64 = 2048;
    const AUTODISARM: i32 = i32::MIN;
    let [new, old, ..] = call.arguments;
    let current = thread.alternate_stack;
    let on_it = on_alternate_stack(thread, thread.register(gpr::RSP));
    if new != 0 {
        let mut bytes = [0; 24];
        if !guarded::read(new, &mut bytes) {
            return FAULT;
        }
        if on_it {
            return -i64::from(libc::EPERM);
        }
        let word =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let flags = word(8) as u32 as i32;
        let stack = AlternateStack {
            base: word(0),
            flags,
            size: word(16),
        };
        match flags & !AUTODISARM {
            libc::SS_DISABLE => {
                thread.alternate_stack = AlternateStack {
                    base: 0,
                    flags: libc::SS_DISABLE,
                    size: 0,
                };
            }
            0 | libc::SS_ONSTACK if stack.size < MINIMUM => return -i64::from(libc::ENOMEM),
            0 | libc::SS_ONSTACK => {
                thread.alternate_stack = AlternateStack {
                    flags: flags & AUTODISARM,
                    ..stack
                };
            }
            _ => return INVALID,
        }
    }
    if old != 0 {
        let flags = if on_it {
            libc::SS_ONSTACK
        } else {
            current.flags
        };
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&current.base.to_le_bytes());
        bytes[8..12].copy_from_slice(&flags.to_le_bytes());
        bytes[16..].copy_from_slice(&current.size.to_le_bytes());
        if !guarded::write(old, &bytes) {
            return FAULT;
        }
    }
    0
}

/// `rt_sigsuspend`: the kernel waits with the program's mask, but never with one that
/// blocks what the engine needs.
pub(super) fn suspend(process: &Process, call: &Call) -> i64 {
    let [mask, size, ..] = call.arguments;
    if size != MASK_SIZE {
        return INVALID;
    }
    let Some(mask) = guarded::read_word(mask) else {
        return FAULT;
    };
    let mask = mask & !SYNCHRONOUS & !bit(STOP);
    let _rest = crate::trace::rest();
    // SAFETY: the mask is 8 bytes.
    let result = unsafe {
        process.gates.call_kernel(
            call.number,
            &[&raw const mask as u64, MASK_SIZE, 0, 0, 0, 0],
        )
    };
    if result == crate::gates::RESTART {
        -i64::from(libc::EINTR)
    } else {
        result
    }
}
