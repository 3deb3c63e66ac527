//! The loop in which a thread alternates between the cache and the engine.

use crate::cache::CacheFull;
use crate::exit::{self, ExitKind};
use crate::process::{Code, Process};
use crate::signals::deliver;
use crate::syscalls;
use crate::thread::{Place, Thread};
use crate::translate::{self, Source};
use crate::{code_pages, finish, flush, guarded, trace};

/// Runs the program's code in this thread, from the state in its slots, until the thread
/// (or, after `vfork`, the child) ends. Returns its exit status.
pub fn run(thread: &mut Thread) -> i32 {
    let process = Process::get();
    let mut entry = None;
    loop {
        // SAFETY: the slots belong to this thread.
        let pending = unsafe { (*thread.slots).pending != 0 };
        if let (true, Some((target, Resume::Midway))) = (pending, entry) {
            step_out(thread);
            entry = enter(process, thread, target, Resume::Midway);
            if entry.is_none() {
                flush::leave(thread);
            }
            continue;
        }
        if pending {
            if process.is_ending() && thread.place == Place::Process {
                finish::park(thread);
            }
            trace::interrupted(thread);
            deliver::deliver(thread);
            entry = None;
        }
        if let Some(status) = thread.exit_status.take() {
            return status;
        }
        let (target, resume) = entry.take().unwrap_or_else(|| {
            flush::enter(thread);
            (enter_at(process, thread), Resume::Entry)
        });
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
    /// The registers of a fragment in the middle, some of them borrowed.
    Midway,
}

/// Enters the cache and handles the exit. Returns where to enter again, if that is known.
fn enter(
    process: &'static Process,
    thread: &mut Thread,
    target: u64,
    resume: Resume,
) -> Option<(u64, Resume)> {
    // SAFETY: `target` is the translation of the program counter, or the place in the
    // cache at which the state in the slots was taken.
    unsafe {
        (*thread.slots).target = target;
        process.gates.enter();
        if (*thread.slots).exit as u32 == exit::PENDING && resume == Resume::Midway {
            // The cache was not entered: the slots are what they were.
            return Some((target, resume));
        }
    }
    leave(process, thread)
}

/// Something is pending, but the thread is in the middle of a fragment: it is single-stepped
/// to the next boundary between instructions, where its state is the program's.
fn step_out(thread: &mut Thread) {
    const TRAP_FLAG: u64 = 0x100;
    thread.stepping = true;
    // SAFETY: the slots belong to this thread.
    unsafe {
        (*thread.slots).pending = 0;
        (*thread.slots).flags |= TRAP_FLAG;
    }
}

/// Handles the exit that was just taken. Returns where to enter again, if that is known.
fn leave(process: &'static Process, thread: &mut Thread) -> Option<(u64, Resume)> {
    // SAFETY: the slots belong to this thread.
    let id = unsafe { (*thread.slots).exit as u32 };
    match id {
        exit::PENDING | exit::INTERRUPTED => None,
        exit::INDIRECT => Some((after_indirect(process, thread), Resume::Entry)),
        exit::BUFFER_FULL => {
            trace::empty_buffer(thread);
            // SAFETY: the slots belong to this thread.
            let target = unsafe { (*thread.slots).target };
            // The guard page's fault had blocked signals.
            if thread.signal.is_none() {
                crate::signals::set_kernel_mask(thread.mask);
            }
            Some((target, Resume::Midway))
        }
        _ => leave_fragment(process, thread, id),
    }
}

fn leave_fragment(
    process: &'static Process,
    thread: &mut Thread,
    id: u32,
) -> Option<(u64, Resume)> {
    let mut code = process.code();
    let exit = *code.cache.exit(id);
    thread.set_pc(exit.target);
    match exit.kind {
        ExitKind::Direct => {
            code_pages::check(&mut code, exit.target);
            if let Some(entry) = code.cache.link_exit(id) {
                return Some((u64::from(entry.cache), Resume::Entry));
            }
            let Ok(target) = translate_at(process, &mut code, exit.target, false) else {
                drop(code);
                flush::flush(process, thread);
                return Some((enter_at(process, thread), Resume::Entry));
            };
            code.cache.link_exit(id);
            Some((target, Resume::Entry))
        }
        ExitKind::SystemCall => {
            drop(code);
            flush::leave(thread);
            syscalls::system_call(process, thread);
            None
        }
        ExitKind::Service => {
            drop(code);
            trace::service(thread, &exit).map(|target| (target, Resume::Midway))
        }
        ExitKind::Annotation => {
            drop(code);
            trace::annotation(thread);
            None
        }
        ExitKind::Function => {
            drop(code);
            trace::function(thread, exit.target);
            Some((u64::from(exit.stub), Resume::Midway))
        }
        ExitKind::Emulate => {
            drop(code);
            finish::unsupported_instruction(thread, exit.target)
        }
        ExitKind::Unfetchable => {
            // What was found then may have changed: look again.
            code.cache.invalidate(exit.target..exit.target + 1);
            let executable = code.regions.executable_length(exit.target);
            drop(code);
            unfetchable(thread, exit.target, executable);
            None
        }
    }
}

/// Code could not be fetched at `pc`; `executable` bytes from there on are mapped for it.
fn unfetchable(thread: &mut Thread, pc: u64, executable: u64) {
    let mut bytes = [0; crate::decode::MAX_LENGTH];
    let length = executable.min(bytes.len() as u64) as usize;
    let readable = guarded::read(pc, &mut bytes[..length]);
    let mapped = Process::get()
        .code()
        .regions
        .find(pc + length as u64)
        .is_some();
    let reason = if mapped { SEGV_ACCERR } else { SEGV_MAPERR };
    let (signal, reason, address) = match crate::decode::decode(&bytes[..length], pc) {
        // Mapped but not there: the file behind the mapping is too short.
        _ if length != 0 && !readable => (libc::SIGBUS, libc::BUS_ADRERR, pc),
        Ok(_) if length != 0 => return,
        _ => (libc::SIGSEGV, reason, pc + length as u64),
    };
    thread.signal = Some(deliver::synthetic_fault(signal, reason, address));
    deliver::deliver(thread);
}

const SEGV_MAPERR: i32 = 1;
const SEGV_ACCERR: i32 = 2;

fn after_indirect(process: &'static Process, thread: &mut Thread) -> u64 {
    let pc = thread.pc();
    let entry = find_or_translate(process, thread, pc, true);
    process.code().cache.thunk(pc);
    entry
}

/// Where to enter the cache for the program counter.
fn enter_at(process: &'static Process, thread: &mut Thread) -> u64 {
    let pc = thread.pc();
    find_or_translate(process, thread, pc, false)
}

/// Where the cache is entered for `pc`; with `arrival` an indirect branch has just come there.
fn find_or_translate(
    process: &'static Process,
    thread: &mut Thread,
    pc: u64,
    arrival: bool,
) -> u64 {
    loop {
        let mut code = process.code();
        code_pages::check(&mut code, pc);
        if let Some(entry) = code.cache.entry_anywhere(pc) {
            return u64::from(entry.cache);
        }
        if let Ok(target) = translate_at(process, &mut code, pc, arrival) {
            return target;
        }
        drop(code);
        flush::flush(process, thread);
    }
}

/// Translates the code at `pc`; with `arrival` an indirect branch has just come there.
fn translate_at(
    process: &'static Process,
    code: &mut Code,
    pc: u64,
    arrival: bool,
) -> Result<u64, CacheFull> {
    code_pages::watch(code, pc);
    let Code { cache, regions, .. } = code;
    let source = Source {
        regions,
        vdso: process.vdso,
    };
    match &process.trace {
        None => translate::plain::translate(cache, &source, pc, arrival),
        Some(tracer) => trace::translate(tracer, cache, &source, pc),
    }?;
    code_pages::remember(code, pc);
    let entry = code.cache.entry(pc);
    let entry = entry.expect("a translation has an entry at its first instruction");
    Ok(u64::from(entry.cache))
}
