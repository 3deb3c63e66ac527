//! What the engine tells the tool.

use std::any::Any;
use std::cell::Cell;
use std::ffi::CString;
use std::path::Path;
use std::sync::atomic::Ordering;

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::LookupConvention;
use unspool_code_cache::cache::{Cache, CacheFull, Position};
use unspool_code_cache::gates::CallSlots;
use unspool_code_cache::slots::{BOUND_SPILLS, SlotsPart, slots};
use unspool_loader::LoadedProgram;

use super::{
    Instrumenter, Signal, Superblock, blocked, buffers, counters, images, samplers, system_calls,
    world,
};
use crate::inserted::Insertion;
use crate::slots as tool_slots;
use unspool_engine::call::Call;
use unspool_engine::client::Ending;
use unspool_engine::client::Refusal;
use unspool_engine::client::{Client, Inheritance, Rounds};
use unspool_engine::process::Process;
use unspool_engine::thread::{AddressSpaceRole, PendingSignal, Thread};
use unspool_engine::translate::insertion::Inserter;

/// Runs code of the tool: if it fails, the tool is to blame.
pub(super) fn in_tool<R>(run: impl FnOnce() -> R) -> R {
    CallSlots::of(slots()).in_tool.store(1, Ordering::Relaxed);
    let result = run();
    CallSlots::of(slots()).in_tool.store(0, Ordering::Relaxed);
    result
}

/// What the tool keeps for the calling thread.
pub(super) fn state(thread: &Thread) -> *mut () {
    CallSlots::of(thread.slots()).tool_state.get() as *mut ()
}

/// Asks the tool what to insert.
pub(crate) fn translate(instrumenter: &Instrumenter, superblock: &Superblock) {
    world::while_instrumenting(|| in_tool(|| instrumenter.tool.instrument(superblock)));
}

thread_local! {
    /// Whether the tool knows of this thread, and not yet of its end.
    static IS_STARTED: Cell<bool> = const { Cell::new(false) };
}

impl Client for Instrumenter {
    fn run_begins(&self, process: &'static Process) {
        self.run_begins(process);
    }

    fn convention(&self) -> Option<LookupConvention> {
        Some(self.convention())
    }

    fn inserter(&'static self, _pc: u64) -> Result<Option<Box<dyn Inserter>>, CacheFull> {
        Ok(Some(Box::new(Insertion::new(self))))
    }

    fn translations_unreachable(&self) {
        self.call_sites.forget();
    }

    fn has_functions(&self) -> bool {
        true
    }

    fn is_function(&self, pc: u64) -> bool {
        self.is_tool_code(pc)
    }

    fn translations_gone(&self) {
        self.forget_fragments();
    }

    fn stack_size(&self) -> usize {
        counters::thread_stack()
    }

    fn thread_starts(&self, thread: &mut Thread, _inheritance: Option<&Inheritance>) {
        if let Err(error) = counters::prepare() {
            unspool_kernel::diagnostics::fatal(&format!(
                "no memory for a thread's counters: {error}"
            ));
        }
        if let Err(error) = buffers::prepare() {
            unspool_kernel::diagnostics::fatal(&format!(
                "no memory for a thread's buffers: {error}\nhelp: have the tool make them smaller"
            ));
        }
        tool_slots::prepare(thread.slots(), thread.number);
        samplers::prepare(thread.number);
        let state = in_tool(|| self.tool.thread_starts(thread.number));
        CallSlots::of(thread.slots()).tool_state.set(state as u64);
        IS_STARTED.set(true);
    }

    /// What a thread has done is known to the tool before another thread can know that it has ended.
    fn end_comes(&self, thread: &mut Thread) {
        self.thread_ends(thread);
    }

    fn thread_ends(&self, thread: &mut Thread) {
        if thread.role == AddressSpaceRole::VforkChild || !IS_STARTED.replace(false) {
            return;
        }
        buffers::hand_over_all();
        buffers::free();
        super::functions::thread_ends();
        let state = CallSlots::of(thread.slots()).tool_state.take() as *mut ();
        // SAFETY: it is what the tool has made for this thread, and is forgotten now.
        unsafe { in_tool(|| self.tool.thread_ends(thread.number, state)) };
        let threads = thread.process.threads.lock();
        counters::keep();
        counters::free();
        drop(threads);
    }

    fn thread_parks(&self, thread: &mut Thread) {
        self.thread_ends(thread);
    }

    fn thread_starts_again(&self, thread: &mut Thread) {
        self.thread_starts(thread, None);
    }

    fn program_loaded(&self, process: &'static Process, program: &LoadedProgram) {
        images::announce(process, program);
    }

    /// Entries are handed over here, not in both processes.
    fn before_fork(&self, thread: &mut Thread) {
        buffers::hand_over_all();
        // SAFETY: the state is this thread's.
        in_tool(|| unsafe { self.tool.will_fork(state(thread)) });
    }

