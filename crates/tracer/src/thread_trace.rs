//! What the tracer keeps for a thread, put together from what its parts keep.

use unspool_engine::client::PerThread;
use unspool_engine::thread::Thread;

use crate::functions::Frame;
use crate::ownership::Owner;
use crate::trace_buffer::TraceBuffer;
use crate::values::TakenBefore;

/// The trace of each thread; null if there is none. A child between `vfork` and `execve` uses its
/// parent's.
static OF_THREAD: PerThread<ThreadTrace> = PerThread::new();

/// What the tracer keeps for one thread.
pub(crate) struct ThreadTrace {
    pub(crate) buffer: TraceBuffer,
    pub(crate) owner: Owner,
    /// Calls of traced functions that have not returned.
    pub(crate) frames: Vec<Frame>,
    /// In verify mode: what was taken before the instruction that is being executed.
    pub(crate) taken: TakenBefore,
}

impl ThreadTrace {
    /// Begins one, with a buffer that records go to.
    pub(crate) fn new(buffer: TraceBuffer) -> Box<ThreadTrace> {
        Box::new(ThreadTrace {
            buffer,
            owner: Owner::default(),
            frames: Vec::new(),
            taken: TakenBefore::default(),
        })
    }
}

/// The trace of a thread, if there is one.
pub(crate) fn of(thread: &Thread) -> Option<&'static mut ThreadTrace> {
    // SAFETY: the trace belongs to this thread, or to its parent that waits; the reference does not
    // outlive what the engine has called the tracer for.
    unsafe { OF_THREAD.get(thread).as_mut() }
}

/// Gives a thread its trace.
pub(crate) fn keep(thread: &mut Thread, trace: Box<ThreadTrace>) {
    OF_THREAD.set(thread, Box::into_raw(trace));
}

/// Takes a thread's trace, which is its own.
pub(crate) fn take(thread: &mut Thread) -> Option<Box<ThreadTrace>> {
    let trace = OF_THREAD.get(thread);
    OF_THREAD.set(thread, std::ptr::null_mut());
    // SAFETY: the pointer came from a box, and nobody else in this process has it.
    (!trace.is_null()).then(|| unsafe { Box::from_raw(trace) })
}

/// A child in its parent's place uses the parent's.
pub(crate) fn share(child: &mut Thread, parent: &Thread) {
    OF_THREAD.set(child, OF_THREAD.get(parent));
}
