//! The one signal handler that the kernel knows.

use super::{STOP, SYNCHRONOUS, bit, deliver};
use crate::cache::Position;
use crate::emit::{TARGET, TableBranch, gpr::RSP};
use crate::exit;
use crate::gates::{self, Gates};
use crate::guarded;
use crate::hashed_branches::Way;
use crate::layout::LIBRARY_END;
use crate::process::Process;
use crate::thread::{PendingSignal, Refused, Thread};

const TRAP_FLAG: i64 = super::TRAP_FLAG as i64;
const TRAP_TRACE: u64 = 2;
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
    pub(super) fn unspool_signal_entry();
}

/// Handles every signal that reaches the process.
///
/// # Safety
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
    if thread.is_null() {
        let raised_by_kernel = (info[1] as u32 as i32) > 0;
        if bit(signal) & SYNCHRONOUS != 0 && raised_by_kernel {
            engine_fault_unless_recoverable(signal, &info, &mut context);
        } else if signal != STOP || !crate::finish::is_stop_request(&info) {
            pass_on(signal, &info, &mut context);
        }
    } else {
        // SAFETY: the pointer is this thread's own, and what it points to outlives the thread's
        // program code. The handler and the interrupted code do not use the same fields at once.
        let thread = unsafe { &mut *thread };
        let raised_by_kernel = (info[1] as u32 as i32) > 0;
        if signal == STOP && crate::finish::is_place_request(&info) {
            crate::instrument::blocked::tell_place();
        } else if bit(signal) & SYNCHRONOUS != 0 && raised_by_kernel {
            synchronous(thread, signal, &info, &mut context);
        } else if crate::detach::is_request(signal, &info) {
            crate::detach::take_note(thread, &info);
            take_out(thread, &mut context);
        } else if crate::detach::is_continuation(signal, &info) {
            // The process was only continued so that it can be let go.
        } else if signal == STOP && crate::finish::is_stop_request(&info) {
            take_out(thread, &mut context);
        } else {
            asynchronous(thread, signal, &info, &mut context);
        }
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// A signal of the program's has come to a thread that is none of the program's, as a tool may
/// have: it is for another one.
fn pass_on(signal: i32, info: &[u64; 16], context: &mut Context) {
    context.hold_signals();
    // SAFETY: a process may send any signal to itself, with what came with it. This thread blocks
    // it when the handler returns, and does so now.
    unsafe {
        super::block_all();
        libc::syscall(
            libc::SYS_rt_sigqueueinfo,
            libc::getpid(),
            signal,
            info.as_ptr(),
        );
    }
}

fn engine_fault_unless_recoverable(signal: i32, info: &[u64; 16], context: &mut Context) {
    if let Some(pc) = guarded::recover(context.pc()) {
        context.set_pc(pc);
    } else if bit(signal) & SYNCHRONOUS != 0 && (info[1] as u32 as i32) > 0 {
        let stack = context.general(RSP);
        crate::own_failures::fault(signal, context.pc(), stack, info[2]);
    }
}

fn synchronous(thread: &mut Thread, signal: i32, info: &[u64; 16], context: &mut Context) {
    let pc = context.pc();
    let process = Process::get();
    if signal == libc::SIGTRAP && info[1] == TRAP_TRACE && thread.misaligned {
        thread.misaligned = false;
        context.registers[libc::REG_EFL as usize] |= ALIGNMENT_FLAG;
        if !thread.stepping {
            context.set_trap_flag(false);
            return;
        }
    }
    if signal == libc::SIGTRAP && info[1] == TRAP_TRACE && thread.stepping {
        step(thread, context);
        return;
    }
    if signal == libc::SIGTRAP && info[1] == TRAP_TRACE && gates::in_cache(pc) {
        // The program has just set its trap flag, and is on its way out of the cache.
        thread.trap_flag = true;
        context.set_trap_flag(false);
        return;
    }
    let is_memory_fault = signal == libc::SIGSEGV || signal == libc::SIGBUS;
    if is_memory_fault && crate::code_pages::handle_write(process, info[2], context.registers) {
        if in_translated_code(&process.gates, pc) {
            // The write may change what follows it in this very fragment: leave after it.
            // SAFETY: the slots belong to this thread.
            unsafe { (*thread.slots).pending = 1 };
            thread.stepping = true;
            context.set_trap_flag(true);
            context.hold_signals();
        }
        return;
    }
    let misaligned =
        signal == libc::SIGBUS && context.registers[libc::REG_TRAPNO as usize] == ALIGNMENT_CHECK;
    if misaligned && crate::own_failures::is_tools(pc, context.general(RSP)) {
        // The program has set its alignment-check flag, for which a tool's function is not made.
        thread.misaligned = true;
        context.registers[libc::REG_EFL as usize] &= !ALIGNMENT_FLAG;
        context.set_trap_flag(true);
        return;
    }
    if misaligned && let Some(slow_part) = crate::translate::ownership::check_fails_at(pc) {
        // The program has set its alignment-check flag, and a check has met two words at once.
        context.set_pc(slow_part);
        return;
    }
    // An empty entry of the branch table: the jump went to address 0.
    let branch = table_branch(pc).filter(|_| signal == libc::SIGSEGV);
    if let Some(branch) = branch {
        if branch == TableBranch::Crossing {
            // Another thread has met such a target here at the same time.
            return;
        }
        note_refusal(thread, process, context);
        let target = context.general(TARGET);
        let crosses = target >= LIBRARY_END && deliver::is_canonical(target);
        thread.crossing = Some(pc).filter(|_| pc != 0 && crosses);
        let way = match branch {
            TableBranch::Return => Way::Return,
            _ => Way::Jump,
        };
        context.set_pc(process.gates.miss(way, process.arrival()));
        return;
    }
    if !gates::in_cache(pc) {
        engine_fault_unless_recoverable(signal, info, context);
        return;
    }
    if is_memory_fault
        && (crate::trace::buffer_fault(thread, info[2])
            || crate::instrument::buffers::is_full(thread, info[2]))
    {
        // The buffer's guard page: leave, empty the buffer, and come back to this instruction.
        // SAFETY: the slots belong to this thread.
        unsafe { (*thread.slots).target = pc };
        save_raw(thread, context);
        leave(thread, &process.gates, exit::BUFFER_FULL, context);
        return;
    }
    if crate::own_failures::is_tools(pc, context.general(RSP)) {
        crate::own_failures::fault(signal, pc, context.general(RSP), info[2]);
        return;
    }
    program_fault(thread, signal, info, context);
}

/// Where the target of a branch is no address, the processor says so at the branch. The engine
/// comes to the target, and must know then where the branch was.
fn note_refusal(thread: &mut Thread, process: &Process, context: &Context) {
    let (pc, target) = (context.pc(), context.general(TARGET));
    if deliver::is_canonical(target) || !gates::in_cache(pc) {
        return;
    }
    thread.refused = Refused::by(&process.code().cache, pc, context.general(RSP), target);
}

/// The branch through the table that has faulted at `pc`.
fn table_branch(pc: u64) -> Option<TableBranch> {
    if pc == 0 {
        return Some(TableBranch::Jump);
    }
    let mut bytes = [0; 8];
    let known = gates::in_cache(pc) && guarded::read(pc, &mut bytes);
    TableBranch::of(bytes).filter(|_| known)
}

/// A fault at a translated instruction: the program gets it with the context of the original.
fn program_fault(thread: &mut Thread, signal: i32, info: &[u64; 16], context: &mut Context) {
    let process = Process::get();
    let pc = context.pc();
    let code = process.code();
    let after_trap = signal == libc::SIGTRAP && code.cache.position(pc - 1).is_some();
    let at = if after_trap { pc - 1 } else { pc };
    let Some(position) = code.cache.position(at) else {
        drop(code);
        crate::own_failures::fault(signal, pc, context.general(RSP), info[2]);
        return;
    };
    save_program(thread, &code.cache, at, position, context);
    crate::instrument::leave_midway(&code.cache, position, after_trap);
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
    }
    let registers = &context.registers;
    let fault = [libc::REG_ERR, libc::REG_TRAPNO, libc::REG_CR2]
        .map(|index| registers[index as usize] as u64);
    let fault = PendingSignal {
        number: signal,
        info,
        fault: Some(fault),
    };
    crate::debug::forget_touches(thread);
    // Another signal may be on its way to the next boundary.
    deliver::put_first(thread, fault);
    // SAFETY: the slots belong to this thread.
    unsafe { (*thread.slots).pending = 1 };
    leave(thread, &process.gates, exit::INTERRUPTED, context);
}

