//! What a tool is told of a thread.

use std::cell::Cell;
use std::ops::Range;

use unspool_code_cache::emit::gpr;
use unspool_code_cache::slots::slots;
use unspool_engine::client::Inheritance;
use unspool_engine::thread::Thread;
use unspool_instructions::decode::Segment;

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
    /// The mapping in which its stack pointer is. That of the first thread grows.
    pub stack: Range<u64>,
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
    let mapping = thread.process.code().regions.find(stack);
    ThreadInfo {
        number: thread.id.0,
        parent: PARENT.get(),
        kernel_id: thread.tid.get() as u32,
        thread_pointer: slots().base(Segment::Fs),
        stack: mapping.map_or(stack..stack, |(start, region)| start..region.end),
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
