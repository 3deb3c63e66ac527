//! Clients: whoever listens to a run of the program, or changes it.
//!
//! A tracer, a tool and a debugger are clients. The engine tells each of them what happens to
//! threads, system calls, signals, processes and translations, and knows no more of them than
//! [`Client`]: several may be there at once, in the order in which `Process::clients` lists them,
//! and where there is none nothing is asked or told. Whoever puts a run together gives them to
//! [`run`](crate::run), each as a [`NewClient`].

mod all;
mod answers;
mod fragments;
mod inheritance;
mod joining;
mod refusal;
mod threads;
mod told;

use std::any::Any;
use std::ffi::CString;
use std::path::Path;
use unspool_events::ThreadId;
use unspool_kernel::ids::Tid;

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::binding::LookupConvention;
use unspool_code_cache::cache::{Cache, CacheFull, Exit, Position};
use unspool_code_cache::exit::CleanCall;
use unspool_code_cache::gates::Continuation;
use unspool_loader::LoadedProgram;

use crate::annotation::Annotation;
use crate::call::Call;
use crate::plan::ClientPlan;
use crate::process::{Process, ThreadOrdinal};
use crate::thread::{PendingSignal, Thread};
use crate::translate::insertion::Inserter;

pub use self::all::{Clients, THREAD_STACK};
pub use self::answers::{ClientFault, End, Ending, Exhausted, Rounds};
pub use self::fragments::PerFragment;
pub use self::inheritance::Inheritance;
pub(crate) use self::inheritance::Inherited;
pub use self::joining::NewClient;
pub use self::refusal::Refusal;
pub use self::threads::{ClientData, PerThread};
pub use self::told::memory_written;
pub(crate) use self::told::{
    before_end, begin_wait, end_wait, ended, first_thread_starts, may_enter, must_complete,
    thread_ends, thread_parks, thread_pointer_changed,
};

/// What a client is told, and asked. All methods do nothing unless a client says otherwise.
///
/// Methods with a `thread` are called by that thread, outside translated code unless they say
/// something else.
pub trait Client: Send + Sync {
    /// Descriptors of the client's, which the program must not close.
    fn files(&self) -> Vec<i32> {
        Vec::new()
    }

    // Translation.

    /// What is spilled where indirect branches arrive, if the client decides that.
    fn convention(&self) -> Option<LookupConvention> {
        None
    }

    /// What the client inserts into the superblock at `pc`, which is about to be translated. `None`:
    /// it inserts nothing.
    ///
    /// # Errors
    /// If translations have to begin anew first.
    fn inserter(&'static self, _pc: u64) -> Result<Option<Box<dyn Inserter>>, CacheFull> {
        Ok(None)
    }

    /// None of the translations made so far will be entered again.
    fn translations_unreachable(&self) {}

    /// What inserted checks call where they fail, by the gate that keeps the program's registers.
    fn slow_check(&self) -> Option<extern "C" fn() -> Continuation> {
        None
    }

    /// Whether inserted code calls functions of the client's.
    fn has_functions(&self) -> bool {
        false
    }

    /// Whether code of such a function is at a place in the cache.
    fn is_function(&self, _at: CacheAddress) -> bool {
        false
    }

    /// No translation is left, nor anything that refers to one.
    fn translations_gone(&self) {}

    // Threads.

    /// Bytes of the engine's stack that a thread needs, if that is more than usual.
    fn stack_size(&self) -> usize {
        0
    }

    /// The thread is about to create another one.
    fn thread_created(
        &self,
        _creator: &mut Thread,
        _ordinal: ThreadOrdinal,
    ) -> Result<Option<Inheritance>, Exhausted> {
        Ok(None)
    }

    /// The thread for which an inheritance was made could not be started.
    fn thread_not_started(&self, _id: ThreadId, _inheritance: Option<&Inheritance>) {}

    /// A thread could not be created because a client was exhausted, and the process could not be
    /// let go: it goes on with the threads that it has.
    fn exhaustion_refused(&self) {}

    /// The thread is about to execute its first instruction. The first thread inherits nothing.
    fn thread_starts(&self, _thread: &mut Thread, _inheritance: Option<&Inheritance>) {}

    /// The thread has executed its last instruction, and nobody in the program can know. If it is
    /// the last one, the process ends behind this.
    fn end_comes(&self, _thread: &mut Thread) {}

    /// The thread tells whoever waits for its end next.
    fn end_is_announced(&self, _thread: &mut Thread) {}

    /// The thread has executed its last instruction.
    fn thread_ends(&self, _thread: &mut Thread) {}

    /// A thread of this id is not listed any more.
    fn thread_gone(&self, _tid: Tid) {}

    /// The thread stands still until the process ends, or another program takes its place.
    fn thread_parks(&self, _thread: &mut Thread) {}

    /// It goes on after [`Client::thread_parks`]: the process goes on with this program.
    fn thread_starts_again(&self, _thread: &mut Thread) {}

    /// The program's FS base of the thread has changed.
    fn thread_pointer_changed(&self, _thread: &mut Thread, _address: u64) {}

    // Processes.