fn asynchronous(thread: &mut Thread, signal: i32, info: &[u64; 16], context: &mut Context) {
    if signal == libc::SIGPIPE && thread.writing {
        // The reader of the trace has gone; the write's own error says so.
        return;
    }
    thread.signal = Some(PendingSignal {
        number: signal,
        info: crate::seccomp::as_the_program_sees_it(thread, signal, info),
        fault: None,
    });
    context.hold_signals();
    take_out(thread, context);
}

/// Brings the thread out of the cache, or sees to it that it does not go in.
fn take_out(thread: &mut Thread, context: &mut Context) {
    let gates = &Process::get().gates;
    let pc = context.pc();
    // SAFETY: the slots belong to this thread.
    unsafe { (*thread.slots).pending = 1 };
    if (gates.system_call_start..=gates.system_call_instruction).contains(&pc) {
        context.set_pc(gates.system_call_interrupted);
    } else if (gates.enter_start..gates.enter_end).contains(&pc) {
        context.set_pc(gates.bail);
    } else if (gates.acquire_return..gates.acquire_end).contains(&pc) {
        context.set_pc(gates.acquire_return);
    } else if (gates.call_return..gates.call_end).contains(&pc) {
        context.set_pc(gates.call_return);
    } else if in_translated_code(gates, pc) {
        context.hold_signals();
        leave_or_step(thread, context);
    }
}

