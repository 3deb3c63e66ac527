//! What system calls mean for order: which are under way, and which descriptors are plain files.

use rustc_hash::{FxHashMap, FxHashSet};
use unspool_events::{CallOrder, Carries, ThreadId, call_order};

use super::detector::Channel;

// Numbers: `arch/x86/entry/syscalls/syscall_64.tbl` of the Linux kernel.
const OPEN: u32 = 2;
const CLOSE: u32 = 3;
const MMAP: u32 = 9;
const MUNMAP: u32 = 11;
const BRK: u32 = 12;
const MREMAP: u32 = 25;
const MADVISE: u32 = 28;
const SHMAT: u32 = 30;
const CLONE: u32 = 56;
const FORK: u32 = 57;
const VFORK: u32 = 58;
const EXIT: u32 = 60;
const SHMDT: u32 = 67;
const CREAT: u32 = 85;
const FUTEX: u32 = 202;
const SET_TID_ADDRESS: u32 = 218;
const OPENAT: u32 = 257;
const SET_ROBUST_LIST: u32 = 273;
const RSEQ: u32 = 334;
const CLONE3: u32 = 435;
const OPENAT2: u32 = 437;

// Commands of `futex` by which the kernel hands over a lock: `include/uapi/linux/futex.h`.
const LOCK_PI: u64 = 6;
const UNLOCK_PI: u64 = 7;
const TRYLOCK_PI: u64 = 8;
const WAIT_REQUEUE_PI: u64 = 11;
const LOCK_PI2: u64 = 13;
/// That memory is for a stack: `include/uapi/asm-generic/mman.h`.
const MAP_STACK: u64 = 0x2_0000;
/// Without the flags beside it.
const COMMAND: u64 = 0x7f;

/// A system call that has not returned.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingCall {
    pub(super) number: u32,
    pub(super) arguments: [u64; 6],
    /// How it carries order.
    pub(super) order: CallOrder,
    /// Whether what it learns of others is known.
    pub(super) has_taken: bool,
}

/// What the kernel's accesses in a call mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// They are accesses of the thread.
    Accesses,
    /// The memory is other memory now.
    NewMemory,
    /// They are no accesses that could meet others: see [`PendingCall::meaning`].
    Nothing,
}

/// The calls of all threads.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pending: FxHashMap<ThreadId, PendingCall>,
    /// Descriptors that name files that were opened by a path.
    files: FxHashSet<u64>,
}

impl Calls {
    /// A call begins.
    pub(super) fn enter(&mut self, id: ThreadId, number: u32, arguments: [u64; 6]) -> PendingCall {
        let is_of_file = self.files.contains(&arguments[0]);
        let order = call_order(number);
        let is_data = |carries: Option<Carries>| carries == Some(Carries::Data);
        let order = match is_of_file && (is_data(order.gives) || is_data(order.takes)) {
            true => CallOrder::default(),
            false => order,
        };
        if number == CLOSE {
            self.files.remove(&arguments[0]);
        }
        let call = PendingCall {
            number,
            arguments,
            order,
            has_taken: false,
        };
        self.pending.insert(id, call);
        call
    }

    /// The call that a thread is in.
    pub(super) fn pending(&mut self, id: ThreadId) -> Option<&mut PendingCall> {
        self.pending.get_mut(&id)
    }

    /// A call has ended.
    pub(super) fn leave(&mut self, id: ThreadId, result: i64) -> Option<PendingCall> {
        let call = self.pending.remove(&id)?;
        if matches!(call.number, OPEN | CREAT | OPENAT | OPENAT2)
            && let Ok(descriptor) = u64::try_from(result)
        {
            self.files.insert(descriptor);
        }
        Some(call)
    }
}

impl PendingCall {
    /// What the kernel's accesses in this call mean.
    pub(super) fn meaning(&self) -> Meaning {
        match self.number {
            MMAP | MUNMAP | MREMAP | MADVISE | SHMAT | SHMDT | BRK => Meaning::NewMemory,
            // The kernel compares and changes futex words atomically, and reads the lists of robust
            // locks where a thread has died. What a thread is started with is written before it
            // begins, and noted when the call has returned, perhaps when the thread has read it.
            FUTEX | CLONE | CLONE3 | FORK | VFORK | SET_ROBUST_LIST | RSEQ | SET_TID_ADDRESS
            | EXIT => Meaning::Nothing,
            _ => Meaning::Accesses,
        }
    }

    /// The word of a lock that the kernel hands on for the thread: in a lock with priority
    /// inheritance it is the kernel that stores the next owner.
    pub(super) fn released_lock(&self) -> Option<u64> {
        (self.futex_command() == Some(UNLOCK_PI)).then_some(self.arguments[0])
    }

    /// The word of a lock that the thread has been handed, if the call has succeeded.
    pub(super) fn taken_lock(&self) -> Option<u64> {
        match self.futex_command()? {
            LOCK_PI | LOCK_PI2 | TRYLOCK_PI => Some(self.arguments[0]),
            WAIT_REQUEUE_PI => Some(self.arguments[4]),
            _ => None,
        }
    }

    fn futex_command(&self) -> Option<u64> {
        (self.number == FUTEX).then_some(self.arguments[1] & COMMAND)
    }

    /// The memory that the call has mapped for a stack, if it has.
    pub(super) fn mapped_stack(&self, result: i64) -> Option<(u64, u64)> {
        let is_for_stack = self.number == MMAP && self.arguments[3] & MAP_STACK != 0;
        let address = u64::try_from(result).ok().filter(|_| is_for_stack)?;
        Some((address, self.arguments[1]))
    }

    /// A range that is given back, and may be somebody else's before the call has returned.
    pub(super) fn given_back(&self) -> Option<(u64, u64)> {
        (self.number == MUNMAP).then_some((self.arguments[0], self.arguments[1]))
    }
}

/// The channel by which something goes.
pub(super) fn channel(carries: Carries) -> Channel {
    match carries {
        Carries::Data => Channel::Descriptors,
        Carries::Signals => Channel::Signals,
    }
}
