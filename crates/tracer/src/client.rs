//! What the engine tells the tracer.

use std::ffi::CString;
use std::path::Path;
use std::sync::atomic::Ordering;

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::LookupConvention;
use unspool_code_cache::cache::{Cache, CacheFull, Exit, Position};
use unspool_code_cache::gates::Continuation;
use unspool_events::{
    Event, MemoryEffect, Order, ProcessEvent, SyncOperation, Synchronisation, SystemCall,
    ThreadEvent, ThreadId,
};
use unspool_kernel::effects::{Completeness, Effect, memory_effects};
use unspool_kernel::{diagnostics, guarded};

use super::ceilings::Reached;
use super::thread_trace::{Buffer, ThreadTrace};
use super::{buffer, modules, shared_memory, summary, values};
use crate::inserted::traced::Recorder;
use crate::thread_trace::OF_THREAD;
use crate::tracer::{Tracer, tracer};
use unspool_engine::annotation::Annotation;
use unspool_engine::call::{Call, succeeded};
use unspool_engine::client::Ending;
use unspool_engine::client::{Client, ClientFault, Exhausted, Inheritance, Rounds};
use unspool_engine::detach;
use unspool_engine::plan::ClientPlan;
use unspool_engine::process::Process;
use unspool_engine::signal_handling::broken_pipe;
use unspool_engine::thread::{AddressSpaceRole, Thread};
use unspool_engine::translate::insertion::Inserter;

/// The tracer and the thread's trace, if there is one.
pub(super) fn of(thread: &mut Thread) -> Option<(&'static Tracer, &'static mut ThreadTrace)> {
    // SAFETY: the trace belongs to this thread, or to its parent that waits; the reference
    // does not outlive the hook.
    let trace = unsafe { OF_THREAD.get(thread).as_mut() }?;
    Some((tracer()?, trace))
}

/// Adds an event to the thread's trace.
pub(super) fn event(thread: &mut Thread, event: &Event) {
    if let Some((tracer, trace)) = of(thread) {
        trace.event(tracer, event);
    }
}

/// What a thread knows of the one that has started it.
#[derive(Debug, Clone, Copy)]
struct Birth {
    parent: u32,
    /// The parent's time.
    after: u64,
    /// Memory for what it records.
    buffer: Option<Buffer>,
}

impl Birth {
    fn of(inheritance: Option<&Inheritance>) -> Option<Birth> {
        inheritance?.downcast_ref::<Birth>().copied()
    }
}

impl Client for Tracer {
    fn run_begins(&self, process: &'static Process) {
        let _ = self.process.set(process);
    }

    fn files(&self) -> Vec<i32> {
        let file = self.file.load(Ordering::Relaxed);
        if file < 0 { Vec::new() } else { vec![file] }
    }

    fn convention(&self) -> Option<LookupConvention> {
        Some(self.convention())
    }

    fn inserter(&'static self, pc: u64) -> Result<Option<Box<dyn Inserter>>, CacheFull> {
        if self.has_named_all() {
            return Err(CacheFull);
        }
        Ok(Some(Box::new(Recorder::new(self, pc))))
    }

    fn slow_check(&self) -> Option<extern "C" fn() -> Continuation> {
        Some(crate::ownership::acquire_lines)
    }

    fn translations_gone(&self) {
        self.fragments.clear();
        self.value_calls.lock().clear();
        self.ownership.forget_sites();
        self.begin_generation();
    }

    fn thread_created(
        &self,
        creator: &mut Thread,
        number: u64,
    ) -> Result<Option<Inheritance>, Exhausted> {
        let birth = self.expect_child(creator, number).map_err(|reached| {
            self.note_end(Some(reached));
            Exhausted(reached.to_string())
        })?;
        Ok(Some(Box::new(birth)))
    }

    /// Its creation is in the trace: its stream is empty, so that readers do not wait for it.
    fn thread_not_started(&self, number: u32, inheritance: Option<&Inheritance>) {
        if let Some(buffer) = Birth::of(inheritance).and_then(|birth| birth.buffer) {
            buffer.unmap();
        }
        self.abandon();
        let encoder = self.writer.lock().thread(ThreadId(number));
        encoder.finish();
    }

