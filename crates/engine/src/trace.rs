//! Memory traces.

use crate::cache::{Cache, CacheFull, Exit, Position};
use crate::plan::Plan;
use crate::process::Process;
use crate::start::{Program, StartError};
use crate::thread::Thread;
use crate::translate::Source;
use crate::syscalls::Call;

/// What the trace keeps for one thread.
pub struct ThreadTrace {}
/// tracer
pub struct Tracer {}
impl Tracer {
    /// Starts.
    pub fn start(_plan: &Plan, _program: &Program, _loaded: &crate::loader::LoadedProgram) -> Result<Option<Tracer>, StartError> { Ok(None) }
    /// files
    pub fn files(&self) -> Vec<i32> { Vec::new() }
}

pub(crate) fn context_change(_thread: &mut Thread, _signal: i32) {}
pub(crate) fn buffer_fault(_thread: &mut Thread, _address: u64) -> bool { false }
pub(crate) fn leave_midway(_thread: &mut Thread, _cache: &Cache, _at: u64, _position: Position) {}
pub(crate) fn empty_buffer(_thread: &mut Thread) {}
pub(crate) fn service(_thread: &mut Thread, _exit: &Exit) -> Option<u64> { None }
pub(crate) fn annotation(_thread: &mut Thread) {}
pub(crate) fn function(_thread: &mut Thread, _exit: &Exit) {}
pub(crate) fn translate(_t: &Tracer, _cache: &mut Cache, _source: &Source, _pc: u64) -> Result<(), CacheFull> { Ok(()) }
pub(crate) fn finish(_process: &Process, _thread: &mut Thread) {}
pub(crate) fn thread_parks(_thread: &mut Thread) {}
pub(crate) fn system_call_entry(_thread: &mut Thread, _call: &Call) {}
pub(crate) fn system_call_exit(_thread: &mut Thread, _call: &Call, _result: i64) {}
pub(crate) fn thread_pointer_changed(_thread: &mut Thread, _address: u64) {}
pub(crate) fn thread_created(_thread: &mut Thread, _number: u32) {}
pub(crate) fn thread_starts(_thread: &mut Thread, _parent: Option<u32>) {}
pub(crate) fn thread_ends(_thread: &mut Thread) {}
pub(crate) fn before_fork(_thread: &mut Thread) {}
pub(crate) fn after_fork(_thread: &mut Thread, _t: (), _child: i64) {}
pub(crate) fn forked(_thread: &mut Thread, _child: i64) {}
pub(crate) fn event(_thread: &mut Thread, _event: &unspool_events::Event) {}
