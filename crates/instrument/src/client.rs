//! What the engine tells the tool.

mod shadow_memory;
mod synchronisation;
mod system_calls;

use std::any::Any;
use std::cell::Cell;
use std::ffi::CString;
use std::ops::Range;
use std::path::Path;

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::LookupConvention;
use unspool_code_cache::cache::{Cache, CacheFull, Position};
use unspool_code_cache::gates::CallSlots;
use unspool_code_cache::slots::{BOUND_SPILLS, SlotsPart};
use unspool_loader::LoadedProgram;

use super::consumer::Consumer;
use super::growth::{self, Growth};
use super::images::changed_by;
use super::in_tool::{deliver, in_tool, state, thread_state};
use super::{
    Annotation, Instrumenter, MappingCause, MappingChange, Signal, blocked, buffers, counters,
    each_access, mappings, process, samplers, switches, thread_words, threads,
};
use crate::inserted::Insertion;
use crate::slots as tool_slots;
use unspool_engine::annotation::Annotation as Said;
use unspool_engine::call::Call;
use unspool_engine::client::Ending;
use unspool_engine::client::Refusal;
use unspool_engine::client::{Client, Exhausted, Inheritance, Rounds};
use unspool_engine::own_failures;
use unspool_engine::process::{Process, ThreadOrdinal};
use unspool_engine::thread::{AddressSpaceRole, PendingSignal, Thread};
use unspool_engine::translate::insertion::Inserter;

thread_local! {
    /// Whether the tool knows of this thread, and not yet of its end.
    static IS_STARTED: Cell<bool> = const { Cell::new(false) };
}

impl Client for Instrumenter {
    fn files(&self) -> Vec<i32> {
        own_failures::reserve_files()
    }

    fn run_begins(&self, process: &'static Process) {
        process::begin(process);
    }

    fn convention(&self) -> Option<LookupConvention> {
        Some(match buffers::are_used() {
            true => LookupConvention::Traced,
            false => LookupConvention::Plain,
        })
    }

    fn inserter(&'static self, _pc: u64) -> Result<Option<Box<dyn Inserter>>, CacheFull> {
        Ok(Some(Box::new(Insertion::new(self.parts()))))
    }

    fn translations_unreachable(&self) {
        self.fragments.call_sites.forget();
    }

    fn has_functions(&self) -> bool {
        true
    }

    fn is_function(&self, at: CacheAddress) -> bool {
        self.fragments.is_tool_code(at)
    }

    fn passes_over(&self, at: CacheAddress) -> Option<CacheAddress> {
        self.fragments.behind_look(at)
    }

    fn translations_gone(&self) {
        self.fragments.forget();
    }

    fn stack_size(&self) -> usize {
        counters::thread_stack()
    }

    fn thread_created(
        &self,
        creator: &mut Thread,
        ordinal: ThreadOrdinal,
    ) -> Result<Option<Inheritance>, Exhausted> {
        synchronisation::creates(self, creator, ordinal.id().0);
        Ok(Some(threads::inheritance(creator)))
    }

    fn thread_starts(&self, thread: &mut Thread, inheritance: Option<&Inheritance>) {
        threads::start(inheritance);
        if let Err(error) = counters::prepare() {
            unspool_kernel::diagnostics::fatal(&format!(
                "no memory for a thread's counters: {error}"
            ));
        }
        if let Err((kind, error)) = buffers::prepare() {
            unspool_kernel::diagnostics::fatal(&kind.lacks_memory(&error));
        }
        tool_slots::prepare(thread.slots(), thread.id);
        samplers::prepare(thread.id);
        thread_words::prepare();
        switches::prepare();
        if let Some(instrumenter) = Instrumenter::get() {
            super::functions::thread_starts(&instrumenter.functions);
        }
        let info = threads::info(thread);
        let state = in_tool(|| self.tool.thread_starts(&info));
        CallSlots::of(thread.slots()).tool_state.set(state as u64);
        IS_STARTED.set(true);
        if inheritance.is_some() {
            synchronisation::starts(self, thread);
        }
    }

    /// What a thread has done is known to the tool before another thread can know that it has ended.
    fn end_comes(&self, thread: &mut Thread) {
        self.thread_ends(thread);
    }

    fn thread_ends(&self, thread: &mut Thread) {
        if thread.role == AddressSpaceRole::VforkChild || !IS_STARTED.replace(false) {
            return;
        }
        each_access::settle();
        growth::tell(state(thread));
        buffers::end();
        super::functions::thread_ends();
        let info = threads::info(thread);
        synchronisation::ends(self, thread, info.thread_pointer);
        let state = CallSlots::of(thread.slots()).tool_state.take() as *mut ();
        // SAFETY: it is what the tool has made for this thread, and is forgotten now.
        unsafe { in_tool(|| self.tool.thread_ends(&info, state)) };
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
        for image in &self.images.begin(process, program) {
            in_tool(|| self.tool.image_loads(image));
        }
        growth::follow(process);
        self.tell_mapping(process, thread_state(), 0..u64::MAX, MappingCause::Start);
        if self.tool.wants_growth() {
            growth::begin(process, tell_growth);
        }
    }

    /// Entries are handed over here, not in both processes.
    fn before_fork(&self, thread: &mut Thread) {
        each_access::settle();
        growth::tell(state(thread));
        buffers::hand_over_all();
        // SAFETY: the state is this thread's.
        in_tool(|| unsafe { self.tool.will_fork(state(thread)) });
        // What the tool has appended now.
        buffers::hand_over_all();
        in_tool(|| buffers::consumers().for_each(Consumer::pause));
    }

