//! The loop in which a thread alternates between the cache and the engine.

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::cache::CacheFull;
use unspool_code_cache::emit::gpr;
use unspool_code_cache::exit::{ExitIndex, ExitKind, Reason, Version, Way};
use unspool_instructions::decode::Kind;
use unspool_kernel::{guarded, race_windows};

use crate::annotation::Annotation;
use crate::client;
use crate::process::{Process, Translations};
use crate::signal_handling::deliver;
use crate::syscalls;
use crate::thread::{AddressSpaceRole, Refused, Thread};
use crate::threads;
use crate::translate::{self, Source, Wanted};
use crate::{code_pages, detach, finish, flush, x87_pointers};

/// Runs the program's code in this thread, from the state in its slots, until the thread
/// (or, after `vfork`, the child) ends. Returns its exit status.
pub(crate) fn run(thread: &mut Thread) -> i32 {
    let process = thread.process;
    let mut entry = None;
    loop {
        if let Some(status) = thread.exit_status.take() {
            return status;
        }
        let pending = thread.is_pending();
        if let (true, Some((target, Resume::MidFragment))) = (pending, entry) {
            step_out(thread);
            entry = enter(process, thread, target, Resume::MidFragment);
            if entry.is_none() {
                flush::leave(thread);
            }
            continue;
        }
        if pending {
            if process.is_ending() && thread.role == AddressSpaceRole::Process {
                threads::park(thread);
            }
            thread.clients().each(|client| client.interrupted(thread));
            trap(thread);
            deliver::deliver(thread);
            entry = None;
            detach::at_safe_point(thread);
        }
        let is_mid_fragment = matches!(entry, Some((_, Resume::MidFragment)));
        if thread.steps.due.is_due() && !is_mid_fragment {
            flush::leave(thread);
            trap(thread);
            deliver::deliver(thread);
            entry = None;
            continue;
        }
        let (target, resume) = entry.take().unwrap_or_else(|| {
            flush::enter(thread);
            if flush::is_wanted(process) {
                flush::flush(process, thread);
            }
            (enter_at(process, thread), Resume::Entry)
        });
        if thread.is_stepped() && resume == Resume::Entry {
            step_program(thread, target);
        }
        entry = enter(process, thread, target, resume);
        if entry.is_none() {
            flush::leave(thread);
        }
    }
}

/// What the slots hold where a thread goes on in the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resume {
    /// The program's state: the place is an entry.
    Entry,
    /// The registers of a fragment in the middle, some of them spilled.
    MidFragment,
}

/// Enters the cache and handles the exit. Returns where to enter again, if that is known.
fn enter(
    process: &'static Process,
    thread: &mut Thread,
    target: CacheAddress,
    resume: Resume,
) -> Option<(CacheAddress, Resume)> {
    if resume == Resume::Entry {
        thread.slots().keep_target();
    }
    race_windows::widen();
    thread.lend_to_handlers();
    race_windows::widen();
    // SAFETY: `target` is the translation of the program counter, or the place in the
    // cache at which the state in the slots was taken.
    unsafe {
        thread.slots().set_target(target);
        process.gates.enter();
        if thread.slots().reason() == Reason::PENDING && resume == Resume::MidFragment {
            // The cache was not entered: the slots are what they were.
            return Some((target, resume));
        }
    }
    let entry = leave(process, thread);
    if let Some((_, Resume::MidFragment)) = entry {
        thread.steps.goes_on_mid_fragment();
    }
    entry
}

/// Something is pending, but the thread is in the middle of a fragment: it is single-stepped
/// to the next boundary between instructions, where its state is the program's.
fn step_out(thread: &mut Thread) {
    thread.steps.step_out();
    thread.set_pending(false);
    thread
        .slots()
        .flags
        .update(|flags| flags | crate::signals::TRAP_FLAG);
}

/// Gives the trap behind an instruction, if one is due.
fn trap(thread: &mut Thread) {
    let due = std::mem::take(&mut thread.steps.due);
    if due.debugger {
        thread.clients().each(|client| client.stepped(thread));
    }
    if due.program {
        let trap = deliver::single_step(thread.pc());
        thread.delivery.put_first(trap);
    }
}

/// The program has set its trap flag, or a debugger steps it: it gets a signal behind the
/// instruction at the program counter, whose translation is at `target`.
fn step_program(thread: &mut Thread, target: CacheAddress) {
    // The way there is stepped through too: signals that come faster would stop it for ever.
    crate::signals::block_all();
    thread.steps.step_over(target);
    thread
        .slots()
        .flags
        .update(|flags| flags | crate::signals::TRAP_FLAG);
}

