//! System calls about signals.

use unspool_code_cache::emit::gpr;
use unspool_code_cache::gates::RESTART;
use unspool_kernel::guarded;

use crate::call::{Call, MASK_SIZE};
use crate::signal_handling::change_mask;
use crate::signal_handling::deliver::on_alternate_stack;
use crate::signals::actions::Action;
use crate::signals::bit;
use crate::thread::{AlternateStack, Thread};

const FAULT: i64 = -(libc::EFAULT as i64);
const INVALID: i64 = -(libc::EINVAL as i64);

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
    let previous = thread.delivery.mask();
    if new != 0 {
        let Some(set) = guarded::read_word(new) else {
            return FAULT;
        };
        let mask = match how as i32 {
            libc::SIG_BLOCK => previous | set,
            libc::SIG_UNBLOCK => previous & !set,
            libc::SIG_SETMASK => set,
            _ => return INVALID,
        };
        if !change_mask(thread, mask) {
            return RESTART;
        }
    }
    if old != 0 && !guarded::write(old, &previous.to_le_bytes()) {
        return FAULT;
    }
    0
}

/// `sigaltstack`.
pub(super) fn set_alternate_stack(thread: &mut Thread, call: &Call) -> i64 {
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
        match AlternateStack::checked(word(0), word(8) as u32 as i32, word(16)) {
            Ok(stack) => thread.alternate_stack = stack,
            Err(error) => return -i64::from(error),
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