    fn plan_for_next(&self, is_child: bool) -> Option<ClientPlan> {
        let mut plan = self.plan.clone();
        plan.run.first_process &= !is_child;
        Some(plan.encode())
    }

    fn way_out_of_reserved_memory(&self) -> Option<&'static str> {
        (self.order() == Order::LineAtomic)
            .then_some("other orders need less: --order ticket, --order timestamp or --order none")
    }

    fn exhaustion_refused(&self) {
        self.note_end(None);
    }

    fn thread_starts(&self, thread: &mut Thread, inheritance: Option<&Inheritance>) {
        self.begin_thread(thread, Birth::of(inheritance));
    }

    fn end_is_announced(&self, thread: &mut Thread) {
        let exit = Event::Synchronisation(Synchronisation {
            operation: SyncOperation::ThreadExit,
            object: thread.clear_tid,
        });
        event(thread, &exit);
    }

    fn thread_ends(&self, thread: &mut Thread) {
        event(thread, &Event::Thread(ThreadEvent::End));
        conclude(thread);
    }

    fn thread_parks(&self, thread: &mut Thread) {
        if thread.role != AddressSpaceRole::VforkChild {
            conclude(thread);
        }
    }

    fn thread_starts_again(&self, thread: &mut Thread) {
        self.thread_starts(thread, None);
        tell_thread_pointer(thread);
    }

    fn thread_pointer_changed(&self, thread: &mut Thread, address: u64) {
        event(thread, &Event::Thread(ThreadEvent::Pointer { address }));
    }

    fn before_fork(&self, thread: &mut Thread) {
        if let Some((_, trace)) = of(thread) {
            trace.empty();
        }
    }

    fn after_fork(&self, thread: &mut Thread, child: i64) {
        if child != 0 {
            self.forked(thread, child);
            return;
        }
        if OF_THREAD.get(thread).is_null() {
            return;
        }
        // The parent's records are the parent's: they are dropped unwritten. Its encoder is
        // left alone, because another of its threads may have been using what they share.
        // SAFETY: the pointer came from a box, and nobody else in this process has it.
        let mut parents = unsafe { Box::from_raw(OF_THREAD.get(thread)) };
        OF_THREAD.set(thread, std::ptr::null_mut());
        std::mem::forget(parents.encoder.take());
        drop(parents);
        self.start_child();
        self.forget_owners(true);
        self.skew.forget_others();
        thread.process.clear_translations(self.convention());
        self.thread_starts(thread, None);
        tell_thread_pointer(thread);
        shared_memory::inherited(thread);
    }

    fn after_vfork(&self, thread: &mut Thread, _kept: usize, child: i64) {
        self.forked(thread, child);
    }

    fn vfork_child_starts(&self, thread: &mut Thread, parent: &Thread) {
        OF_THREAD.set(thread, OF_THREAD.get(parent));
        if let Some((tracer, _)) = of(thread) {
            tracer.leave_safe(thread);
        }
    }

    fn vfork_child_leaves(&self, thread: &mut Thread) {
        self.begin_wait(thread);
    }

    fn executes(&self, thread: &mut Thread, _program: &Path, _arguments: &[CString]) {
        if thread.role != AddressSpaceRole::VforkChild {
            event(thread, &Event::Process(ProcessEvent::Exec));
        }
    }

    fn concludes(&self) -> bool {
        true
    }

    /// The file gets its index, the user a summary.
    fn conclude(&self, thread: &mut Thread, ending: Ending) {
        event(thread, &Event::Thread(ThreadEvent::End));
        conclude(thread);
        self.keeper.dismiss();
        broken_pipe::kept_from_program(|| {
            summary::conclude(self, thread.process, ending);
        });
    }

    /// What the process does from here on is recorded in a file of its own, as a child's is. The
    /// other threads have ended their traces.
    fn goes_on(&self, thread: &mut Thread) {
        self.start_child();
        self.forget_owners(false);
        self.skew.forget_others();
        thread.process.clear_translations(self.convention());
        self.thread_starts_again(thread);
    }

    fn final_status(&self, status: i32) -> i32 {
        self.final_status(status)
    }

    fn enters(&self, thread: &mut Thread) {
        let Some((tracer, trace)) = of(thread) else {
            return;
        };
        tracer.pass_barrier(thread, trace);
        let generation = tracer.generation.load(Ordering::SeqCst);
        if generation != trace.generation {
            trace.generation = generation;
            trace.enter_generation();
        }
    }

    fn goes_outside(&self, thread: &mut Thread) {
        if let Some((tracer, trace)) = of(thread) {
            tracer.show_outside(trace);
        }
    }

    fn interrupted(&self, thread: &mut Thread) {
        if let Some((tracer, trace)) = of(thread) {
            trace.set_recording(tracer.should_record(trace.registered));
        }
    }

    fn wants_all_outside(&self) -> bool {
        self.wants_to_meet()
    }

    fn all_outside(&self, thread: &mut Thread) {
        if let Some((tracer, _)) = of(thread) {
            tracer.meet(thread);
        }
    }

    fn begin_wait(&self, thread: &mut Thread) {
        if let Some((tracer, _)) = of(thread) {
            tracer.enter_safe(thread);
        }
    }

    fn end_wait(&self, thread: &mut Thread) {
        if let Some((tracer, _)) = of(thread) {
            tracer.leave_safe(thread);
        }
    }

    fn begin_rest(&self) {
        super::skew::begin_rest();
    }

    fn end_rest(&self) {
        super::skew::end_rest(self);
    }

    fn call_begins(&self, thread: &mut Thread, call: &Call) {
        let Some((tracer, _)) = of(thread) else {
            return;
        };
        if changes_futex(call) {
            // Who sees what the kernel notes there from now on does so later than this.
            super::ownership::own(tracer, thread, call.arguments[0], 4);
        }
        let Some((tracer, trace)) = of(thread) else {
            return;
        };
        let entry = Event::SystemCall(SystemCall::Entry {
            number: call.number as u32,
            arguments: call.arguments,
        });
        trace.event(tracer, &entry);
        if let Some(operation @ SyncOperation::FutexWake) = futex(call) {
            trace.event(
                tracer,
                &Event::Synchronisation(Synchronisation {
                    operation,
                    object: call.arguments[0],
                }),
            );
        }
        tracer.enter_safe(thread);
    }

    fn call_left(&self, thread: &mut Thread) {
        self.end_wait(thread);
    }

    fn call_ends(&self, thread: &mut Thread, call: &Call, result: i64) {
        call_ends(thread, call, result);
    }

    fn memory_written(&self, thread: &mut Thread, address: u64, size: u64) {
        super::ownership::own(self, thread, address, size);
        event(
            thread,
            &Event::MemoryEffect(MemoryEffect {
                write: true,
                address,
                size,
            }),
        );
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
        event(
            thread,
            &Event::Thread(ThreadEvent::HandlerCalled {
                signal: signal as u32,
            }),
        );
    }

    fn fault(&self, pc: u64, address: u64) -> Option<ClientFault> {
        super::ownership::owner_fault(pc, address)
    }

    fn slow_part(&self, pc: u64) -> Option<u64> {
        crate::inserted::ownership::check_fails_at(pc)
    }

    fn is_full(&self, thread: &mut Thread, address: u64) -> bool {
        buffer::buffer_fault(thread, address)
    }

    fn empty_buffers(&self, thread: &mut Thread) {
        buffer::empty_buffer(thread);
    }

    fn clean_call(&self, thread: &mut Thread, exit: &Exit) -> Option<CacheAddress> {
        if exit.detail & super::ownership::CLEAN_CALL_BIT != 0 {
            return super::ownership::serve(self, thread, exit);
        }
        values::serve(self, thread, exit);
        Some(exit.stub)
    }

    fn control_reaches(&self, thread: &mut Thread, pc: u64) {
        super::functions::function(thread, pc);
    }

    fn annotated(&self, thread: &mut Thread, said: Annotation) {
        super::annotations::annotation(thread, said);
    }

    fn leaves_between_rounds(&self, at: CacheAddress, position: &Position) -> Rounds {
        match buffer::is_between_rounds(self, at, position) {
            true => Rounds::None,
            false => Rounds::All,
        }
    }

    fn redirected(&self, thread: &mut Thread, position: Position, completed: bool) {
        buffer::leave_by_call(self, thread, position, completed);
    }

    fn leave_mid_fragment(
        &self,
        thread: &mut Thread,
        cache: &Cache,
        at: CacheAddress,
        position: Position,
    ) {
        buffer::leave_mid_fragment(thread, cache, Some(at), position);
    }
}