    fn after_fork(&self, thread: &mut Thread, child: i64) {
        let state = state(thread);
        if child == 0 {
            buffers::consumers().for_each(Consumer::begin_child);
            counters::restart();
            // SAFETY: the state is this thread's.
            unsafe { self.tool.forked(state) };
            return;
        }
        buffers::consumers().for_each(Consumer::resume);
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

    fn end_begins(&self, ending: Ending) -> Option<Box<dyn Any>> {
        Some(Box::new(blocked::watch_end(ending)?))
    }

    fn start_waits(&self) -> Option<Box<dyn Any>> {
        Some(Box::new(blocked::watch_start()?))
    }

    fn conclude(&self, thread: &mut Thread, _ending: Ending) {
        self.thread_ends(thread);
        in_tool(|| buffers::consumers().for_each(Consumer::finish));
        in_tool(|| self.tool.ends());
    }

    fn goes_on(&self, thread: &mut Thread) {
        buffers::consumers().for_each(Consumer::goes_on);
        in_tool(|| self.tool.goes_on());
        self.thread_starts(thread, None);
    }

    fn out_of_memory(&self, bytes: usize) {
        self.tool.out_of_memory(bytes);
    }

    fn call_asked(&self, thread: &mut Thread, call: &mut Call) {
        system_calls::asked(self, thread, call);
        shadow_memory::asked(call);
        if mappings::may_change(call) {
            growth::follow(thread.process);
        }
    }

    fn call_result(&self, thread: &mut Thread, call: &Call, result: &mut i64) {
        // The kernel may have touched what is below a stack.
        growth::tell(state(thread));
        self.follow_images(thread.process, call, *result);
        let changed = self.mappings.changed(thread.process, call, *result);
        shadow_memory::over(call, *result, &changed);
        if changed.iter().any(|range| !range.is_empty()) {
            growth::mappings_changed(thread.process);
        }
        for range in changed {
            let cause = MappingCause::SystemCall;
            self.tell_mapping(thread.process, state(thread), range, cause);
        }
        system_calls::over(self, thread, call, result);
    }

    fn call_returned(&self, thread: &mut Thread, call: &Call, result: i64) {
        system_calls::returned(self, thread, call, result);
    }

    fn annotated(&self, thread: &mut Thread, said: Said) {
        growth::tell(state(thread));
        buffers::hand_over_all();
        let said = Annotation::of(thread, said);
        // SAFETY: the state is this thread's.
        in_tool(|| unsafe { self.tool.annotated(state(thread), &said) });
    }

    fn tell_place(&self) {
        blocked::tell_place();
    }

    fn signal_comes(&self, thread: &mut Thread, signal: &PendingSignal) -> bool {
        each_access::settle();
        let state = state(thread);
        growth::tell(state);
        let mut signal = Signal::new(thread, signal);
        // SAFETY: the state is this thread's.
        in_tool(|| unsafe { self.tool.signal_comes(state, &mut signal) })
    }

    fn is_full(&self, thread: &mut Thread, address: u64) -> bool {
        buffers::is_full(thread, address)
    }

    fn empty_buffers(&self, thread: &mut Thread) {
        buffers::make_room(thread, |fragment| self.fragments.binding(fragment));
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
        buffers::forget_pending();
        if position.prologue {
            return;
        }
        let executed = position.index + u32::from(completed);
        let begun = position.index + u32::from(!position.boundary);
        self.fragments.counts.with(position.fragment, |counts| {
            if position.index != 0 {
                self.fragments.forced_splits.note(position.pc);
            }
            for due in &counts.due {
                let (counter, amount) = due.before(executed);
                if amount != 0 {
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
            let function: super::AnalysisFunction =
                std::mem::transmute(call.function.get() as usize);
            let [first, second, third, fourth, ..] = call.arguments.each_ref().map(Cell::get);
            let (tool, state) = (call.tool.get() as *const (), state(thread));
            function(tool, state, first, second, third, fourth)
        });
        buffers::forget_pending();
        call.result.set(result);
        thread.pc() != place
    }

    fn redirects(&self, thread: &mut Thread) {
        super::functions::redirect(thread);
    }

    fn leaves_between_rounds(&self, at: CacheAddress, position: &Position) -> Rounds {
        match self.fragments.is_between_rounds(at, position) {
            true => Rounds::Many,
            false => Rounds::All,
        }
    }

    fn left_between_rounds(&self, at: CacheAddress, position: &Position) {
        if self.fragments.is_between_rounds(at, position) {
            super::repetitions::leave();
            each_access::leave();
        }
    }
}

impl Instrumenter {
    /// What is mapped in a range may have changed. The state is the calling thread's.
    fn tell_mapping(
        &self,
        process: &Process,
        state: *mut (),
        range: Range<u64>,
        cause: MappingCause,
    ) {
        if let Some(change) = MappingChange::of(process, range, cause) {
            // SAFETY: the state is this thread's.
            in_tool(|| unsafe { self.tool.mapping_changes(state, &change) });
        }
    }

    /// A system call is over: it may have changed what can be executed.
    fn follow_images(&self, process: &Process, call: &Call, result: i64) {
        for range in changed_by(call, result) {
            let (gone, new) = {
                let code = process.code();
                self.images.update(&code.regions, &range)
            };
            for image in &gone {
                in_tool(|| self.tool.image_unloads(image));
                self.functions.forget(image);
            }
            for image in &new {
                in_tool(|| self.tool.image_loads(image));
            }
        }
    }
}

/// Tells the tool that something has grown. It may be about to get entries, so that there is no room
/// for others.
fn tell_growth(state: *mut (), growth: &Growth) {
    let Some(instrumenter) = Instrumenter::get() else {
        return;
    };
    let change = MappingChange::growth(growth);
    // SAFETY: the state is the calling thread's.
    deliver(|| unsafe { instrumenter.tool.mapping_changes(state, &change) });
}
