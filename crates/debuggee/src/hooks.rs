//! What the program's threads do for the debugger.

use std::os::fd::RawFd;
use unspool_engine::threads;

use unspool_code_cache::emit::gpr;
use unspool_kernel::diagnostics;
use unspool_kernel::ids::Tid;
use unspool_kernel::lock::Mutex;

use super::of_thread::{OF_THREAD, OfThread, kept};
use super::reason::Reason;
use super::registers::{IN_CALL, Registers};
use super::watch;
use super::world::{self, At, World, is_enabled, is_holding, lock};
use unspool_engine::call::{Call, SYSCALL_LENGTH};
use unspool_engine::flush;
use unspool_engine::process::Process;
use unspool_engine::signals::TRAP_FLAG;
use unspool_engine::thread::{AddressSpaceRole, PendingSignal, Thread};

/// Whether the debugger is concerned with a thread: a child between `vfork` and `execve` is
/// another process, though it shares the memory.
pub(super) fn concerns(thread: &Thread) -> bool {
    is_enabled() && thread.role == AddressSpaceRole::Process
}

/// A thread has ended.
pub(crate) fn thread_gone(tid: Tid) {
    if !is_enabled() {
        return;
    }
    let mut world = lock();
    if world.threads.remove(&tid).is_none() {
        return;
    }
    world::notify();
    let anybody = world.threads.values().any(|stand| stand.go);
    let other = world.threads.keys().next().copied();
    if let (false, false, true, Some(other)) = (world.stopped, anybody, world.attached, other) {
        world.stop_for(other, Reason::ThreadEnded);
    }
}

/// Whether a thread may go into the cache.
#[inline]
pub(crate) fn may_enter(thread: &Thread) -> bool {
    if !is_enabled() {
        return true;
    }
    let waits = is_holding() && !may_go(&mut lock(), thread);
    !waits && kept(thread).is_none_or(OfThread::has_nothing_to_tell)
}

fn may_go(world: &mut World, thread: &Thread) -> bool {
    match thread.role {
        AddressSpaceRole::Process => world.may_go(thread),
        AddressSpaceRole::VforkChild | AddressSpaceRole::SharedMemoryChild => !world.stopped,
    }
}

/// The thread is outside: waits until it may go in, after having told what it has to tell.
pub(crate) fn stop_here(thread: &mut Thread) {
    if !may_enter(thread) {
        watch::touched(thread);
        let event = OF_THREAD.of(thread).event.take();
        hold(thread, event);
    }
}

/// What became of an event.
enum Told {
    /// There was nobody to be told, or it is not so any more.
    No,
    /// The debugger knows. The thread gets this signal.
    Yes(Option<i32>),
}

/// Holds the thread, which is outside the cache with its state in place, as long as the debugger
/// wants, and tells of an event.
fn hold(thread: &mut Thread, event: Option<Reason>) -> Told {
    flush::leave(thread);
    if thread.role != AddressSpaceRole::Process {
        let mut world = lock();
        while world.stopped {
            world = world::wait(world);
        }
        return Told::No;
    }
    thread.single_step = false;
    thread.steps.due.debugger = false;
    thread.slots().flags.update(|flags| flags & !TRAP_FLAG);
    let offers = matches!(event, Some(Reason::Signal(_)));
    let mut told = Told::No;
    let mut event = event;
    let registers = Box::new(Registers::of(thread));
    let pc = registers.pc;
    let mut world = lock();
    let stand = world.stand(thread);
    (stand.at, stand.registers, stand.changed) = (At::Held, Some(registers), false);
    world::notify();
    loop {
        if world.may_go(thread) {
            let is_so = |reason: &Reason| is_still(&world, thread.tid, reason, pc);
            match event.take().filter(is_so) {
                Some(reason) if world.attached => {
                    world.stop_for(thread.tid, reason);
                    watch::told(thread, &world);
                    told = Told::Yes(None);
                }
                _ => break,
            }
        }
        world = world::wait(world);
        if thread.process.is_ending() {
            drop(world);
            threads::park(thread);
            world = lock();
        }
    }
    watch::told(thread, &world);
    let orders = world.stand(thread).go_on();
    drop(world);
    thread.single_step = orders.step;
    if let Some(registers) = orders.registers {
        go_on_with(thread, &registers, None);
    }
    match (&mut told, orders.signal) {
        (Told::Yes(passed), signal) if offers => *passed = signal,
        (_, Some(signal)) => inject(thread, signal),
        _ => {}
    }
    told
}