fn in_translated_code(gates: &Gates, pc: u64) -> bool {
    gates::in_cache(pc) && pc >= crate::layout::CACHE_BASE + gates::GATES_SIZE
        || gates.is_missing(pc)
}

/// One instruction of the cache has been executed since the last look.
fn step(thread: &mut Thread, context: &mut Context) {
    if thread.trap_flag && !context.trap_flag() {
        // The instruction was the program's `popf`, and has taken its trap flag away.
        thread.trap_flag = false;
        thread.trap_due.program = true;
    }
    if std::mem::take(&mut thread.pushes_flags) {
        let second_byte = context.registers[libc::REG_RSP as usize] as u64 + 1;
        let mut byte = [0];
        if guarded::read(second_byte, &mut byte) {
            let _ = guarded::write(second_byte, &[byte[0] & !((TRAP_FLAG >> 8) as u8)]);
        }
    }
    let gates = &Process::get().gates;
    if in_translated_code(gates, context.pc()) {
        leave_or_step(thread, context);
    } else if !(gates.enter_start..gates.enter_end).contains(&context.pc()) {
        // The thread reached the exit gate by itself: what is pending will be seen.
        // SAFETY: the slots belong to this thread.
        unsafe { (*thread.slots).pending = 1 };
        thread.stepping = false;
        if thread.step_from == 0 {
            thread.trap_due.program |= thread.trap_flag;
            thread.trap_due.debugger |= thread.debug.step;
        }
        context.set_trap_flag(false);
    }
}

