//! The one signal handler that the kernel knows.

use std::sync::atomic::Ordering;

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::cache::Position;
use unspool_code_cache::emit::{
    TARGET, TableBranch,
    gpr::{RCX, RSP},
};
use unspool_code_cache::exit::{Reason, Way};
use unspool_code_cache::gates::Gates;
use unspool_code_cache::slots::slots;
use unspool_kernel::layout::LIBRARY_END;
use unspool_kernel::{guarded, reserved};

use super::deliver;
use crate::client::{self, ClientFault, Rounds};
use crate::code_pages::{self, Write};
use crate::process::Process;
use crate::signals::held::Held;
use crate::signals::stepping::{Boundary, Location, Look, Trap};
use crate::signals::{STOP, SYNCHRONOUS, bit, code, passed_on};
use crate::thread::{PendingSignal, Refused, Thread};

const TRAP_FLAG: i64 = crate::signals::TRAP_FLAG as i64;
const TRAP_TRACE: u64 = 2;
const RESUME_FLAG: u64 = 0x1_0000;
const SEGV_MAPERR: u64 = 1;
const ALIGNMENT_CHECK: i64 = 17;
const ALIGNMENT_FLAG: i64 = 1 << 18;

/// The interrupted state, as the kernel passes it.
struct Context<'a> {
    registers: &'a mut [i64; 23],
    mask: &'a mut u64,
}