/// Handles the exit that was just taken. Returns where to enter again, if that is known.
fn leave(process: &'static Process, thread: &mut Thread) -> Option<(CacheAddress, Resume)> {
    let reason = thread.slots().reason();
    let crossing = std::mem::take(&mut thread.crossing);
    race_windows::widen();
    match reason {
        Reason::PENDING | Reason::INTERRUPTED => None,
        Reason::CALL_INTERRUPTED => Some((thread.slots().target(), Resume::MidFragment)),
        Reason::INDIRECT => Some((
            after_indirect(process, thread, crossing, Way::Jump),
            Resume::Entry,
        )),
        Reason::INDIRECT_RETURN => Some((
            after_indirect(process, thread, crossing, Way::Return),
            Resume::Entry,
        )),
        Reason::BUFFER_FULL => {
            thread.clients().each(|client| client.empty_buffers(thread));
            let target = thread.slots().target();
            // The guard page's fault had blocked signals.
            crate::signal_handling::open(thread);
            Some((target, Resume::MidFragment))
        }
        _ => {
            let index = reason.exit_index().expect("gates give no other reasons");
            leave_fragment(process, thread, index)
        }
    }
}

fn leave_fragment(
    process: &'static Process,
    thread: &mut Thread,
    index: ExitIndex,
) -> Option<(CacheAddress, Resume)> {
    let mut code = process.code();
    let exit = *code.cache.exit(index);
    thread.set_pc(exit.target);
    match exit.kind() {
        ExitKind::Direct => {
            thread.restore_binding(exit.binding);
            code_pages::check(&mut code, exit.target);
            if let Some(entry) = code.cache.link_exit(index) {
                return Some((entry.cache, Resume::Entry));
            }
            let Ok(target) = translate_at(process, &mut code, exit.target, false) else {
                drop(code);
                flush::flush(process, thread);
                return Some((enter_at(process, thread), Resume::Entry));
            };
            code.cache.link_exit(index);
            Some((target, Resume::Entry))
        }
        ExitKind::Version(version) => {
            thread.restore_binding(exit.binding);
            code_pages::check_version(&mut code, exit.target, version);
            // What is done where the code is reached has been done.
            if let Some(entry) = code.cache.link_exit(index) {
                return Some((entry.cache, Resume::MidFragment));
            }
            if let Ok(target) = translate_version(process, &mut code, exit.target, version) {
                code.cache.link_exit(index);
                return Some((target, Resume::MidFragment));
            }
            drop(code);
            Some((version_at(process, thread, version), Resume::MidFragment))
        }
        ExitKind::SystemCall => {
            drop(code);
            flush::leave(thread);
            if thread.is_stepped() {
                if !thread.has_signal() {
                    // Only the trap behind the call is pending, and does not keep it from being made.
                    thread.set_pending(false);
                }
                crate::signal_handling::open(thread);
            }
            syscalls::system_call(process, thread, run);
            None
        }
        ExitKind::FlagsPopped => {
            drop(code);
            // The handler has noticed a trap flag that was set.
            thread.steps.flags_popped(thread.single_step);
            None
        }
        ExitKind::X87StateStored { length } => {
            drop(code);
            x87_pointers::correct_stored(process, thread, length);
            None
        }
        ExitKind::CleanCall(call) => {
            drop(code);
            let mut all = thread.clients().iter();
            let target = all.find_map(|client| client.clean_call(thread, call, &exit));
            target.map(|target| (target, Resume::MidFragment))
        }
        ExitKind::Annotation => {
            drop(code);
            if let Some(said) = Annotation::marked(thread) {
                detach::annotated(thread, said);
            }
            None
        }
        ExitKind::Function => {
            drop(code);
            let mut all = thread.clients().iter();
            if all.any(|client| client.starts_anew(thread, exit.target)) {
                return None;
            }
            thread
                .clients()
                .each(|client| client.control_reaches(thread, exit.target));
            Some((exit.stub, Resume::MidFragment))
        }
        ExitKind::Call { completed } => {
            drop(code);
            let back = exit.stub;
            let mut all = thread.clients().iter();
            if !all.any(|client| client.calls(thread)) {
                return Some((back, Resume::MidFragment));
            }
            let code = process.code();
            if let Some(position) = code.cache.position(back) {
                thread
                    .clients()
                    .each(|client| client.redirected(thread, position, completed));
            }
            None
        }
        ExitKind::Redirected => {
            drop(code);
            thread.clients().each(|client| client.redirects(thread));
            None
        }
        ExitKind::Emulate => {
            drop(code);
            finish::unsupported_instruction(thread, exit.target)
        }
        ExitKind::Unfetchable if code.cache.stops.contains(&exit.target) => {
            drop(code);
            let mut all = thread.clients().iter();
            if all.any(|client| client.stops_at_breakpoint(thread)) {
                return None;
            }
            Some((pass_breakpoint(process, thread), Resume::Entry))
        }
        ExitKind::Unfetchable => {
            // What was found then may have changed: look again.
            code.cache
                .invalidate(exit.target..exit.target.saturating_add(1));
            let executable = code.regions.executable_length(exit.target);
            drop(code);
            flush::leave(thread);
            if syscalls::enter_vsyscall(process, thread, run) {
                return None;
            }
            unfetchable(thread, exit.target, executable);
            None
        }
    }
}