fn leave_or_step(thread: &mut Thread, context: &mut Context) {
    let process = Process::get();
    let pc = context.pc();
    let code = process.code();
    let position = code.cache.position(pc).filter(|position| {
        // A program that single-steps has not executed a first round yet.
        let may_be_left = !thread.is_stepped() && thread.debug.touches.is_empty();
        position.boundary
            || may_be_left
                && (crate::trace::is_between_rounds(&code.cache, pc, position)
                    || repeats(thread, &code.cache, pc, position))
    });
    // A program that single-steps has not executed the instruction yet.
    let starts = thread.is_stepped() && thread.step_from == pc && thread.signal.is_none();
    if let (Some(position), true) = (position, starts) {
        thread.step_from = if position.prologue {
            code.cache.prologue_end(position.fragment)
        } else {
            0
        };
    }
    if let (Some(position), false) = (position, starts) {
        save_program(thread, &code.cache, pc, position, context);
        crate::instrument::leave_midway(&code.cache, position, false);
        drop(code);
        crate::debug::stepped(thread);
        if thread.trap_flag && thread.signal.is_none() {
            thread.signal = Some(deliver::single_step(position.pc));
        }
        // SAFETY: the slots belong to this thread.
        unsafe { (*thread.slots).pending = 1 };
        thread.stepping = false;
        context.set_trap_flag(false);
        leave(thread, &process.gates, exit::INTERRUPTED, context);
    } else {
        drop(code);
        thread.stepping = true;
        thread.pushes_flags = !thread.trap_flag && pushes_flags(pc);
        context.set_trap_flag(true);
    }
}

/// Whether a thread can be left at a repeated string instruction of a program that a tool
/// observes. What is inserted before it has been done, and will be done again: so only if it is
/// long, after many rounds.
fn repeats(thread: &mut Thread, cache: &crate::cache::Cache, pc: u64, position: &Position) -> bool {
    /// To single-step them takes about a millisecond.
    const MANY: u32 = 1000;
    if !crate::instrument::is_between_rounds(cache, pc, position) {
        thread.repeating = (0, 0);
        return false;
    }
    let (at, rounds) = thread.repeating;
    thread.repeating = (pc, if at == pc { rounds + 1 } else { 0 });
    if thread.repeating.1 < MANY {
        return false;
    }
    thread.repeating = (0, 0);
    true
}

/// Whether the instruction at a place in the cache is `pushf`, whatever its prefixes.
fn pushes_flags(pc: u64) -> bool {
    const PUSHF: u8 = 0x9c;
    let mut bytes = [0; crate::decode::MAX_LENGTH];
    let is_prefix = |byte: &u8| {
        matches!(
            byte,
            0x66 | 0x67 | 0x40..=0x4f | 0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0xf2 | 0xf3
        )
    };
    // The cache does not end behind an instruction.
    guarded::read(pc, &mut bytes) && bytes.iter().find(|byte| !is_prefix(byte)) == Some(&PUSHF)
}

/// Puts the registers into the slots as they are, borrowed or not.
fn save_raw(thread: &mut Thread, context: &Context) {
    for register in 0..16 {
        thread.set_register(register, context.general(register));
    }
    // SAFETY: the slots belong to this thread.
    unsafe {
        (*thread.slots).flags = (context.registers[libc::REG_EFL as usize] & !TRAP_FLAG) as u64
    };
}

/// Puts the program's state at a position of the cache into the slots.
fn save_program(
    thread: &mut Thread,
    cache: &crate::cache::Cache,
    at: u64,
    position: Position,
    context: &Context,
) {
    save_raw(thread, context);
    crate::trace::leave_midway(thread, cache, at, position);
    crate::instrument::keep_position(thread, cache, at, position);
    for loan in cache.loans_at(position.fragment, at) {
        thread.return_loan(loan);
    }
    thread.set_pc(position.pc);
    crate::instrument::leave_repetition(cache, at, &position);
}

/// Makes the interrupted thread go on at the exit gate, whose state is already in the slots.
fn leave(thread: &mut Thread, gates: &Gates, why: u32, context: &mut Context) {
    // SAFETY: the slots belong to this thread.
    unsafe {
        thread.pushes_flags = false;
        if std::mem::take(&mut thread.stepping) {
            // What the steps were to lead to is still to be done.
            context.set_trap_flag(false);
            (*thread.slots).pending = 1;
        }
        (*thread.slots).exit = u64::from(why);
        context.registers[libc::REG_RSP as usize] = (*thread.slots).host_stack as i64;
    }
    context.set_pc(gates.exit_saved);
    context.hold_signals();
}