impl Tracer {
    /// The thread is about to execute its first instruction.
    fn begin_thread(&self, thread: &mut Thread, birth: Option<Birth>) {
        let parent = birth.map(|birth| birth.parent);
        let mut trace = ThreadTrace::new(
            self,
            ThreadId(thread.number),
            thread.slots(),
            birth.and_then(|birth| birth.buffer),
        );
        self.skew.begin(thread, &mut trace);
        OF_THREAD.set(thread, Box::into_raw(trace));
        self.adopt(thread, birth.map(|birth| birth.after));
        let start = Event::Thread(ThreadEvent::Start {
            os_thread: thread.tid as u32,
            parent: parent.map(ThreadId),
        });
        event(thread, &start);
        if let (None, Some((_, trace))) = (parent, of(thread)) {
            // Nobody's creation of it tells a reader of the stream that it is there.
            trace.empty();
            trace.flush();
        }
        if self.plan.verify {
            tell_thread_pointer(thread);
        }
        modules::tell(self, thread);
        if parent.is_none() {
            self.start_keeper();
        }
    }

    /// The thread is about to create another one, which this is to be given to. Fails where the
    /// trace has come to its end.
    fn expect_child(&self, thread: &mut Thread, number: u64) -> Result<Birth, Reached> {
        let parent = thread.number;
        if OF_THREAD.get(thread).is_null() {
            return Ok(Birth {
                parent,
                after: 0,
                buffer: None,
            });
        }
        if number >= u64::from(self.ceilings.thread_numbers) {
            return Err(Reached::ThreadNumbers);
        }
        let buffer = Buffer::map(self).map_err(|_| Reached::BufferMemory)?;
        self.expect_thread().inspect_err(|_| buffer.unmap())?;
        let create = Event::Synchronisation(Synchronisation {
            operation: SyncOperation::ThreadCreate,
            object: number,
        });
        event(thread, &create);
        self.begin_sharing();
        // The new thread's time begins after this event.
        let after = self.enter_safe(thread);
        Ok(Birth {
            parent,
            after,
            buffer: Some(buffer),
        })
    }

