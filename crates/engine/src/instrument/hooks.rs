//! What the engine tells the tool.

use std::ffi::CString;
use std::io;
use std::path::Path;

use super::{Instrumenter, Signal, Trace, buffers, counters, samplers, world};
use crate::cache::{Cache, Position};
use crate::process::Process;
use crate::slots::{BORROWED_SPILLS, slots};
use crate::thread::{PendingSignal, Place, Thread};

/// Runs code of the tool: if it fails, the tool is to blame.
pub(super) fn in_tool<R>(run: impl FnOnce() -> R) -> R {
    // SAFETY: the slots belong to this thread.
    unsafe { (*slots()).in_tool = 1 };
    let result = run();
    // SAFETY: as above.
    unsafe { (*slots()).in_tool = 0 };
    result
}

/// The program is about to run: from now on nothing is added that threads have of their own.
///
/// # Errors
/// If there is no memory for it.
pub(crate) fn settle() -> io::Result<()> {
    buffers::settle();
    samplers::settle();
    if Instrumenter::get().is_some() {
        counters::settle()?;
        crate::own_failures::keep_reserve();
    }
    Ok(())
}

/// What the tool keeps for the calling thread.
pub(super) fn state(thread: &Thread) -> *mut () {
    // SAFETY: the slots belong to this thread.
    unsafe { (*thread.slots).tool_state as *mut () }
}

/// Asks the tool what to insert.
pub(crate) fn translate(instrumenter: &Instrumenter, trace: &Trace) {
    world::while_instrumenting(|| in_tool(|| instrumenter.tool.instrument(trace)));
}

/// The thread has left the cache for a call, whose function and arguments are in its slots, with
/// the program's whole state. Returns whether the function has had the program go on elsewhere.
pub(crate) fn call_with_context(thread: &Thread) -> bool {
    let slots = thread.slots;
    let place = thread.pc();
    // SAFETY: the slots belong to this thread; inserted code has put there the address of such a
    // function, and what it is to be called with.
    let result = in_tool(|| unsafe {
        let function: super::Function = std::mem::transmute((*slots).function as usize);
        let [first, second, third, fourth, ..] = (*slots).arguments;
        let (tool, state) = ((*slots).tool as *const (), state(thread));
        function(tool, state, first, second, third, fourth)
    });
    // SAFETY: as above.
    unsafe { (*slots).result = result };
    thread.pc() != place
}

/// The thread is about to run its first instruction.
pub(crate) fn thread_starts(thread: &Thread) {
    let Some(instrumenter) = Instrumenter::get() else {
        return;
    };
    if let Err(error) = counters::prepare() {
        crate::finish::fatal(&format!("no memory for a thread's counters: {error}"));
    }
    if let Err(error) = buffers::prepare() {
        crate::finish::fatal(&format!(
            "no memory for a thread's buffers: {error}\nhelp: have the tool make them smaller"
        ));
    }
    // SAFETY: the slots belong to this thread.
    unsafe { (*thread.slots).thread_number = u64::from(thread.number) };
    samplers::prepare(thread.number);
    let state = in_tool(|| instrumenter.tool.thread_starts(thread.number));
    // SAFETY: the slots belong to this thread.
    unsafe { (*thread.slots).tool_state = state as u64 };
}

/// The thread has run its last instruction; it is still listed.
pub(crate) fn thread_ends(thread: &Thread) {
    let Some(instrumenter) = Instrumenter::get() else {
        return;
    };
    if thread.place == Place::ParentsPlace {
        return;
    }
    buffers::hand_over_all();
    buffers::free();
    super::functions::thread_ends();
    // SAFETY: the slots belong to this thread, and the state in them to the tool.
    unsafe {
        let state = std::mem::take(&mut (*thread.slots).tool_state);
        let state = state as *mut ();
        in_tool(|| instrumenter.tool.thread_ends(thread.number, state));
    }
    let threads = Process::get().threads.lock();
    counters::keep();
    counters::free();
    drop(threads);
}

/// The process ends, or becomes another program: all other threads have ended.
pub(crate) fn conclude(thread: &Thread) {
    let Some(instrumenter) = Instrumenter::get() else {
        return;
    };
    thread_ends(thread);
    in_tool(|| instrumenter.tool.ends());
}

/// The process does not become another program after all. The other threads stand still.
pub(crate) fn goes_on(thread: &Thread) {
    if let Some(instrumenter) = Instrumenter::get() {
        in_tool(|| instrumenter.tool.goes_on());
        thread_starts(thread);
    }
}