/// Registers that the debugger has changed become the thread's. If they say that the system call
/// in which the thread was goes on, it ends with `result`, or is made again without one.
fn go_on_with(thread: &mut Thread, registers: &Registers, result: Option<i64>) {
    registers.install(thread);
    if registers.call_goes_on() {
        let back = if result.is_none() { SYSCALL_LENGTH } else { 0 };
        thread.set_register(gpr::RAX, result.unwrap_or(registers.call) as u64);
        thread.set_pc(registers.pc.wrapping_sub(back));
    }
}

/// Whether what a thread wanted to tell is still so after it had to wait.
fn is_still(world: &World, tid: Tid, reason: &Reason, pc: u64) -> bool {
    let changed = world.threads.get(&tid).is_some_and(|stand| stand.changed);
    match reason {
        Reason::Breakpoint => !changed && world.breakpoints.contains(&pc),
        Reason::Step => !changed,
        _ => true,
    }
}

/// The thread gets a signal that the debugger has made up.
fn inject(thread: &mut Thread, number: i32) {
    thread.delivery.put_first(made_up(number));
    OF_THREAD.of(thread).seen = true;
    thread.set_pending(true);
}

fn made_up(number: i32) -> PendingSignal {
    let mut info = [0; 16];
    info[0] = number as u64;
    info[2] = u64::from(std::process::id());
    PendingSignal {
        number,
        info,
        fault: None,
        is_directed: false,
    }
}

/// The thread is about to get a signal. Returns what it gets instead.
pub(crate) fn offer(thread: &mut Thread, signal: PendingSignal) -> Option<PendingSignal> {
    if !concerns(thread) || std::mem::take(&mut OF_THREAD.of(thread).seen) {
        return Some(signal);
    }
    // What has happened comes before what is about to.
    watch::touched(thread);
    if let Some(event) = OF_THREAD.of(thread).event.take() {
        hold(thread, Some(event));
    }
    match hold(thread, Some(Reason::Signal(signal.number))) {
        Told::No => Some(signal),
        Told::Yes(passed) if passed == Some(signal.number) => Some(signal),
        Told::Yes(passed) => passed.map(made_up),
    }
}

/// The thread has executed an instruction.
pub(crate) fn stepped(thread: &mut Thread) {
    if std::mem::take(&mut thread.single_step) {
        OF_THREAD.of(thread).event.get_or_insert(Reason::Step);
    }
}

/// The thread is before an instruction with a breakpoint. Returns whether that is for it.
pub(crate) fn at_breakpoint(thread: &mut Thread) -> bool {
    if concerns(thread) {
        thread.single_step = false;
        thread.steps.due.debugger = false;
        OF_THREAD.of(thread).event.get_or_insert(Reason::Breakpoint);
        return true;
    }
    false
}

/// Stops the program at the calling thread's next boundary between instructions, because a
/// tool's function that it has called wants it; `reason` is told to the user of the debugger.
/// Nothing happens, and the result is false, where no debugger is there.
pub fn request_stop(reason: &str) -> bool {
    let thread = Thread::current();
    if thread.is_null() || !is_enabled() || !lock().attached {
        return false;
    }
    // SAFETY: the pointer is this thread's own, which runs a tool's function.
    unsafe {
        let wanted = Reason::Tool(reason.to_owned());
        OF_THREAD.of(&mut *thread).event.get_or_insert(wanted);
        (*thread).set_pending(true);
    }
    true
}

