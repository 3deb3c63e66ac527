//! What the engine tells the tracer.

mod calls;
mod failed_checks;
mod mid_fragment;
mod threads;

use std::ffi::CString;
use std::path::Path;
use std::sync::atomic::Ordering;

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::LookupConvention;
use unspool_code_cache::cache::{Cache, CacheFull, Exit, Position};
use unspool_code_cache::exit::CleanCall;
use unspool_code_cache::gates::Continuation;
use unspool_engine::annotation::Annotation;
use unspool_engine::call::Call;
use unspool_engine::client::Ending;
use unspool_engine::client::{Client, ClientFault, Exhausted, Inheritance, Rounds};
use unspool_engine::detach;
use unspool_engine::plan::ClientPlan;
use unspool_engine::process::{Process, ThreadOrdinal};
use unspool_engine::thread::{AddressSpaceRole, Thread};
use unspool_engine::translate::insertion::Inserter;
use unspool_events::{
    Event, Order, ProcessEvent, SyncOperation, Synchronisation, ThreadEvent, ThreadId,
};
use unspool_kernel::diagnostics;

use self::threads::Birth;
use crate::clean_calls::TracerRequest;
use crate::inserted::{self, Recorder, Unrecorded};
use crate::thread_trace::{self, ThreadTrace, of};
use crate::tracer::Tracer;
use crate::{shared_memory, summary};

impl Client for Tracer {
    fn run_begins(&self, process: &'static Process) {
        self.recording.begin(process);
    }

    fn files(&self) -> Vec<i32> {
        self.recording.file().into_iter().collect()
    }

    fn convention(&self) -> Option<LookupConvention> {
        Some(match self.recording.has_begun() {
            true => self.ownership.convention(),
            false => LookupConvention::Plain,
        })
    }

    fn inserter(&'static self, pc: u64) -> Result<Option<Box<dyn Inserter>>, CacheFull> {
        // Ids are given out anew when the code cache has been emptied.
        if self.recording.path_ids.are_short() {
            return Err(CacheFull);
        }
        if !self.recording.has_begun() {
            return Ok(Some(Box::new(Unrecorded::new(self.parts(), pc))));
        }
        Ok(Some(Box::new(Recorder::new(self.parts(), pc))))
    }

    fn slow_check(&self) -> Option<extern "C" fn() -> Continuation> {
        Some(failed_checks::acquire_lines)
    }

    fn translations_gone(&self) {
        self.forget_translations();
    }

    fn thread_created(
        &self,
        creator: &mut Thread,
        ordinal: ThreadOrdinal,
    ) -> Result<Option<Inheritance>, Exhausted> {
        threads::begin_accesses(self, creator);
        let birth = threads::expect_child(self, creator, ordinal).map_err(|reached| {
            self.end.note(Some(reached));
            Exhausted(reached.to_string())
        })?;
        Ok(Some(Box::new(birth)))
    }

    /// Its creation is in the trace: its stream is empty, so that readers do not wait for it.
    fn thread_not_started(&self, id: ThreadId, inheritance: Option<&Inheritance>) {
        if let Some(memory) = Birth::of(inheritance).and_then(|birth| birth.memory) {
            memory.unmap();
        }
        self.ownership.abandon();
        self.recording.begin_thread(id).finish();
    }

    fn plan_for_next(&self, is_child: bool) -> Option<ClientPlan> {
        let mut plan = self.recording.plan.clone();
        plan.run.first_process &= !is_child;
        Some(plan.encode())
    }