/// The thread is about to make a copy of the process: entries are handed over here, not in both.
pub(crate) fn before_fork(thread: &Thread) {
    let Some(instrumenter) = Instrumenter::get() else {
        return;
    };
    buffers::hand_over_all();
    // SAFETY: the state is this thread's.
    in_tool(|| unsafe { instrumenter.tool.will_fork(state(thread)) });
}

/// In the parent: the copy has this id, or minus this error.
pub(crate) fn after_fork_in_parent(thread: &Thread, child: i64) {
    if let Some(instrumenter) = Instrumenter::get() {
        let child = u32::try_from(child).ok();
        // SAFETY: the state is this thread's.
        in_tool(|| unsafe { instrumenter.tool.has_forked(state(thread), child) });
    }
}

/// A signal is about to be delivered. Returns whether it is to be.
pub(crate) fn signal_comes(thread: &mut Thread, signal: &PendingSignal) -> bool {
    let Some(instrumenter) = Instrumenter::get() else {
        return true;
    };
    let state = state(thread);
    let mut signal = Signal::new(thread, signal);
    // SAFETY: the state is this thread's.
    in_tool(|| unsafe { instrumenter.tool.signal_comes(state, &mut signal) })
}

/// The process is about to become another program.
pub(crate) fn executes(thread: &Thread, program: &Path, arguments: &[CString]) {
    if let Some(instrumenter) = Instrumenter::get() {
        // SAFETY: the state is this thread's.
        in_tool(|| unsafe {
            instrumenter
                .tool
                .executes(state(thread), program, arguments)
        });
    }
}

/// There is no memory left: the process is about to end.
pub(crate) fn out_of_memory(bytes: usize) {
    if let Some(instrumenter) = Instrumenter::get() {
        instrumenter.tool.out_of_memory(bytes);
    }
}

/// In a forked child.
pub(crate) fn after_fork(thread: &Thread) {
    let Some(instrumenter) = Instrumenter::get() else {
        return;
    };
    counters::restart();
    // SAFETY: as above.
    unsafe {
        instrumenter
            .tool
            .forked((*thread.slots).tool_state as *mut ())
    };
}

/// No translation is left.
pub(crate) fn translations_gone() {
    if let Some(instrumenter) = Instrumenter::get() {
        instrumenter.forget_fragments();
    }
}

/// Whether a place in the cache is that of a repeated string instruction: between two of its
/// rounds the state is the program's, as at a fault in its middle.
pub(crate) fn is_between_rounds(cache: &Cache, at: u64, position: &Position) -> bool {
    let fragment = cache.fragment(position.fragment).trace;
    Instrumenter::get()
        .filter(|_| fragment != 0)
        .is_some_and(|instrumenter| {
            instrumenter.with_fragment(fragment, |fragment| {
                fragment
                    .repetitions
                    .iter()
                    .any(|&place| u64::from(place) == at)
            })
        })
}

/// The thread is brought out at a place in the cache, with the program's registers in its slots.
pub(crate) fn leave_repetition(cache: &Cache, at: u64, position: &Position) {
    if is_between_rounds(cache, at, position) {
        super::repetitions::leave();
    }
}

/// A fragment is left in its middle: what is in a register of a buffer goes to its slot. To be
/// called before registers on loan are given back.
pub(crate) fn keep_position(thread: &Thread, cache: &Cache, at: u64, position: Position) {
    if !buffers::are_used() {
        return;
    }
    let mut loans = cache.loans_at(position.fragment, at);
    if let Some(loan) = loans.find(|loan| loan.slot == BORROWED_SPILLS[0]) {
        // SAFETY: the slots belong to this thread.
        unsafe { (*thread.slots).buffer = thread.register(loan.register) };
    }
}

/// A fragment is left between two of its instructions, or by a fault of one: counters and
/// buffers get what is still due, and counters give back what was added in advance. `completed`: the instruction
/// at the position has been executed.
pub(crate) fn leave_midway(cache: &Cache, position: Position, completed: bool) {
    let Some(instrumenter) = Instrumenter::get() else {
        return;
    };
    let fragment = cache.fragment(position.fragment).trace;
    if fragment == 0 || position.prologue {
        return;
    }
    if position.index != 0 {
        instrumenter.torn.note(position.pc);
    }
    let executed = position.index + u32::from(completed);
    let begun = position.index + u32::from(!position.boundary);
    instrumenter.with_fragment(fragment, |counts| {
        for &(number, counter, amount) in &counts.due {
            if number < executed {
                counter.correct(amount);
            }
        }
        let (number, added) = &counts.added;
        if *number < begun {
            for &(counter, amount) in added {
                counter.correct(-amount);
            }
        }
        for &(number, buffer, bytes) in &counts.appended {
            if number < executed {
                buffers::advance(buffer, u32::from(bytes));
            }
        }
    });
}