/// The thread is at a breakpoint that is not for it: translates what is there for this once.
fn pass_breakpoint(process: &'static Process, thread: &mut Thread) -> CacheAddress {
    loop {
        let pc = thread.pc();
        let mut code = process.code();
        code.cache.passing = Some(pc);
        let wanted = Wanted {
            pc,
            by_indirect_branch: false,
            version: None,
        };
        let done = translate_code(process, &mut code, wanted);
        code.cache.passing = None;
        if done.is_ok() {
            return code.cache.passed;
        }
        drop(code);
        flush::flush(process, thread);
    }
}

/// Code could not be fetched at `pc`; `executable` bytes from there on are mapped for it.
fn unfetchable(thread: &mut Thread, pc: u64, executable: u64) {
    if !deliver::is_canonical(pc) {
        go_back_to_branch(thread);
        thread.delivery.put_first(deliver::protection_fault());
        deliver_fault(thread);
        return;
    }
    let mut bytes = [0; unspool_instructions::decode::MAX_LENGTH];
    let length = executable.min(bytes.len() as u64) as usize;
    // A thread of the program's may have to serve what is read here.
    client::begin_wait(thread);
    let readable = guarded::read(pc, &mut bytes[..length]);
    client::end_wait(thread);
    let mapped = thread
        .process
        .code()
        .regions
        .find(pc + length as u64)
        .is_some();
    let reason = if mapped { SEGV_ACCERR } else { SEGV_MAPERR };
    let (signal, reason, address) = match unspool_instructions::decode::decode(&bytes[..length], pc)
    {
        // Mapped but not there: the file behind the mapping is too short.
        _ if length != 0 && !readable => (libc::SIGBUS, libc::BUS_ADRERR, pc),
        Ok(_) if length != 0 => return,
        _ => (libc::SIGSEGV, reason, pc + length as u64),
    };
    // Of the kernel's half, the kernel says that everything is there.
    let present = address >= USER_END || is_present(thread.process, address);
    let error = FETCH_BY_USER | if present { PRESENT } else { 0 };
    let fault = deliver::synthetic_fault(signal, reason, address, error);
    thread.delivery.put_first(fault);
    deliver_fault(thread);
}

fn deliver_fault(thread: &mut Thread) {
    // The processor sets RF in the flags that it saves for a fault.
    thread.slots().flags.update(|flags| flags | RESUME_FLAG);
    deliver::deliver(thread);
}

/// An indirect branch has come to the program counter. If no address can be that, and the branch
/// went through a chain, finds out where the branch was: the processor refuses it there.
fn note_refusal(process: &Process, thread: &mut Thread) {
    let target = thread.pc();
    let noted = thread
        .refused
        .is_some_and(|refused| refused.target == target);
    if !noted && !deliver::is_canonical(target) {
        let stack = thread.register(gpr::RSP);
        thread.refused = thread
            .slots()
            .branch()
            .and_then(|branch| Refused::by(&process.code().cache, branch, stack, target));
    }
}

/// The program counter is the target of a branch that the processor refuses: undoes the branch,
/// if it is known where it was. What a call has pushed stays below the stack.
fn go_back_to_branch(thread: &mut Thread) {
    let target = thread.pc();
    let refused = thread.refused.take();
    let Some(refused) = refused.filter(|refused| refused.target == target) else {
        return;
    };
    let mut bytes = [0; unspool_instructions::decode::MAX_LENGTH];
    let length = guarded::read_short(refused.branch, &mut bytes);
    let Ok(branch) = unspool_instructions::decode::decode(&bytes[..length], refused.branch) else {
        return;
    };
    let moved = match branch.kind {
        Kind::Return { pop } => 8 + u64::from(pop),
        Kind::CallIndirect => 8_u64.wrapping_neg(),
        _ => 0,
    };
    let stack = thread.register(gpr::RSP).wrapping_sub(moved);
    thread.set_register(gpr::RSP, stack);
    thread.set_pc(refused.branch);
}

