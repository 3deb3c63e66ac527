//! What the engine tells the debugger.

use std::ffi::CString;
use std::path::Path;
use unspool_kernel::ids::Tid;

use unspool_loader::LoadedProgram;

use super::hooks::{self, concerns};
use super::reason::Reason;
use super::world::{self, is_enabled};
use super::{debuggee, watch};
use unspool_engine::StartError;
use unspool_engine::call::Call;
use unspool_engine::client::Refusal;
use unspool_engine::client::{Client, End, Inheritance, NewClient};
use unspool_engine::plan::Program;
use unspool_engine::process::Process;
use unspool_engine::thread::{PendingSignal, Thread};

/// The debugger, whose state is that of the world that it has stopped.
struct Debugger;

/// The debugger that has been [installed](super::install), if one has.
#[must_use]
pub fn debugger() -> Option<Box<dyn NewClient>> {
    is_enabled().then(|| Box::new(Debugger) as Box<dyn NewClient>)
}

impl NewClient for Debugger {
    fn join(
        self: Box<Self>,
        _program: &Program,
        _loaded: &LoadedProgram,
    ) -> Result<Option<&'static dyn Client>, StartError> {
        Ok(Some(&Debugger))
    }
}

impl Client for Debugger {
    fn files(&self) -> Vec<i32> {
        hooks::files()
    }

    fn thread_starts(&self, thread: &mut Thread, _inheritance: Option<&Inheritance>) {
        if concerns(thread) {
            world::lock().stand(thread);
        }
    }

    fn thread_gone(&self, tid: Tid) {
        hooks::thread_gone(tid);
    }

    fn program_loaded(&self, process: &'static Process, program: &LoadedProgram) {
        debuggee::start(process, program);
    }

    /// The child goes on without the debugger.
    fn copy_begins(&self, process: &Process) {
        hooks::after_fork(process);
    }

    fn executes(&self, thread: &mut Thread, _program: &Path, _arguments: &[CString]) {
        hooks::execute(thread);
    }

    fn refuses_to_let_go(&self) -> Option<Refusal> {
        is_enabled().then_some(Refusal::Debugger)
    }

    fn before_end(&self, thread: &mut Thread) {
        hooks::before_ending(thread);
    }

    fn ended(&self, thread: &mut Thread, end: End) {
        let reason = match end {
            End::Exited(status) => Reason::Exited(status),
            End::Killed(signal) => Reason::Killed(signal),
        };
        hooks::ended(thread, reason);
    }

    fn may_enter(&self, thread: &Thread) -> bool {
        hooks::may_enter(thread)
    }

    fn hold(&self, thread: &mut Thread) {
        hooks::stop_here(thread);
    }

    fn call_begins(&self, thread: &mut Thread, call: &Call) {
        hooks::call_begins(thread, call);
    }

    fn call_over(&self, thread: &mut Thread, result: Option<i64>, again: bool) -> bool {
        hooks::call_ends(thread, result, again)
    }

    fn signal_due(&self, thread: &mut Thread, signal: PendingSignal) -> Option<PendingSignal> {
        hooks::offer(thread, signal)
    }

    fn stops_at_breakpoint(&self, thread: &mut Thread) -> bool {
        hooks::at_breakpoint(thread)
    }

    /// For a step, that is an instruction.
    fn handler_entered(&self, thread: &mut Thread) {
        hooks::stepped(thread);
    }

    fn stepped(&self, thread: &mut Thread) {
        hooks::stepped(thread);
    }

    /// What it touches is known when it is over.
    fn must_complete(&self, thread: &Thread) -> bool {
        watch::is_touching(thread)
    }

    fn faulted(&self, thread: &mut Thread) {
        watch::forget_touches(thread);
    }
}