/// The thread makes a system call: its state is what it is before the kernel has done anything.
// The registers are large, and must not become part of every system call's frame.
#[inline(never)]
pub(crate) fn call_begins(thread: &Thread, call: &Call) {
    if !concerns(thread) {
        return;
    }
    let mut registers = Registers::of(thread);
    registers.call = call.number as i64;
    registers.general[usize::from(gpr::RAX)] = IN_CALL as u64;
    let mut world = lock();
    let stand = world.stand(thread);
    (stand.at, stand.changed, stand.resumed) = (At::Calling, false, false);
    stand.registers = Some(Box::new(registers));
    if world.stopped {
        world::notify();
    }
}

/// The system call is over, with its result if it has one, or is to be made again. Returns
/// whether the registers are already what they should be.
#[inline(never)]
pub(crate) fn call_ends(thread: &mut Thread, result: Option<i64>, restart: bool) -> bool {
    if !concerns(thread) {
        return false;
    }
    let mut world = lock();
    while !world.may_go(thread) && thread.exit_status.is_none() {
        world = world::wait(world);
        if thread.process.is_ending() {
            drop(world);
            threads::park(thread);
            world = lock();
        }
    }
    if thread.exit_status.is_none() {
        watch::call_is_over(thread, &world);
    }
    let stand = world.stand(thread);
    let resumed = stand.resumed;
    let orders = stand.go_on();
    drop(world);
    if resumed {
        thread.single_step = orders.step;
        thread.steps.due.debugger = false;
        stepped(thread);
    }
    if let Some(signal) = orders.signal {
        inject(thread, signal);
    }
    let (Some(registers), Some(result)) = (orders.registers, result) else {
        return false;
    };
    go_on_with(thread, &registers, (!restart).then_some(result));
    true
}

/// The process is about to end: not while it is stopped.
pub(crate) fn before_ending(thread: &Thread) {
    if !concerns(thread) {
        return;
    }
    let mut world = lock();
    while !world.may_go(thread) && !thread.process.is_ending() {
        world = world::wait(world);
    }
}

/// The process ends in a moment: the debugger is told before, for a bounded time.
pub(crate) fn ended(thread: &Thread, reason: Reason) {
    const ROUNDS: u32 = 40;
    if !concerns(thread) {
        return;
    }
    let mut world = lock();
    if !world.attached {
        return;
    }
    world.stop_for(thread.tid, reason);
    for _ in 0..ROUNDS {
        if world.told_end {
            return;
        }
        world = world::wait(world);
    }
}

/// The process is about to become another program, which goes on without the debugger.
pub(crate) fn execute(thread: &Thread) {
    before_ending(thread);
    if concerns(thread) && lock().attached {
        diagnostics::say(
            "the program executes another one, which the debugger does not follow: it goes on without",
        );
    }
}

/// In a forked child, which goes on without the debugger.
pub(crate) fn after_fork(process: &Process) {
    if !is_enabled() {
        return;
    }
    world::enable(false);
    let mut code = process.code();
    for stop in std::mem::take(&mut code.cache.stops) {
        code.cache.invalidate(stop..stop + 1);
    }
    if watch::forget_all() {
        code.cache.invalidate(0..u64::MAX);
    }
    drop(code);
    for file in files() {
        // SAFETY: the descriptors are the engine's, and of no use here.
        unsafe { libc::close(file) };
    }
    FILES.lock().clear();
}

/// Descriptors of the debugger's.
static FILES: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// Descriptors of the debugger's, which the program must not close.
pub(crate) fn files() -> Vec<RawFd> {
    FILES.lock().clone()
}

pub(super) fn protect(file: RawFd) {
    FILES.lock().push(file);
}

pub(super) fn unprotect(file: RawFd) {
    FILES.lock().retain(|&kept| kept != file);
}