    fn way_out_of_reserved_memory(&self) -> Option<&'static str> {
        (self.recording.order() == Order::LineAtomic)
            .then_some("other orders need less: --order ticket, --order timestamp or --order none")
    }

    fn exhaustion_refused(&self) {
        self.end.note(None);
    }

    fn thread_starts(&self, thread: &mut Thread, inheritance: Option<&Inheritance>) {
        threads::begin(thread, Birth::of(inheritance));
    }

    fn end_is_announced(&self, thread: &mut Thread) {
        if thread.clear_tid != 0
            && let Some(ThreadTrace { buffer, owner, .. }) = of(thread)
        {
            // Who reads there that it has ended does so later than this.
            self.ownership.own(buffer, owner, thread.clear_tid, 4);
        }
        let exit = Event::Synchronisation(Synchronisation {
            operation: SyncOperation::ThreadExit,
            object: thread.clear_tid,
        });
        threads::event(thread, &exit);
    }

    fn thread_ends(&self, thread: &mut Thread) {
        threads::event(thread, &Event::Thread(ThreadEvent::End));
        threads::conclude(self, thread);
    }

    fn thread_parks(&self, thread: &mut Thread) {
        if thread.role != AddressSpaceRole::VforkChild {
            threads::conclude(self, thread);
        }
    }

    fn thread_starts_again(&self, thread: &mut Thread) {
        self.thread_starts(thread, None);
        threads::event(thread, &threads::thread_pointer(self, thread));
    }

    fn thread_pointer_changed(&self, thread: &mut Thread, address: u64) {
        threads::event(thread, &threads::has_pointer(self, address));
    }

    fn before_fork(&self, thread: &mut Thread) {
        if let Some(trace) = of(thread) {
            trace.buffer.empty();
        }
    }

    fn after_fork(&self, thread: &mut Thread, child: i64) {
        if child != 0 {
            threads::forked(self, thread, child);
            return;
        }
        let Some(mut parents) = thread_trace::take(thread) else {
            return;
        };
        parents.buffer.leave_to_parent();
        drop(parents);
        threads::begin_file(self, thread, true);
        self.thread_starts(thread, None);
        threads::event(thread, &threads::thread_pointer(self, thread));
        for event in shared_memory::inherited(thread.process) {
            threads::event(thread, &event);
        }
    }

    fn after_vfork(&self, thread: &mut Thread, _kept: usize, child: i64) {
        threads::forked(self, thread, child);
    }

    fn vfork_child_starts(&self, thread: &mut Thread, parent: &Thread) {
        thread_trace::share(thread, parent);
        self.end_wait(thread);
    }

    fn vfork_child_leaves(&self, thread: &mut Thread) {
        self.begin_wait(thread);
    }

    fn executes(&self, thread: &mut Thread, _program: &Path, _arguments: &[CString]) {
        if thread.role != AddressSpaceRole::VforkChild {
            threads::event(thread, &Event::Process(ProcessEvent::Exec));
        }
    }

    fn concludes(&self) -> bool {
        true
    }

    /// The file gets its index, the user a summary.
    fn conclude(&self, thread: &mut Thread, ending: Ending) {
        threads::event(thread, &Event::Thread(ThreadEvent::End));
        threads::conclude(self, thread);
        self.keeper.dismiss();
        summary::conclude(self, thread.process, ending);
    }

    /// What the process does from here on is recorded in a file of its own, as a child's is. The
    /// other threads have ended their traces.
    fn goes_on(&self, thread: &mut Thread) {
        threads::begin_file(self, thread, false);
        self.thread_starts_again(thread);
    }

    fn final_status(&self, status: i32) -> i32 {
        summary::final_status(self, status)
    }

    fn enters(&self, thread: &mut Thread) {
        if let Some(trace) = of(thread) {
            self.ownership
                .pass_barrier(&mut trace.buffer, &mut trace.owner);
            trace.buffer.enter_generation();
        }
    }

    fn goes_outside(&self, thread: &mut Thread) {
        if let Some(trace) = of(thread) {
            self.ownership.show_outside(&trace.buffer, &trace.owner);
        }
    }

    fn interrupted(&self, thread: &mut Thread) {
        if let Some(trace) = of(thread) {
            trace.buffer.follow_selection();
        }
    }

    fn wants_all_outside(&self) -> bool {
        self.ownership.wants_to_meet()
    }

    fn all_outside(&self, thread: &mut Thread) {
        if let Some(trace) = of(thread) {
            self.ownership.meet(&mut trace.buffer, &mut trace.owner);
        }
    }

    fn begin_wait(&self, thread: &mut Thread) {
        if let Some(trace) = of(thread) {
            self.ownership.enter_safe(&trace.buffer, &trace.owner);
        }
    }

    fn end_wait(&self, thread: &mut Thread) {
        if let Some(trace) = of(thread) {
            self.ownership.leave_safe(&mut trace.buffer, &trace.owner);
        }
    }

    fn begin_rest(&self) {
        if let Some(progress) = threads::own_progress() {
            progress.sleep.begin();
        }
    }

    fn end_rest(&self) {
        if let Some(progress) = threads::own_progress() {
            progress.sleep.end(|| self.keeper.end_if_killed_at_work());
        }
    }

    fn call_begins(&self, thread: &mut Thread, call: &Call) {
        calls::begins(self, thread, call);
    }

    fn call_left(&self, thread: &mut Thread) {
        self.end_wait(thread);
    }

    fn call_ends(&self, thread: &mut Thread, call: &Call, result: i64) {
        calls::ends(self, thread, call, result);
    }

    fn memory_written(&self, thread: &mut Thread, address: u64, size: u64) {
        if let Some(trace) = of(thread) {
            calls::tell_written(self, trace, address, size);
        }
    }

    /// A tool does so in the middle of a record, where no event can stand.
    fn memory_changed(&self) {
        if !self.is_changed_by_others.swap(true, Ordering::Relaxed) {
            diagnostics::say(
                "unspool: the tool writes into the program's memory, which the trace does not tell",
            );
        }
    }

    fn handler_called(&self, thread: &mut Thread, signal: i32) {
        if let Some(ThreadTrace { buffer, owner, .. }) = of(thread) {
            calls::own_channels(self, buffer, owner);
        }
        if !self.recording.has_begun() {
            // What it interrupts is not in the records.
            return;
        }
        threads::event(
            thread,
            &Event::Thread(ThreadEvent::HandlerCalled {
                signal: signal as u32,
            }),
        );
    }

    fn fault(&self, pc: u64, address: u64) -> Option<ClientFault> {
        inserted::fault(pc, address)
    }

    fn slow_part(&self, at: CacheAddress) -> Option<CacheAddress> {
        inserted::fails_at(at)
    }

    fn is_full(&self, thread: &mut Thread, address: u64) -> bool {
        of(thread).is_some_and(|trace| trace.buffer.note_fault(address))
    }

    fn empty_buffers(&self, thread: &mut Thread) {
        if let Some(trace) = of(thread) {
            mid_fragment::empty_buffer(self, trace, thread);
        }
    }

    fn clean_call(
        &self,
        thread: &mut Thread,
        call: CleanCall,
        exit: &Exit,
    ) -> Option<CacheAddress> {
        let Some(trace) = of(thread) else {
            return Some(exit.stub);
        };
        match TracerRequest::of(call) {
            TracerRequest::Poll => failed_checks::show(self, trace, thread, exit),
            TracerRequest::Check(check) => {
                return failed_checks::serve(self, trace, thread, (check, exit));
            }
            TracerRequest::Values(site) => {
                let ThreadTrace { buffer, taken, .. } = trace;
                let is_checking = self.ownership.is_checking();
                let kept = (&mut *buffer, taken);
                if self
                    .value_calls
                    .serve(thread, kept, (site, exit), is_checking)
                {
                    // The buffer is full of values long before it is full of records.
                    self.skew.keep_others_close(thread.id, buffer);
                }
            }
        }
        Some(exit.stub)
    }

    fn starts_anew(&self, thread: &mut Thread, pc: u64) -> bool {
        let begins = !self.recording.has_begun() && self.functions.is_wanted(pc);
        if begins {
            threads::begin_accesses(self, thread);
        }
        begins
    }

    fn control_reaches(&self, thread: &mut Thread, pc: u64) {
        let said = of(thread).and_then(|trace| {
            self.functions
                .reached(thread, &mut trace.buffer, &mut trace.frames, pc)
        });
        if let Some(said) = said {
            detach::annotated(thread, said);
        }
    }

    fn annotated(&self, thread: &mut Thread, said: Annotation) {
        if let Some(trace) = of(thread) {
            self.said.hear(thread, &mut trace.buffer, said);
        }
    }

    fn leaves_between_rounds(&self, at: CacheAddress, position: &Position) -> Rounds {
        match mid_fragment::is_between_rounds(&self.fragments, at, position) {
            true => Rounds::None,
            false => Rounds::All,
        }
    }

    fn redirected(&self, thread: &mut Thread, position: Position, completed: bool) {
        if let Some(trace) = of(thread) {
            mid_fragment::leave_by_call(self, trace, position, completed);
        }
    }

    fn leave_mid_fragment(
        &self,
        thread: &mut Thread,
        cache: &Cache,
        at: CacheAddress,
        position: Position,
    ) {
        if let Some(trace) = of(thread) {
            mid_fragment::leave_mid_fragment(self, trace, thread, cache, Some(at), position);
        }
    }
}