    fn after_fork(&self, thread: &mut Thread, child: i64) {
        let state = state(thread);
        if child == 0 {
            counters::restart();
            // SAFETY: the state is this thread's.
            unsafe { self.tool.forked(state) };
            return;
        }
        let child = u32::try_from(child).ok();
        // SAFETY: as above.
        in_tool(|| unsafe { self.tool.has_forked(state, child) });
    }

    fn before_vfork(&self) -> usize {
        super::functions::depth()
    }

    fn after_vfork(&self, _thread: &mut Thread, kept: usize, _child: i64) {
        super::functions::forget_deeper(kept);
    }

    fn executes(&self, thread: &mut Thread, program: &Path, arguments: &[CString]) {
        // SAFETY: the state is this thread's.
        in_tool(|| unsafe { self.tool.executes(state(thread), program, arguments) });
    }

    fn refuses_to_let_go(&self) -> Option<Refusal> {
        let replaces = self.functions.replaces_any();
        replaces.then_some(Refusal::ReplacedFunctions)
    }

    fn concludes(&self) -> bool {
        true
    }

    fn end_begins(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(blocked::watch_end()?))
    }

    fn conclude(&self, thread: &mut Thread, _ending: Ending) {
        self.thread_ends(thread);
        in_tool(|| self.tool.ends());
    }

    fn goes_on(&self, thread: &mut Thread) {
        in_tool(|| self.tool.goes_on());
        self.thread_starts(thread, None);
    }

    fn out_of_memory(&self, bytes: usize) {
        self.tool.out_of_memory(bytes);
    }

    fn call_asked(&self, thread: &mut Thread, call: &mut Call) {
        system_calls::asked(self, thread, call);
    }

    fn call_result(&self, thread: &mut Thread, call: &Call, result: &mut i64) {
        images::follow(thread.process, call, *result);
        system_calls::over(self, thread, call, result);
    }

    fn call_returned(&self, thread: &mut Thread, call: &Call, result: i64) {
        system_calls::returned(self, thread, call, result);
    }

    fn tell_place(&self) {
        blocked::tell_place();
    }

    fn signal_comes(&self, thread: &mut Thread, signal: &PendingSignal) -> bool {
        let state = state(thread);
        let mut signal = Signal::new(thread, signal);
        // SAFETY: the state is this thread's.
        in_tool(|| unsafe { self.tool.signal_comes(state, &mut signal) })
    }

    fn is_full(&self, thread: &mut Thread, address: u64) -> bool {
        buffers::is_full(thread, address)
    }

    fn empty_buffers(&self, thread: &mut Thread) {
        buffers::make_room(thread);
    }

    /// What is in a register of a buffer goes to its slot, before registers spilled are given back.
    fn leave_mid_fragment(
        &self,
        thread: &mut Thread,
        cache: &Cache,
        at: CacheAddress,
        position: Position,
    ) {
        if !buffers::are_used() || !buffers::first_is_bound() {
            return;
        }
        let mut spills = cache.spills_at(position.fragment, at);
        if let Some(spill) = spills.find(|spill| spill.slot == BOUND_SPILLS[0]) {
            thread.slots().buffer.set(thread.register(spill.register));
        }
    }

    /// Counters and buffers get what is still due, and counters give back what was added in
    /// advance.
    fn left_mid_fragment(&self, position: Position, completed: bool) {
        if position.prologue {
            return;
        }
        let executed = position.index + u32::from(completed);
        let begun = position.index + u32::from(!position.boundary);
        self.fragments.with(position.fragment, |counts| {
            if position.index != 0 {
                self.forced_splits.note(position.pc);
            }
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

    /// Inserted code has put the function and its arguments into the slots.
    fn calls(&self, thread: &mut Thread) -> bool {
        let call = CallSlots::of(thread.slots());
        let place = thread.pc();
        // SAFETY: inserted code has put there the address of such a function, and what it is to be
        // called with.
        let result = in_tool(|| unsafe {
            let function: super::Function = std::mem::transmute(call.function.get() as usize);
            let [first, second, third, fourth, ..] = call.arguments.each_ref().map(Cell::get);
            let (tool, state) = (call.tool.get() as *const (), state(thread));
            function(tool, state, first, second, third, fourth)
        });
        call.result.set(result);
        thread.pc() != place
    }

    fn redirects(&self, thread: &mut Thread) {
        super::functions::redirect(thread);
    }

    fn leaves_between_rounds(&self, at: CacheAddress, position: &Position) -> Rounds {
        match self.is_between_rounds(at, position) {
            true => Rounds::Many,
            false => Rounds::All,
        }
    }

    fn left_between_rounds(&self, at: CacheAddress, position: &Position) {
        if self.is_between_rounds(at, position) {
            super::repetitions::leave();
        }
    }
}

impl Instrumenter {
    /// Whether a place in the cache is that of a repeated string instruction: between two of its
    /// rounds the state is the program's, as at a fault in its middle.
    fn is_between_rounds(&self, at: CacheAddress, position: &Position) -> bool {
        let is_there = self.fragments.with(position.fragment, |fragment| {
            let mut places = fragment.repetitions.iter();
            places.any(|&place| place == at)
        });
        is_there.unwrap_or(false)
    }
}
