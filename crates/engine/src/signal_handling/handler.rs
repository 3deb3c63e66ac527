//! The one signal handler that the kernel knows.

use std::sync::atomic::Ordering;

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::emit::{
    TARGET, TableBranch,
    gpr::{RCX, RSP},
};
use unspool_code_cache::exit::{Reason, Way};
use unspool_code_cache::slots::slots;
use unspool_kernel::layout::LIBRARY_END;
use unspool_kernel::{guarded, reserved};

use super::context::Context;
use super::deliver;
use super::leaving::{leave, save_program, save_raw};
use super::single_steps::{is_step, leave_or_step, trapped};
use super::updated_operand;
use crate::client::ClientFault;
use crate::code_pages::{self, Write};
use crate::own_failures;
use crate::process::Process;
use crate::signals::held::Held;
use crate::signals::{STOP, SYNCHRONOUS, bit, code, overtime, passed_on};
use crate::thread::{PendingSignal, Refused, Thread};

const SEGV_MAPERR: u64 = 1;
const PAGE_FAULT: u64 = 14;
/// In the error code of a page fault: it was a write.
const BY_WRITE: u64 = 2;
const ALIGNMENT_CHECK: i64 = 17;
const ALIGNMENT_FLAG: i64 = 1 << 18;

// The kernel leaves the alignment-check flag of the interrupted program on, under which compiled
// code would fault.
std::arch::global_asm!(
    ".globl unspool_signal_entry",
    ".hidden unspool_signal_entry",
    ".type unspool_signal_entry, @function",
    "unspool_signal_entry:",
    "pushfq",
    "and dword ptr [rsp], 0xfffbffff",
    "popfq",
    "jmp {handle}",
    handle = sym handle,
);

unsafe extern "C" {
    /// What the kernel calls for every signal: [`handle`] with flags that compiled code expects.
    fn unspool_signal_entry();
}

/// Handles every signal that reaches the process.
///
/// # Safety
/// Where the kernel is to enter the handler.
pub(crate) fn entry() -> u64 {
    unspool_signal_entry as *const () as u64
}