    /// A child process was started, or could not be.
    fn forked(&self, thread: &mut Thread, child: i64) {
        if let Some((tracer, trace)) = of(thread)
            && let Some(progress) = &trace.progress
        {
            // A child in the parent's place may have died at rest.
            progress.wake(tracer);
        }
        if child > 0 {
            self.has_forked.store(true, Ordering::Relaxed);
            event(
                thread,
                &Event::Process(ProcessEvent::Fork {
                    child: child as u32,
                }),
            );
        }
    }
}

fn tell_thread_pointer(thread: &mut Thread) {
    let address = thread.slots().program_fs.get();
    event(thread, &Event::Thread(ThreadEvent::Pointer { address }));
}

/// Gives everything to the file and frees the thread's trace.
fn conclude(thread: &mut Thread) {
    let Some((tracer, trace)) = of(thread) else {
        return;
    };
    trace.empty();
    tracer.skew.end(thread.number);
    tracer.release(thread);
    if let Some(encoder) = trace.encoder.take() {
        broken_pipe::kept_from_program(|| encoder.finish());
    }
    // SAFETY: the pointer came from a box, and nobody else has it.
    drop(unsafe { Box::from_raw(OF_THREAD.get(thread)) });
    OF_THREAD.set(thread, std::ptr::null_mut());
}