impl Context<'_> {
    fn pc(&self) -> u64 {
        self.registers[libc::REG_RIP as usize] as u64
    }

    fn set_pc(&mut self, pc: u64) {
        self.registers[libc::REG_RIP as usize] = pc as i64;
    }

    fn trap_flag(&self) -> bool {
        self.registers[libc::REG_EFL as usize] & TRAP_FLAG != 0
    }

    fn set_trap_flag(&mut self, on: bool) {
        let flags = &mut self.registers[libc::REG_EFL as usize];
        *flags = if on {
            *flags | TRAP_FLAG
        } else {
            *flags & !TRAP_FLAG
        };
    }

    /// A general register by its number.
    fn general(&self, number: u8) -> u64 {
        const ORDER: [i32; 16] = [
            libc::REG_RAX,
            libc::REG_RCX,
            libc::REG_RDX,
            libc::REG_RBX,
            libc::REG_RSP,
            libc::REG_RBP,
            libc::REG_RSI,
            libc::REG_RDI,
            libc::REG_R8,
            libc::REG_R9,
            libc::REG_R10,
            libc::REG_R11,
            libc::REG_R12,
            libc::REG_R13,
            libc::REG_R14,
            libc::REG_R15,
        ];
        self.registers[ORDER[usize::from(number)] as usize] as u64
    }

    /// Goes on behind a comparison of this many bytes, whose result is that both are equal.
    fn pass_comparison(&mut self, length: u64) {
        const ZERO_FLAG: i64 = 1 << 6;
        self.registers[libc::REG_EFL as usize] |= ZERO_FLAG;
        self.set_pc(self.pc() + length);
    }

    /// No further asynchronous signal until the program has had this one.
    fn hold_signals(&mut self) {
        *self.mask = !SYNCHRONOUS;
    }
}

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
    } else if thread.is_null() {
        if bit(signal) & SYNCHRONOUS != 0 && raised_by_kernel {
            engine_fault_unless_recoverable(signal, &info, &mut context);
        } else if signal != STOP || !crate::requests::is_stop_request(&info) {
            pass_on(signal, &info, &mut context);
        }
    } else {
        // SAFETY: it lives as long as its thread is the current one.
        let held = unsafe { &*Thread::current_held() };
        // SAFETY: the thread is this one; its process never changes.
        let process = unsafe { (&raw const (*thread).process).read() };
        if signal == STOP && crate::requests::is_place_request(&info) {
            process.clients.each(|client| client.tell_place());
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
        crate::own_failures::fault(signal, context.pc(), stack, info[2]);
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
    if misaligned && crate::own_failures::is_tools(pc, context.general(RSP)) {
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
    if crate::own_failures::is_tools(pc, context.general(RSP)) {
        if !reads_time(signal, context) {
            crate::own_failures::fault(signal, pc, context.general(RSP), info[2]);
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
        crate::own_failures::fault(signal, pc, context.general(RSP), info[2]);
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
    let fault = [libc::REG_ERR, libc::REG_TRAPNO, libc::REG_CR2]
        .map(|index| registers[index as usize] as u64);
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
    }
    take_out(process, context);
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

/// Whether a trap is that behind a single step. Some hypervisors lose the bit that says so, and
/// the kernel takes the trap for an `int1` then: what the flag was for tells them apart.
fn is_step(info: &[u64; 16], context: &Context) -> bool {
    const TRAP_BRKPT: u64 = 1;
    const INT1: u8 = 0xf1;
    let is_int1 = || {
        let mut before = [0];
        guarded::read(context.pc().wrapping_sub(1), &mut before) && before[0] == INT1
    };
    match info[1] {
        TRAP_TRACE => true,
        TRAP_BRKPT => context.trap_flag() && !is_int1(),
        _ => false,
    }
}

/// One instruction of the cache has been executed with the trap flag.
fn trapped(thread: &mut Thread, context: &mut Context) {
    let gates = &thread.process.gates;
    let at = CacheAddress::of(context.pc());
    let place = match at {
        Some(at) if gates.is_translated_code(at) => Location::Translated,
        Some(at) if gates.is_entering(at) => Location::Entering,
        _ => Location::Leaving,
    };
    if thread.steps.has_pushed_flags() {
        let second_byte = context.registers[libc::REG_RSP as usize] as u64 + 1;
        let mut byte = [0];
        if guarded::read(second_byte, &mut byte) {
            let _ = guarded::write(second_byte, &[byte[0] & !((TRAP_FLAG >> 8) as u8)]);
        }
    }
    let was_stepping = thread.steps.is_stepping();
    let is_set = context.trap_flag();
    match (thread.steps.trapped(place, is_set, thread.single_step), at) {
        (Trap::Look, Some(at)) => leave_or_step(thread, at, context),
        (Trap::Look | Trap::StepOn, _) => {}
        (Trap::Run, _) => {
            if was_stepping {
                // The thread reached the exit gate by itself: what is pending will be seen.
                thread.set_pending(true);
            }
            context.set_trap_flag(false);
        }
    }
}

fn leave_or_step(thread: &mut Thread, at: CacheAddress, context: &mut Context) {
    let process = thread.process;
    let code = process.code();
    let position = code.cache.position(at).filter(|position| {
        // A program that single-steps has not executed a first round yet.
        let may_be_left = !thread.is_stepped() && !client::must_complete(thread);
        position.boundary || may_be_left && has_made_rounds(thread, at, position)
    });
    let boundary = position.map(|position| Boundary {
        prologue_end: position
            .prologue
            .then(|| code.cache.prologue_end(position.fragment)),
    });
    let has_signal = thread.has_signal();
    let debugger = thread.single_step;
    let look = thread
        .steps
        .look(at, boundary, debugger, has_signal, || pushes_flags(at));
    match (look, position) {
        (Look::Leave { trap }, Some(position)) => {
            let resumes = resumes_repetition(thread, position.pc);
            save_program(thread, &code.cache, at, position, context);
            if resumes {
                thread.slots().flags.update(|flags| flags | RESUME_FLAG);
            }
            thread
                .clients()
                .each(|client| client.left_mid_fragment(position, false));
            drop(code);
            thread.clients().each(|client| client.stepped(thread));
            if trap {
                thread.delivery.put_first(deliver::single_step(position.pc));
            }
            thread.set_pending(true);
            context.set_trap_flag(false);
            leave(thread, &process.gates, Reason::INTERRUPTED, context);
        }
        _ => context.set_trap_flag(true),
    }
}

/// Whether a thread that is stepped has entered the cache with its resume flag set, at a repeated
/// string instruction that is not over: the flag is cleared only when an instruction is, and
/// not every processor sets it anew at each round.
fn resumes_repetition(thread: &Thread, pc: u64) -> bool {
    let (flags, entered_at) = (thread.slots().flags.get(), thread.slots().pc.get());
    let mut prefix = [0];
    thread.is_stepped()
        && flags & RESUME_FLAG != 0
        && entered_at == pc
        && guarded::read(pc, &mut prefix)
        && matches!(prefix[0], 0xf2 | 0xf3)
}

/// Whether a thread can be left at a repeated string instruction, between two of its rounds.
fn has_made_rounds(thread: &mut Thread, here: CacheAddress, position: &Position) -> bool {
    /// To single-step them takes about a millisecond.
    const MANY: u32 = 1000;
    let rounds = thread.clients().leaves_between_rounds(here, position);
    if rounds != Rounds::Many {
        thread.repeating = (CacheAddress::NOWHERE, 0);
        return rounds == Rounds::None;
    }
    let (at, rounds) = thread.repeating;
    thread.repeating = (here, if at == here { rounds + 1 } else { 0 });
    if thread.repeating.1 < MANY {
        return false;
    }
    thread.repeating = (CacheAddress::NOWHERE, 0);
    true
}

/// Whether the instruction at a place in the cache is `pushf`, whatever its prefixes.
fn pushes_flags(at: CacheAddress) -> bool {
    const PUSHF: u8 = 0x9c;
    let mut bytes = [0; unspool_instructions::decode::MAX_LENGTH];
    let is_prefix = |byte: &u8| {
        matches!(
            byte,
            0x66 | 0x67 | 0x40..=0x4f | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf2 | 0xf3
        )
    };
    // The cache does not end behind an instruction.
    guarded::read_any(at.get(), &mut bytes)
        && bytes.iter().find(|byte| !is_prefix(byte)) == Some(&PUSHF)
}

/// Puts the registers into the slots as they are, spilled or not.
fn save_raw(thread: &mut Thread, context: &Context) {
    for register in 0..16 {
        thread.set_register(register, context.general(register));
    }
    let flags = context.registers[libc::REG_EFL as usize] & !TRAP_FLAG;
    thread.slots().flags.set(flags as u64);
}

/// Puts the program's state at a position of the cache into the slots.
fn save_program(
    thread: &mut Thread,
    cache: &unspool_code_cache::cache::Cache,
    at: CacheAddress,
    position: Position,
    context: &Context,
) {
    save_raw(thread, context);
    thread
        .clients()
        .each(|client| client.leave_mid_fragment(thread, cache, at, position));
    for spill in cache.spills_at(position.fragment, at) {
        thread.restore_spill(spill);
    }
    thread.set_pc(position.pc);
    thread
        .clients()
        .each(|client| client.left_between_rounds(at, &position));
}

/// Makes the interrupted thread go on at the exit gate, whose state is already in the slots.
fn leave(thread: &mut Thread, gates: &Gates, reason: Reason, context: &mut Context) {
    if thread.steps.left() {
        // What the steps were to lead to is still to be done.
        context.set_trap_flag(false);
        thread.set_pending(true);
    }
    thread.slots().set_reason(reason);
    context.registers[libc::REG_RSP as usize] = thread.slots().host_stack.get() as i64;
    context.set_pc(gates.exit_saved.get());
    context.hold_signals();
}
