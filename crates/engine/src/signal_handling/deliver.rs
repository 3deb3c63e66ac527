//! Giving a signal to the program: its handler, or the default action.

use unspool_code_cache::emit::gpr;
use unspool_kernel::guarded;

use super::frame::{FRAME_SIZE, Frame, FullState};
use super::{change_mask, open, settle};
use crate::client;
use crate::finish::die;
use crate::restarting;
use crate::signals::actions::{self, Action, DEFAULT, IGNORE};
use crate::signals::delivery::{FIRST_REAL_TIME, Signal};
use crate::signals::{SYNCHRONOUS, bit};
use crate::thread::{AlternateStack, PendingSignal, Thread};

const SS_ONSTACK: i32 = 1;
const SS_AUTODISARM: i32 = i32::MIN;
const RED_ZONE: u64 = 128;
const SA_RESTORER: u64 = 0x0400_0000;

/// Gives the program the signal that comes next, if one is due. The thread is out of the cache
/// and its state in the slots is exact. Whether there are more, its word says that something is
/// pending.
pub(crate) fn deliver(thread: &mut Thread) {
    thread.set_pending(false);
    thread.collect_signals();
    let signal = thread.delivery.take_next();
    let offered = thread.clients().iter().fold(signal, |signal, client| {
        signal.and_then(|signal| client.signal_due(thread, signal))
    });
    if let Some(signal) = offered {
        give(thread, &signal);
    }
    thread.delivery.end_without_handler();
    settle(thread);
    open(thread);
}

fn give(thread: &mut Thread, signal: &PendingSignal) {
    let action = thread.actions.get(signal.number);
    let forced = signal.fault.is_some();
    let blocked = thread.delivery.mask() & bit(signal.number) != 0;
    let is_ignored = action.handler == IGNORE && !forced;
    let mut all = thread.clients().iter();
    if !is_ignored && !all.all(|client| client.signal_comes(thread, signal)) {
        return;
    }
    match action.handler {
        _ if forced && blocked => die(thread, signal.number),
        IGNORE if !forced => {}
        DEFAULT | IGNORE => {
            // The first process of a PID namespace is not ended by what is sent to it.
            if forced || actions::ends_process(signal.number) && !crate::finish::init::is_it() {
                die(thread, signal.number);
            }
        }
        _ => call_handler(thread, signal, &action),
    }
}

fn call_handler(thread: &mut Thread, signal: &PendingSignal, action: &Action) {
    let restarts = action.flags & libc::SA_RESTART as u64 != 0;
    restarting::handler_comes(thread, signal, restarts);
    thread
        .clients()
        .each(|client| client.handler_called(thread, signal.number));
    let stack_pointer = thread.register(gpr::RSP);
    let alternate = thread.alternate_stack;
    let on_alternate = on_alternate_stack(thread, stack_pointer);
    let enabled = alternate.flags & libc::SS_DISABLE == 0 && alternate.size != 0;
    let wants_alternate = action.flags & libc::SA_ONSTACK as u64 != 0;
    let mut top = stack_pointer - RED_ZONE;
    if wants_alternate && enabled && !on_alternate {
        top = alternate.base + alternate.size;
    }
    let mut frame = Frame::capture(thread.slots());
    let mut state = FullState::capture(thread);
    let fp_state = top.wrapping_sub(state.frame_size()) & !63;
    let address = (fp_state.wrapping_sub(FRAME_SIZE) & !15).wrapping_sub(8);
    let flags = match (enabled, on_alternate) {
        (false, _) => libc::SS_DISABLE,
        (true, true) => SS_ONSTACK,
        (true, false) => alternate.flags & SS_AUTODISARM,
    };
    frame.restorer = action.restorer;
    frame.stack = [alternate.base, u64::from(flags as u32), alternate.size];
    frame.mask = thread.delivery.mask_behind_handler();
    frame.info = signal.info;
    frame.set_fp_state(fp_state);
    if let Some(fault) = signal.fault {
        frame.set_fault(fault);
    }
    frame.set_trap_flag(thread.steps.program_flag);
    // A frame that does not fit the alternate stack is not begun.
    let uses_alternate = on_alternate || wants_alternate && enabled;
    let within = !uses_alternate || lies_on(&alternate, address);
    client::memory_written(thread, address, top.wrapping_sub(address));
    let written = within
        && action.flags & SA_RESTORER != 0
        && state.write(fp_state)
        && guarded::write(address, &frame.bytes());
    if !written {
        return fail(thread, signal.number);
    }
    thread.steps.program_flag = false;
    if alternate.flags & SS_AUTODISARM != 0 && wants_alternate {
        thread.alternate_stack = crate::thread::AlternateStack {
            base: 0,
            flags: libc::SS_DISABLE,
            size: 0,
        };
    }
    FullState::initial().install(thread);
    enter_handler(thread, signal, action, address);
}

/// The frame of a signal cannot be written, or that of a handler that returns cannot be read: the
/// program gets `SIGSEGV`, and dies of it if it was `SIGSEGV`'s own frame.
fn fail(thread: &mut Thread, signal: i32) {
    if signal == libc::SIGSEGV {
        die(thread, signal);
    }
    thread.delivery.put_first(protection_fault());
}