/// Called by the kernel only, by way of [`unspool_signal_entry`].
unsafe extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: errno is this thread's; the handler must leave it as it was.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes a siginfo of 128 bytes and a ucontext.
    let (mut context, info) = unsafe {
        let context = context.cast::<libc::ucontext_t>();
        let registers = &mut *(&raw mut (*context).uc_mcontext.gregs).cast::<[i64; 23]>();
        let mask = &mut *(&raw mut (*context).uc_sigmask).cast::<u64>();
        (Context { registers, mask }, info.cast::<[u64; 16]>().read())
    };
    let thread = Thread::current();
    let raised_by_kernel = code(&info) > 0;
    // A thread that runs no program code may fault at what a client has made, too.
    let of_client = match signal == libc::SIGSEGV && raised_by_kernel {
        true => Process::try_get().and_then(|it| it.clients.fault(context.pc(), info[2])),
        false => None,
    };
    if let Some(fault) = of_client {
        if let ClientFault::Equal(length) = fault {
            context.pass_comparison(length);
        }
    } else if signal == STOP && crate::requests::is_place_request(&info) {
        if let Some(process) = Process::try_get() {
            process.clients.each(|client| client.tell_place());
        }
    } else if thread.is_null() {
        if bit(signal) & SYNCHRONOUS != 0 && raised_by_kernel {
            engine_fault_unless_recoverable(signal, &info, &mut context);
        } else if overtime::is_over(signal, &info) {
            // The thread ends, and its signals go to others.
        } else if signal != STOP || !crate::requests::is_stop_request(&info) {
            pass_on(signal, &info, &mut context);
        }
    } else {
        // SAFETY: it lives as long as its thread is the current one.
        let held = unsafe { &*Thread::current_held() };
        // SAFETY: the thread is this one; its process never changes.
        let process = unsafe { (&raw const (*thread).process).read() };
        if overtime::is_over(signal, &info) {
            time_is_over(process, held, &context);
        } else if bit(signal) & SYNCHRONOUS != 0 && raised_by_kernel {
            synchronous(process, held, signal, &info, &mut context);
        } else if crate::requests::is_request(signal, &info) {
            // SAFETY: the thread is this one; where it runs changes only while signals are blocked.
            let place = unsafe { (&raw const (*thread).role).read() };
            crate::requests::take_note(place, &info);
            take_out(process, &mut context);
        } else if crate::requests::is_continuation(signal, &info) {
            // The process was only continued so that it can be let go.
        } else if signal == STOP && crate::requests::is_stop_request(&info) {
            take_out(process, &mut context);
        } else {
            asynchronous(process, held, signal, &info, &mut context);
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// A signal of the program's has come to a thread that is none of the program's, as a tool may
/// have that opens its mask: it is for another one. This thread blocks signals from now on.
fn pass_on(signal: i32, info: &[u64; 16], context: &mut Context) {
    context.hold_signals();
    passed_on::pass_on(signal, info);
}

fn engine_fault_unless_recoverable(signal: i32, info: &[u64; 16], context: &mut Context) {
    if let Some(pc) = guarded::recover(context.pc()) {
        context.set_pc(pc);
    } else if !reads_time(signal, context) && bit(signal) & SYNCHRONOUS != 0 && code(info) > 0 {
        let stack = context.general(RSP);
        own_failures::fault(signal, context.pc(), stack, info[2]);
    }
}

/// Whether it was a read of the time-stamp counter that faulted, which is made here then.
fn reads_time(signal: i32, context: &mut Context) -> bool {
    let read = (signal == libc::SIGSEGV).then(|| super::time_stamp::read_at(context.pc()));
    let Some((time, number, length)) = read.flatten() else {
        return false;
    };
    context.registers[libc::REG_RAX as usize] = time as u32 as i64;
    context.registers[libc::REG_RDX as usize] = (time >> 32) as i64;
    if let Some(number) = number {
        context.registers[libc::REG_RCX as usize] = number as i64;
    }
    context.set_pc(context.pc() + length);
    true
}

/// The thread, if it is inside the cache or on its way in or out, where no code of the engine's
/// runs that could be using it.
fn thread_in_cache<'thread>(pc: u64) -> Option<&'thread mut Thread> {
    let entered = slots().host_stack.get() != 0;
    // A jump through an empty entry of the branch table went to address 0.
    let in_cache = entered && (CacheAddress::of(pc).is_some() || pc == 0);
    // SAFETY: whoever has entered the cache has lent the thread to the handler for that time.
    in_cache.then(|| unsafe { &mut *Thread::current() })
}

/// A signal that an instruction has raised. The questions are asked in this order:
///
/// | question | what is done |
/// |---|---|
/// | a single step? | [`trapped`] |
/// | a write to a page whose code was translated? | it is made writable, the write repeated |
/// | a misaligned access of a tool's function, or of an ownership check? | stepped over without the flag; the slow part |
/// | an indirect branch that the branch table does not know? | the miss gate |
/// | outside the cache? | a guarded access fails; else the engine itself has failed |
/// | the guard page of a full buffer? | the thread leaves, and comes back |
/// | a look of a client's at memory that is gone? | it sees nothing |
/// | a tool's code? | the tool has failed |
/// | none of these | the program's own fault |
fn synchronous(
    process: &Process,
    held: &Held,
    signal: i32,
    info: &[u64; 16],
    context: &mut Context,
) {
    let pc = context.pc();
    if signal == libc::SIGTRAP && is_step(info, context) {
        let was_misaligned = held.misaligned.swap(false, Ordering::Relaxed);
        if was_misaligned {
            context.registers[libc::REG_EFL as usize] |= ALIGNMENT_FLAG;
        }
        match thread_in_cache(pc) {
            Some(thread) if thread.steps.is_stepping() || !was_misaligned => {
                trapped(thread, context);
            }
            _ => {
                context.set_trap_flag(false);
                if !was_misaligned {
                    // The step has led into a function that translated code calls: the thread
                    // leaves behind it, and is stepped on from there.
                    set_pending();
                }
            }
        }
        return;
    }
    let is_memory_fault = signal == libc::SIGSEGV || signal == libc::SIGBUS;
    let write = match is_memory_fault {
        true => code_pages::handle_write(process, info[2], context.registers),
        false => Write::Other,
    };
    if write != Write::Other {
        if write == Write::Here
            && let Some(thread) = thread_in_cache(pc)
            && CacheAddress::of(pc).is_some_and(|at| process.gates.is_translated_code(at))
        {
            // The write may change what follows it in this very fragment: leave after it.
            thread.set_pending(true);
            thread.steps.step_out();
            context.set_trap_flag(true);
            context.hold_signals();
        }
        return;
    }
    let misaligned =
        signal == libc::SIGBUS && context.registers[libc::REG_TRAPNO as usize] == ALIGNMENT_CHECK;
    if misaligned && own_failures::is_tools(pc, context.general(RSP)) {
        // The program has set its alignment-check flag, for which a tool's function is not made.
        held.misaligned.store(true, Ordering::Relaxed);
        context.registers[libc::REG_EFL as usize] &= !ALIGNMENT_FLAG;
        context.set_trap_flag(true);
        return;
    }
    if misaligned
        && let Some(at) = CacheAddress::of(pc)
        && let Some(slow_part) = process.clients.slow_part(at)
    {
        // The program has set its alignment-check flag, and a check has met two words at once.
        context.set_pc(slow_part.get());
        return;
    }
    // An empty entry of the branch table: the jump went to address 0.
    let branch = table_branch(pc).filter(|_| signal == libc::SIGSEGV);
    let Some(thread) = thread_in_cache(pc) else {
        engine_fault_unless_recoverable(signal, info, context);
        return;
    };
    if let Some(branch) = branch {
        if branch == TableBranch::Crossing {
            // Another thread has met such a target here at the same time.
            return;
        }
        note_refusal(thread, process, context);
        let target = context.general(TARGET);
        let crosses = target >= LIBRARY_END && deliver::is_canonical(target);
        thread.crossing = CacheAddress::of(pc).filter(|_| crosses);
        let way = match branch {
            TableBranch::Return => Way::Return,
            _ => Way::Jump,
        };
        let miss = process.gates.miss(way, process.convention());
        context.set_pc(miss.get());
        return;
    }
    let Some(at) = CacheAddress::of(pc) else {
        engine_fault_unless_recoverable(signal, info, context);
        return;
    };
    if is_memory_fault
        && thread
            .clients()
            .iter()
            .any(|client| client.is_full(thread, info[2]))
    {
        // The buffer's guard page: leave, empty the buffer, and come back to this instruction.
        thread.slots().set_target(at);
        save_raw(thread, context);
        leave(thread, &process.gates, Reason::BUFFER_FULL, context);
        return;
    }
    if is_memory_fault && let Some(behind) = process.clients.passes_over(at) {
        context.set_pc(behind.get());
        return;
    }
    if own_failures::is_tools(pc, context.general(RSP)) {
        if !reads_time(signal, context) {
            own_failures::fault(signal, pc, context.general(RSP), info[2]);
        }
        return;
    }
    program_fault(thread, signal, info, context);
}

/// Where the target of a branch is no address, the processor says so at the branch. The engine
/// comes to the target, and must know then where the branch was.
fn note_refusal(thread: &mut Thread, process: &Process, context: &Context) {
    let (pc, target) = (context.pc(), context.general(TARGET));
    if deliver::is_canonical(target) {
        return;
    }
    if let Some(at) = CacheAddress::of(pc) {
        thread.refused = Refused::by(&process.code().cache, at, context.general(RSP), target);
    }
}

/// The branch through the table that has faulted at `pc`.
fn table_branch(pc: u64) -> Option<TableBranch> {
    if pc == 0 {
        return Some(TableBranch::Jump);
    }
    let mut bytes = [0; 8];
    let known = CacheAddress::of(pc).is_some() && guarded::read_any(pc, &mut bytes);
    TableBranch::of(bytes).filter(|_| known)
}

/// A fault at a translated instruction: the program gets it with the context of the original.
fn program_fault(thread: &mut Thread, signal: i32, info: &[u64; 16], context: &mut Context) {
    let process = thread.process;
    let pc = context.pc();
    let code = process.code();
    let here = CacheAddress::of(pc);
    let behind = |at: &CacheAddress| code.cache.position(at.before()).is_some();
    let after_trap = signal == libc::SIGTRAP && here.as_ref().is_some_and(behind);
    let at = here.map(|at| if after_trap { at.before() } else { at });
    let Some((at, position)) = at.and_then(|at| Some((at, code.cache.position(at)?))) else {
        drop(code);
        own_failures::fault(signal, pc, context.general(RSP), info[2]);
        return;
    };
    save_program(thread, &code.cache, at, position, context);
    thread
        .clients()
        .each(|client| client.left_mid_fragment(position, after_trap));
    drop(code);
    let mut info = *info;
    if after_trap {
        let next = position.pc + u64::from(position.length);
        thread.set_pc(next);
        if info[2] != 0 {
            // `int1` comes with the address behind it, `int3` with none.
            info[2] = next;
        }
    } else if matches!(signal, libc::SIGILL | libc::SIGFPE | libc::SIGTRAP) {
        info[2] = position.pc;
    } else if signal == libc::SIGSEGV && reserved::holds(info[2]) {
        // To the program nothing is mapped where the engine has something.
        info[1] = info[1] & !u64::from(u32::MAX) | SEGV_MAPERR;
    }
    let registers = &context.registers;
    let mut fault = [libc::REG_ERR, libc::REG_TRAPNO, libc::REG_CR2]
        .map(|index| registers[index as usize] as u64);
    if fault[1] == PAGE_FAULT && fault[0] & BY_WRITE == 0 && updated_operand::is_at(position.pc) {
        // What a client has inserted has looked at the operand before the instruction did.
        fault[0] |= BY_WRITE;
    }
    let fault = PendingSignal {
        number: signal,
        info,
        fault: Some(fault),
        is_directed: false,
    };
    thread.clients().each(|client| client.faulted(thread));
    // Another signal may be on its way to the next boundary: it comes behind.
    thread.delivery.put_first(fault);
    thread.set_pending(true);
    leave(thread, &process.gates, Reason::INTERRUPTED, context);
}

fn asynchronous(
    process: &Process,
    held: &Held,
    signal: i32,
    info: &[u64; 16],
    context: &mut Context,
) {
    let info = &passed_on::original(info);
    let pending = PendingSignal {
        number: signal,
        info: crate::seccomp::as_the_program_sees_it(signal, info),
        fault: None,
        is_directed: false,
    };
    context.hold_signals();
    // SAFETY: this is the thread's own handler.
    if !unsafe { held.push(pending) } {
        // It is blocked now, and comes again when the thread has looked at the others.
        crate::signals::send_to_itself(signal, info);
    } else if overtime::is_ending(signal)
        && own_failures::is_tools(context.pc(), context.general(RSP))
        && held.overtime.begin(signal)
    {
        // Which says that the time is over.
        context.let_through(STOP);
    }
    take_out(process, context);
}

/// A signal has waited for long. If the thread is still in a function of a tool, it has not left
/// that: the signal would have gone to the program.
fn time_is_over(process: &Process, held: &Held, context: &Context) {
    let Some(signal) = held.overtime.signal() else {
        return;
    };
    let (pc, stack) = (context.pc(), context.general(RSP));
    if held.is_empty() || !own_failures::is_tools(pc, stack) {
        return held.overtime.end();
    }
    match process.actions.is_default(signal) {
        // It is being changed: the timer comes again.
        None => {}
        Some(false) => {
            held.overtime.end();
            own_failures::keeps_from_program(signal, pc);
        }
        Some(true) if held.overtime.runs_out() => own_failures::does_not_return(signal, pc),
        Some(true) => own_failures::end_behind_allocation(signal),
    }
}

/// The thread is to look at what has come, as soon as it is out of the cache.
fn set_pending() {
    slots().pending.store(1, Ordering::SeqCst);
}

/// Brings the thread out of the cache, or sees to it that it does not go in.
fn take_out(process: &Process, context: &mut Context) {
    let gates = &process.gates;
    let pc = context.pc();
    set_pending();
    let Some(at) = CacheAddress::of(pc) else {
        if let Some(left_out) = super::mask::leaves_mask(pc) {
            context.set_pc(left_out);
        }
        return;
    };
    if gates.is_making_call(at) && gates.has_begun_call(context.general(RCX)) {
        // SAFETY: only threads of the program's make its calls.
        unsafe { &*Thread::current_held() }.note_begun_call();
    }
    if let Some(diverted) = gates.diversion(at) {
        context.set_pc(diverted.get());
    } else if gates.is_translated_code(at)
        && let Some(thread) = thread_in_cache(pc)
    {
        context.hold_signals();
        leave_or_step(thread, at, context);
    }
}