/// Whether a page that may be accessed is there, and only its execution is forbidden.
fn is_present(process: &Process, address: u64) -> bool {
    const PAGE: u64 = 4096;
    let accessible = process
        .code()
        .regions
        .find(address)
        .is_some_and(|(_, region)| region.protection & (libc::PROT_READ | libc::PROT_WRITE) != 0);
    let mut resident = 0_u8;
    let page = address & !(PAGE - 1);
    // SAFETY: asks about one page, and there is room for one answer.
    let known = unsafe { libc::mincore(page as *mut libc::c_void, 1, &raw mut resident) } == 0;
    accessible && known && resident & 1 != 0
}

/// The error code of page faults: an instruction fetch in user mode.
const FETCH_BY_USER: u64 = 0x14;
/// The page was there, but the access was not allowed.
const PRESENT: u64 = 1;
/// The end of what user mode can map.
const USER_END: u64 = 0x7fff_ffff_f000;
const RESUME_FLAG: u64 = 0x1_0000;

const SEGV_MAPERR: i32 = 1;
const SEGV_ACCERR: i32 = 2;

/// An indirect branch has come to the program counter, of which the cache knew nothing. If it was
/// made by an instruction that only knows of the branch table, which does not cover the target,
/// that is at `crossing`.
fn after_indirect(
    process: &'static Process,
    thread: &mut Thread,
    crossing: Option<CacheAddress>,
    way: Way,
) -> CacheAddress {
    let pc = thread.pc();
    let known = {
        let cache = &mut process.code().cache;
        if let Some(branch) = crossing {
            cache.lead_through_chains(branch);
        }
        cache.is_in_table(pc)
    };
    note_refusal(process, thread);
    let entry = find_or_translate(process, thread, pc, true);
    process.code().cache.add_target_stub(pc, way, known);
    entry
}

/// Where to enter the cache for the program counter.
fn enter_at(process: &'static Process, thread: &mut Thread) -> CacheAddress {
    let pc = thread.pc();
    find_or_translate(process, thread, pc, false)
}

/// Where the cache is entered for `pc`; with `by_indirect_branch` an indirect branch has just come there.
fn find_or_translate(
    process: &'static Process,
    thread: &mut Thread,
    pc: u64,
    by_indirect_branch: bool,
) -> CacheAddress {
    loop {
        let mut code = process.code();
        code_pages::check(&mut code, pc);
        if let Some(entry) = code.cache.entry_anywhere(pc) {
            return entry.cache;
        }
        if let Ok(target) = translate_at(process, &mut code, pc, by_indirect_branch) {
            return target;
        }
        drop(code);
        flush::flush(process, thread);
    }
}

/// Translates the code at `pc`; with `by_indirect_branch` an indirect branch has just come there.
fn translate_at(
    process: &'static Process,
    code: &mut Translations,
    pc: u64,
    by_indirect_branch: bool,
) -> Result<CacheAddress, CacheFull> {
    let wanted = Wanted {
        pc,
        by_indirect_branch,
        version: None,
    };
    translate_code(process, code, wanted)?;
    let entry = code.cache.entry(pc);
    let entry = entry.expect("a translation has an entry at its first instruction");
    let target = entry.cache;
    code_pages::remember(code, pc, target);
    Ok(target)
}

/// Translates a version of the code at `pc`, of which there is a fragment with the other one.
fn translate_version(
    process: &'static Process,
    code: &mut Translations,
    pc: u64,
    version: Version,
) -> Result<CacheAddress, CacheFull> {
    let wanted = Wanted {
        pc,
        by_indirect_branch: false,
        version: Some(version),
    };
    translate_code(process, code, wanted)?;
    let entry = code.cache.version(pc, version);
    let entry = entry.expect("a translation has an entry at its first instruction");
    let target = entry.cache;
    code_pages::remember(code, pc, target);
    Ok(target)
}

/// Where to go on for the program counter in this version of the code there, where the cache was full.
fn version_at(process: &'static Process, thread: &mut Thread, version: Version) -> CacheAddress {
    let pc = thread.pc();
    loop {
        flush::flush(process, thread);
        if let Ok(target) = translate_version(process, &mut process.code(), pc, version) {
            return target;
        }
    }
}

fn translate_code(
    process: &'static Process,
    code: &mut Translations,
    wanted: Wanted,
) -> Result<(), CacheFull> {
    let pc = wanted.pc;
    let end = code_pages::watch(code, pc);
    let Translations { cache, regions, .. } = code;
    let source = Source {
        regions,
        vdso: process.vdso,
        end,
    };
    let inserters = process.clients.inserters(pc)?;
    if inserters.is_empty() {
        return translate::plain::translate(cache, &source, pc, wanted.by_indirect_branch);
    }
    translate::insertion::translate(inserters, cache, &source, wanted)
}