fn enter_handler(thread: &mut Thread, signal: &PendingSignal, action: &Action, address: u64) {
    const INFO: u64 = std::mem::offset_of!(Frame, info) as u64;
    const CONTEXT: u64 = std::mem::offset_of!(Frame, context_flags) as u64;
    // DF, TF and RF are clear in a handler.
    const CLEARED: u64 = 0x400 | 0x100 | 0x1_0000;
    thread.set_register(gpr::RAX, 0);
    thread.set_register(gpr::RDI, signal.number as u64);
    thread.set_register(gpr::RSI, address + INFO);
    thread.set_register(gpr::RDX, address + CONTEXT);
    thread.set_register(gpr::RSP, address);
    thread.set_pc(action.handler);
    thread.slots().flags.update(|flags| flags & !CLEARED);
    let defers = action.flags & libc::SA_NODEFER as u64 == 0;
    thread
        .delivery
        .enter_handler(signal.number, action.mask, defers);
    if action.flags & libc::SA_RESETHAND as u64 != 0 {
        thread.actions.set(
            signal.number,
            Action {
                handler: DEFAULT,
                ..*action
            },
        );
    }
    thread
        .clients()
        .each(|client| client.handler_entered(thread));
}

/// Whether a stack pointer lies on the program's alternate stack.
#[must_use]
pub(crate) fn on_alternate_stack(thread: &Thread, stack_pointer: u64) -> bool {
    let stack = &thread.alternate_stack;
    stack.flags & SS_AUTODISARM == 0 && lies_on(stack, stack_pointer)
}

fn lies_on(stack: &AlternateStack, stack_pointer: u64) -> bool {
    stack_pointer > stack.base && stack_pointer - stack.base <= stack.size
}

/// `rt_sigreturn`: the program's state becomes what the frame says. False: something was pending
/// before, and nothing has changed.
// The state that it reads is large, and must not become part of every system call's frame.
#[inline(never)]
#[must_use]
pub(crate) fn return_from_handler(thread: &mut Thread) -> bool {
    let address = thread.register(gpr::RSP).wrapping_sub(8);
    let frame = Frame::read(address);
    let state = frame.as_ref().and_then(|frame| match frame.fp_state() {
        0 => Some(FullState::initial()),
        state => FullState::read(state),
    });
    let (Some(frame), Some(mut state)) = (frame, state) else {
        thread.delivery.put_first(protection_fault());
        settle(thread);
        return true;
    };
    if !change_mask(thread, frame.mask) {
        return false;
    }
    frame.restore(thread.slots());
    thread.steps.program_flag = frame.trap_flag();
    state.install(thread);
    // What is no stack is left out, as is all of it while the thread is on the one it has.
    let [base, flags, size] = frame.stack;
    let stack = AlternateStack::checked(base, flags as i32, size);
    if let Ok(stack) = stack
        && !on_alternate_stack(thread, thread.register(gpr::RSP))
    {
        thread.alternate_stack = stack;
    }
    true
}

/// Gives signals of a set that the thread has taken back to the kernel, for this thread. It must
/// block them. Of one kind below the real-time ones the kernel keeps one. Returns the kinds of
/// those that were for this thread before.
pub(crate) fn give_back(thread: &mut Thread, set: u64) -> u64 {
    thread.collect_signals();
    let (mut left, mut directed) = (set, 0);
    while let Some(signal) = thread.delivery.remove(left) {
        let kind = bit(signal.number);
        if signal.number < FIRST_REAL_TIME {
            left &= !kind;
        }
        if !signal.is_for_process() {
            directed |= kind;
        }
        crate::signals::send_to_itself(signal.number, &signal.info);
    }
    directed
}

/// Takes a pending signal of a set from the kernel, with what came with it: one for the thread
/// before one for the process. `None`: there is none.
pub(crate) fn take_pending(set: u64) -> Option<(i32, [u64; 16])> {
    let now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut info = [0_u64; 16];
    // SAFETY: the kernel reads a set of 8 bytes and a time, and writes a siginfo of 128.
    let taken = unsafe {
        libc::syscall(
            libc::SYS_rt_sigtimedwait,
            &raw const set,
            info.as_mut_ptr(),
            &raw const now,
            8_usize,
        )
    };
    (taken > 0).then_some((taken as i32, info))
}

/// The trap behind an instruction of a program that has set its trap flag.
#[must_use]
pub(crate) fn single_step(pc: u64) -> PendingSignal {
    const TRAP_TRACE: u64 = 2;
    const DEBUG_TRAP: u64 = 1;
    let mut info = [0; 16];
    info[..3].copy_from_slice(&[libc::SIGTRAP as u64, TRAP_TRACE, pc]);
    PendingSignal {
        number: libc::SIGTRAP,
        info,
        fault: Some([0, DEBUG_TRAP, 0]),
        is_directed: false,
    }
}

/// Whether something can be an address: its upper bits are all alike.
#[must_use]
pub(crate) fn is_canonical(address: u64) -> bool {
    const UNUSED_BITS: u32 = 16;
    (address << UNUSED_BITS) as i64 >> UNUSED_BITS == address as i64
}

/// What the processor says of a branch to what is no address.
#[must_use]
pub(crate) fn protection_fault() -> PendingSignal {
    const PROTECTION_FAULT: u64 = 13;
    let mut fault = synthetic_fault(libc::SIGSEGV, libc::SI_KERNEL, 0, 0);
    fault.fault = Some([0, PROTECTION_FAULT, 0]);
    fault
}

/// A page fault of the program, with the processor's error code, as if the processor had
/// raised it at the current program counter.
#[must_use]
pub(crate) fn synthetic_fault(signal: i32, code: i32, address: u64, error: u64) -> PendingSignal {
    const PAGE_FAULT: u64 = 14;
    let mut info = [0; 16];
    info[0] = signal as u64;
    info[1] = u64::from(code as u32);
    info[2] = address;
    debug_assert!(bit(signal) & SYNCHRONOUS != 0);
    PendingSignal {
        number: signal,
        info,
        fault: Some([error, PAGE_FAULT, address]),
        is_directed: false,
    }
}
