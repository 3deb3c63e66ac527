//! What happens in a program besides memory accesses.

use crate::cache_control::{Fence, LineOperation};
use crate::id::{FunctionId, ModuleId, ThreadId};

/// How threads are made to wait for one another, as the engine sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum SyncOperation {
    /// A thread was created; the object is its [`ThreadId`].
    ThreadCreate = 0,
    /// A futex word was waited on, and the wait has ended. The object is its address.
    FutexWait = 1,
    /// Waiters of a futex word were woken. The object is its address.
    FutexWake = 2,
    /// A thread's end is about to be announced at its clear-tid address, which is the object
    /// (what `join` waits for); 0 where it has none.
    ThreadExit = 3,
    /// A `membarrier` or another system call that orders memory. The object is the call's number.
    SystemCall = 4,
}

impl SyncOperation {
    /// The inverse of `operation as u64`.
    #[must_use]
    pub fn from_u64(value: u64) -> Option<SyncOperation> {
        [
            SyncOperation::ThreadCreate,
            SyncOperation::FutexWait,
            SyncOperation::FutexWake,
            SyncOperation::ThreadExit,
            SyncOperation::SystemCall,
        ]
        .into_iter()
        .find(|operation| *operation as u64 == value)
    }
}

/// Something that happened in one thread, at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The thread begins. First event of every thread.
    ThreadStart {
        /// The kernel's thread id.
        os_thread: u32,
        /// The thread that created it; none for the first.
        parent: Option<ThreadId>,
    },
    /// The program gave the thread a number and a name (`unspool_register_thread`).
    ThreadRegistered {
        /// The program's number for the thread.
        number: i64,
        /// The program's name for the thread; may be empty.
        name: String,
    },
    /// The thread ends. Last event of every thread that ended while observed.
    ThreadEnd,
    /// The thread pointer (FS base) changed.
    ThreadPointer {
        /// Its new value.
        address: u64,
    },
    /// A traced function was called.
    FunctionCall {
        /// Which function.
        function: FunctionId,
        /// The stack pointer on entry: matches the call with its return.
        stack_pointer: u64,
        /// The first three integer arguments (rdi, rsi, rdx).
        arguments: [u64; 3],
    },
    /// A traced function returned.
    FunctionReturn {
        /// Which function.
        function: FunctionId,
        /// The stack pointer that its call had on entry.
        stack_pointer: u64,
        /// rax.
        value: u64,
    },
    /// A region of interest starts.
    RegionStart,
    /// A region of interest ends.
    RegionEnd,
    /// Control changed outside the program's own flow: a signal handler starts. The next
    /// access may follow another one than the code suggests.
    ContextChange {
        /// The signal.
        signal: u32,
    },
    /// The thread's clock was moved forward so that threads stay close (`--max-skew`).
    ThreadSync,
    /// Threads synchronised.
    Sync {
        /// How.
        operation: SyncOperation,
        /// On what.
        object: u64,
    },
    /// A system call begins.
    SystemCallEntry {
        /// Its number.
        number: u32,
        /// Its six arguments.
        arguments: [u64; 6],
    },
    /// A system call ended.
    SystemCallExit {
        /// Its number.
        number: u32,
        /// What it returned: a value, or minus an errno.
        result: i64,
    },
    /// The kernel read or wrote program memory on behalf of the thread, at some time
    /// between the system call's entry and exit.
    SystemMemory {
        /// Whether the kernel wrote it.
        write: bool,
        /// First byte.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// A range of memory was mapped, in the system call that has not returned yet or before the
    /// thread began, that other mappings and other processes may show as well.
    SharedMemory {
        /// First byte.
        address: u64,
        /// Bytes.
        size: u64,
        /// The device of the memory object; the greatest two numbers stand for memory without a
        /// file and for System V segments.
        device: u64,
        /// The object's number on the device.
        inode: u64,
        /// Which byte of the object comes first.
        offset: u64,
        /// Whether this process has made it and given it to nobody.
        own: bool,
    },
    /// An instruction flushed or prefetched a line of the caches, or asked for that.
    CacheLine {
        /// What it did.
        operation: LineOperation,
        /// Address of the instruction.
        pc: u64,
        /// The byte whose line it is.
        address: u64,
    },
    /// A fence.
    Fence {
        /// Which.
        fence: Fence,
        /// Address of the instruction.
        pc: u64,
    },
    /// An instruction was executed. Only where that was asked for.
    InstructionFetch {
        /// Its address.
        pc: u64,
        /// Its bytes.
        size: u8,
    },
    /// A module was mapped.
    ModuleLoad {
        /// Which one.
        module: ModuleId,
    },
    /// A module was unmapped.
    ModuleUnload {
        /// Which one.
        module: ModuleId,
    },
    /// The thread forked (or vforked) a child process.
    Fork {
        /// The kernel's id of the child.
        child: u32,
    },
    /// The process is about to become another program.
    Exec,
    /// Records were lost, and why.
    Dropped {
        /// How many words of the raw stream.
        words: u64,
        /// Why, for people.
        reason: String,
    },
}