/// A system call has ended.
fn call_ends(thread: &mut Thread, call: &Call, result: i64) {
    let Some((tracer, _)) = of(thread) else {
        return;
    };
    let changes_mappings = changes_mappings(call);
    if changes_mappings && let Err(reached) = tracer.follow_mappings() {
        tracer.note_end(Some(reached));
        detach::end_recording_next(thread, Exhausted(reached.to_string()));
    }
    tracer.leave_safe(thread);
    let Some((tracer, trace)) = of(thread) else {
        return;
    };
    if let Some(operation @ SyncOperation::FutexWait) = futex(call) {
        // Whoever ended the wait changed the word before: the wait's end comes later.
        super::ownership::own(tracer, thread, call.arguments[0], 4);
        trace.event(
            tracer,
            &Event::Synchronisation(Synchronisation {
                operation,
                object: call.arguments[0],
            }),
        );
    }
    let mut effects = Vec::new();
    let completeness = memory_effects(
        call.number,
        call.arguments,
        result,
        &guarded::read,
        &mut effects,
    );
    if completeness == Completeness::Unknown {
        // Whatever the arguments point to may have been written: said as one access to everything.
        let everything = Event::MemoryEffect(MemoryEffect {
            write: true,
            address: 0,
            size: u64::MAX,
        });
        trace.event(tracer, &everything);
    }
    if let Some(range) = unspool_engine::syscalls::memory_written(call, result) {
        effects.push(Effect {
            write: true,
            address: range.start,
            size: range.end - range.start,
        });
    }
    for effect in effects {
        if effect.write {
            super::ownership::own(tracer, thread, effect.address, effect.size);
        }
        let memory = Event::MemoryEffect(MemoryEffect {
            write: effect.write,
            address: effect.address,
            size: effect.size,
        });
        trace.event(tracer, &memory);
    }
    for (address, size) in replaced_memory(call, result) {
        trace.event(
            tracer,
            &Event::MemoryEffect(MemoryEffect {
                write: true,
                address,
                size,
            }),
        );
    }
    if let Some(mapped) = shared_memory::mapped(tracer.process(), call, result) {
        trace.event(tracer, &mapped);
    }
    trace.event(
        tracer,
        &Event::SystemCall(SystemCall::Exit {
            number: call.number as u32,
            result,
        }),
    );
    trace.set_recording(tracer.should_record(trace.registered));
    if changes_mappings {
        modules::follow(tracer, thread, call, result);
    }
}

fn futex(call: &Call) -> Option<SyncOperation> {
    const COMMAND: u64 = 0x7f;
    if call.number as i64 != libc::SYS_futex {
        return None;
    }
    match (call.arguments[1] & COMMAND) as i32 {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET | libc::FUTEX_LOCK_PI => {
            Some(SyncOperation::FutexWait)
        }
        libc::FUTEX_WAKE
        | libc::FUTEX_WAKE_BITSET
        | libc::FUTEX_WAKE_OP
        | libc::FUTEX_UNLOCK_PI => Some(SyncOperation::FutexWake),
        _ => None,
    }
}

/// Whether the kernel changes the futex word: one of the locks with priority inheritance.
fn changes_futex(call: &Call) -> bool {
    const COMMAND: u64 = 0x7f;
    let command = (call.arguments[1] & COMMAND) as i32;
    call.number as i64 == libc::SYS_futex
        && matches!(
            command,
            libc::FUTEX_LOCK_PI
                | libc::FUTEX_LOCK_PI2
                | libc::FUTEX_TRYLOCK_PI
                | libc::FUTEX_UNLOCK_PI
        )
}

/// Whether memory may be at other addresses behind a system call than before.
fn changes_mappings(call: &Call) -> bool {
    matches!(
        call.number as i64,
        libc::SYS_mmap
            | libc::SYS_munmap
            | libc::SYS_mremap
            | libc::SYS_mprotect
            | libc::SYS_pkey_mprotect
            | libc::SYS_shmat
            | libc::SYS_shmdt
            | libc::SYS_remap_file_pages
    )
}

/// Ranges whose contents a system call replaced that is about memory.
fn replaced_memory(call: &Call, result: i64) -> Vec<(u64, u64)> {
    let [first, second, third, ..] = call.arguments;
    if !succeeded(result) {
        return Vec::new();
    }
    match call.number as i64 {
        libc::SYS_mmap => vec![(result as u64, second)],
        libc::SYS_munmap | libc::SYS_madvise => vec![(first, second)],
        libc::SYS_mremap => vec![(first, second), (result as u64, third)],
        _ => Vec::new(),
    }
}