    /// There is a process, in which nothing runs yet: a client that needs it elsewhere than beside a
    /// thread keeps it.
    fn run_begins(&self, _process: &'static Process) {}

    /// The program is loaded, and its first thread has started.
    fn program_loaded(&self, _process: &'static Process, _program: &LoadedProgram) {}

    /// The thread is about to make a copy of the process.
    fn before_fork(&self, _thread: &mut Thread) {}

    /// In the copy, before anything of it is set up.
    fn copy_begins(&self, _process: &Process) {}

    /// The copy has this id, or minus this error; 0: this is the copy, and set up.
    fn after_fork(&self, _thread: &mut Thread, _child: i64) {}

    /// The thread is about to start a child in its place. Returns what [`Client::after_vfork`] is
    /// given.
    fn before_vfork(&self) -> usize {
        0
    }

    /// The child is gone from the thread's place, or there was none: minus an error.
    fn after_vfork(&self, _thread: &mut Thread, _kept: usize, _child: i64) {}

    /// A child begins to run code in its parent's place.
    fn vfork_child_starts(&self, _thread: &mut Thread, _parent: &Thread) {}

    /// It is about to leave that place.
    fn vfork_child_leaves(&self, _thread: &mut Thread) {}

    /// The kernel is about to be asked for another program in this one's place, which can be
    /// executed as far as one sees.
    fn executes(&self, _thread: &mut Thread, _program: &Path, _arguments: &[CString]) {}

    /// What the client of the program's next image is told, which takes this one's place in this
    /// process or in a child of it.
    fn plan_for_next(&self, _is_child: bool) -> Option<ClientPlan> {
        None
    }

    /// What the user can do where the program asks for memory that is the engine's, if the client
    /// could do without.
    fn way_out_of_reserved_memory(&self) -> Option<&'static str> {
        None
    }

    /// What keeps the process from being let go, on the client's side.
    fn refuses_to_let_go(&self) -> Option<Refusal> {
        None
    }

    /// Whether the end of the process is more than that of its threads.
    fn concludes(&self) -> bool {
        false
    }

    /// The thread is about to end the process.
    fn before_end(&self, _thread: &mut Thread) {}

    /// The thread waits from now on, until what is returned is dropped, for all others to park.
    fn end_begins(&self, _ending: Ending) -> Option<Box<dyn Any>> {
        None
    }

    /// The calling thread has waited for long until clients know of a thread that it starts, and waits on
    /// until what is returned is dropped.
    fn start_waits(&self) -> Option<Box<dyn Any>> {
        None
    }

    /// All other threads have parked: the process ends, or becomes another program.
    fn conclude(&self, _thread: &mut Thread, _ending: Ending) {}

    /// The process goes on after [`Client::conclude`], with this program. Others start again
    /// behind this.
    fn goes_on(&self, _thread: &mut Thread) {}

    /// The exit status with which the process ends whose program ends with `status`.
    fn final_status(&self, status: i32) -> i32 {
        status
    }

    /// The process ends next.
    fn ended(&self, _thread: &mut Thread, _end: End) {}

    /// There is no memory left for so many bytes: the process ends next. Nothing may be allocated.
    fn out_of_memory(&self, _bytes: usize) {}

    // Safe points.

    /// Whether the thread may go into the code cache, as far as the client is concerned.
    fn may_enter(&self, _thread: &Thread) -> bool {
        true
    }

    /// Holds the thread, which may not enter, until it may.
    fn hold(&self, _thread: &mut Thread) {}

    /// The thread is in the code cache from now on, or looks for its way there.
    fn enters(&self, _thread: &mut Thread) {}

    /// The thread has come out of the code cache.
    fn goes_outside(&self, _thread: &mut Thread) {}

    /// The thread comes out because somebody has asked for it.
    fn interrupted(&self, _thread: &mut Thread) {}

    /// Whether all threads are to come out of the code cache.
    fn wants_all_outside(&self) -> bool {
        false
    }

    /// All threads are outside the code cache, and stay there meanwhile.
    fn all_outside(&self, _thread: &mut Thread) {}

    /// The thread, out of the cache, waits for other threads of the program.
    fn begin_wait(&self, _thread: &mut Thread) {}

    /// It goes on.
    fn end_wait(&self, _thread: &mut Thread) {}

    /// The thread is about to wait in the kernel, perhaps for long.
    fn begin_rest(&self) {}

    /// It goes on.
    fn end_rest(&self) {}

    // System calls.

    /// The program asks for a system call, which the client may change.
    fn call_asked(&self, _thread: &mut Thread, _call: &mut Call) {}

    /// The call is made next.
    fn call_begins(&self, _thread: &mut Thread, _call: &Call) {}

    /// The call is over, with its result if it has one, or is to be made again. Returns whether the
    /// client has put the thread's registers in place itself.
    fn call_over(&self, _thread: &mut Thread, _result: Option<i64>, _again: bool) -> bool {
        false
    }

    /// The thread is behind a call without a result.
    fn call_left(&self, _thread: &mut Thread) {}

    /// The call has this result, which the client may change.
    fn call_result(&self, _thread: &mut Thread, _call: &Call, _result: &mut i64) {}

    /// The thread stands behind the call, with its result in place.
    fn call_returned(&self, _thread: &mut Thread, _call: &Call, _result: i64) {}

    /// The kernel does nothing more in the call. One that is to be made again has ended because a
    /// signal came.
    fn call_ends(&self, _thread: &mut Thread, _call: &Call, _result: i64) {}

    /// The engine is about to write program memory on the kernel's behalf.
    fn memory_written(&self, _thread: &mut Thread, _address: u64, _size: u64) {}

    /// Another client writes program memory, at any time.
    fn memory_changed(&self) {}

    // Signals and steps.

    /// The thread is about to get a signal. Returns what it gets instead.
    fn signal_due(&self, _thread: &mut Thread, signal: PendingSignal) -> Option<PendingSignal> {
        Some(signal)
    }

    /// A signal that is not ignored is about to be delivered. Returns whether it is to be.
    fn signal_comes(&self, _thread: &mut Thread, _signal: &PendingSignal) -> bool {
        true
    }

    /// A handler of the program's is about to be called.
    fn handler_called(&self, _thread: &mut Thread, _signal: i32) {}

    /// The handler's first instruction is next.
    fn handler_entered(&self, _thread: &mut Thread) {}

    /// The thread has executed one instruction.
    fn stepped(&self, _thread: &mut Thread) {}

    /// In the handler of a signal: whether a fault is the client's own. The thread may be none of
    /// the program's.
    fn fault(&self, _pc: u64, _address: u64) -> Option<ClientFault> {
        None
    }

    /// In the handler of a signal: where the slow part of an inserted check is that was misaligned
    /// there.
    fn slow_part(&self, _at: CacheAddress) -> Option<CacheAddress> {
        None
    }

    /// In the handler of a signal: where the client's code goes on that has looked there at memory
    /// which is gone.
    fn passes_over(&self, _at: CacheAddress) -> Option<CacheAddress> {
        None
    }

    /// In the handler of a signal: the thread, which is in a function of the client's, is asked to
    /// keep where that is.
    fn tell_place(&self) {}

    /// Whether the thread must not be left between two rounds of the repeated string instruction
    /// that it executes.
    fn must_complete(&self, _thread: &Thread) -> bool {
        false
    }

    /// An instruction has faulted.
    fn faulted(&self, _thread: &mut Thread) {}

    // Inside the code cache, with the code cache's lock where a cache is given.

    /// Whether an instruction has met the guard page of a full buffer, which is emptied next.
    fn is_full(&self, _thread: &mut Thread, _address: u64) -> bool {
        false
    }

    /// Empties the buffers that are full. The thread goes on where it was.
    fn empty_buffers(&self, _thread: &mut Thread) {}

    /// Code in the middle of a fragment asks for something. Returns where the thread goes on.
    fn clean_call(
        &self,
        _thread: &mut Thread,
        _call: CleanCall,
        _exit: &Exit,
    ) -> Option<CacheAddress> {
        None
    }

    /// Calls the function that inserted code wants to have called, with the program's whole state.
    /// Returns whether it has had the program go on elsewhere.
    fn calls(&self, _thread: &mut Thread) -> bool {
        false
    }

    /// A hook has had the program go on elsewhere.
    fn redirects(&self, _thread: &mut Thread) {}

    /// Control has reached an address of the program's that the client has hooked.
    fn control_reaches(&self, _thread: &mut Thread, _pc: u64) {}

    /// Control is about to reach such a place. Returns whether all translations have become unreachable
    /// for that: the place is translated anew then, and control reaches it there.
    fn starts_anew(&self, _thread: &mut Thread, _pc: u64) -> bool {
        false
    }

    /// The program has said something of itself.
    fn annotated(&self, _thread: &mut Thread, _said: Annotation) {}

    /// The thread is before an instruction with a breakpoint. Returns whether it stops there.
    fn stops_at_breakpoint(&self, _thread: &mut Thread) -> bool {
        false
    }

    /// Whether the thread can be left at a repeated string instruction of a program, between two
    /// of its rounds, where `at` is in the cache.
    fn leaves_between_rounds(&self, _at: CacheAddress, _position: &Position) -> Rounds {
        Rounds::All
    }

    /// It has been left there, with the program's registers in the slots.
    fn left_between_rounds(&self, _at: CacheAddress, _position: &Position) {}

    /// A fragment is left in its middle, with the cache's registers in the slots.
    fn leave_mid_fragment(
        &self,
        _thread: &mut Thread,
        _cache: &Cache,
        _at: CacheAddress,
        _position: Position,
    ) {
    }

    /// Likewise, with the program's registers in the slots. `completed`: the instruction at the
    /// position has been executed.
    fn left_mid_fragment(&self, _position: Position, _completed: bool) {}

    /// A function that code in the middle of a fragment has called ([`Client::calls`]) has had the
    /// program go on elsewhere. `completed`: as for [`Client::left_mid_fragment`].
    fn redirected(&self, _thread: &mut Thread, position: Position, completed: bool) {
        self.left_mid_fragment(position, completed);
    }
}
