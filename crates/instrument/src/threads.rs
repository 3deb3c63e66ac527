//! What a tool is told of a thread.

use std::cell::Cell;
use std::ops::Range;

use unspool_code_cache::emit::gpr;
use unspool_code_cache::slots::slots;
use unspool_engine::client::Inheritance;
use unspool_engine::thread::Thread;
use unspool_instructions::decode::Segment;

use super::growth;

/// A thread of the program, as it is at the time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ThreadInfo {
    /// 0 for the first thread, 1 for the next one to be created, and so on.
    pub number: u32,
    /// The number of the thread that has created it; none has created the first one.
    pub parent: Option<u32>,
    /// The kernel's number of it, as `gettid` returns it (in the PID namespace of the command).
    pub kernel_id: u32,
    /// Where its segment FS starts: its `pthread_t`, with all C libraries for Linux. 0 at the start
    /// of the first thread, which has the C library still to be loaded.
    pub thread_pointer: u64,
    /// The mapping in which its stack pointer is, as it is at this moment. That of the first thread
    /// grows: see [`MappingCause::Growth`](crate::MappingCause::Growth).
    pub stack: Range<u64>,
    /// All that this mapping may come to: of the first thread what its limit allowed when the program
    /// started, and what the kernel keeps free below in any case (128 MiB); else the same.
    pub stack_reach: Range<u64>,
    /// Its name, as far as the kernel keeps it: 15 bytes. It is its creator's at the start.
    pub name: String,
}

thread_local! {
    static PARENT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// What a thread inherits from its creator.
pub(super) fn inheritance(creator: &Thread) -> Inheritance {
    Box::new(creator.id.0)
}

/// The calling thread is about to execute its first instruction, or does so once more.
pub(super) fn start(inherited: Option<&Inheritance>) {
    let parent = inherited.and_then(|it| it.downcast_ref::<u32>());
    if let Some(parent) = parent {
        PARENT.set(Some(*parent));
    }
}

/// The calling thread.
pub(super) fn info(thread: &Thread) -> ThreadInfo {
    let stack = thread.register(gpr::RSP);
    let mapping = {
        let code = thread.process.code();
        let found = code.regions.find(stack);
        found.map(|(start, region)| {
            let lowest = growth::lowest(&code.regions, start);
            (lowest..region.end, start.min(lowest)..region.end)
        })
    };
    let nowhere = || (stack..stack, stack..stack);
    let (mapped, reach) = mapping.unwrap_or_else(nowhere);
    ThreadInfo {
        number: thread.id.0,
        parent: PARENT.get(),
        kernel_id: thread.tid.get() as u32,
        thread_pointer: slots().base(Segment::Fs),
        stack: mapped,
        stack_reach: reach,
        name: name(),
    }
}

/// The calling thread's name.
fn name() -> String {
    let mut name = [0_u8; 16];
    // SAFETY: the kernel writes 16 bytes at most.
    let known = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) } == 0;
    let end = name.iter().position(|byte| *byte == 0).filter(|_| known);
    String::from_utf8_lossy(&name[..end.unwrap_or(0)]).into_owned()
}
