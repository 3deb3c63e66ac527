//! The memory that sampled programs share with the command that samples them: a file which the
//! command makes, and which every process of a run maps parts of.
//!
//! It has a header and a *slot* for each thread that is sampled at one time. A slot is a ring of
//! records, as the kernel has one for each event that it samples (`perf_event_open(2)`): a page
//! with positions, then the data. The thread writes it, in the handler of its timer; the command
//! reads it. Records are the kernel's kinds too, with one that is our own ([`MAPS`]).
//!
//! Words are 64 bits and are accessed as one; where another size is meant, it is said. All numbers
//! are the machine's.
#![no_std]
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod regions;

/// What the header begins with. It changes with this file.
pub const MAGIC: u64 = 0x3230_746f_6c73_7375;

/// The environment variable with the file's path.
pub const VARIABLE: &core::ffi::CStr = c"UNSPOOL_PROFILE_SLOTS";

/// Slots of a file. Threads beyond are counted and not sampled.
pub const SLOTS: usize = 4096;

/// The header's size.
pub const HEADER_BYTES: usize = 4096 + 4 * SLOTS;

/// The page with a slot's positions, before its data.
pub const CONTROL_BYTES: usize = 4096;

/// A record of text lines as `/proc/PID/maps` has them: code that a process has mapped.
pub const MAPS: u32 = 0x8000_0000;

/// Where the words of the header are.
pub mod header {
    /// [`MAGIC`](super::MAGIC).
    pub const MAGIC: usize = 0;
    /// Bytes of each slot's ring: a power of two.
    pub const DATA_BYTES: usize = 8;
    /// The time of a thread from one sample to the next.
    pub const PERIOD_NS: usize = 16;
    /// How much of a stack is copied at most.
    pub const STACK_BYTES: usize = 24;
    /// The kernel's number of the clock: of the thread's CPU time or of the system's time.
    pub const CLOCK: usize = 32;
    /// The inode of the PID namespace whose numbers mean something to the reader.
    pub const PID_NAMESPACE: usize = 40;
    /// Threads that found no free slot.
    pub const WITHOUT_SLOT: usize = 64;
    /// Threads that could not map their slot, or for which there was no memory.
    pub const WITHOUT_MEMORY: usize = 72;
    /// Threads for which the kernel made no timer.
    pub const WITHOUT_TIMER: usize = 80;
    /// Processes that were in another PID namespace.
    pub const ELSEWHERE: usize = 88;
    /// The states of all slots, of 32 bits each ([`state`](super::state)).
    pub const STATES: usize = 4096;
}

/// Where the words of a slot's first page are.
pub mod slot {
    /// The thread's number.
    pub const TID: usize = 0;
    /// When its process began to execute this program, or was copied: another number is another
    /// program in the same process.
    pub const GENERATION: usize = 8;
    /// How often the thread's timer has expired.
    pub const EXPIRATIONS: usize = 16;
    /// How many of these left no sample, since there was no room for it.
    pub const LOST: usize = 24;
    /// What the clock of the thread's timer said when the thread began to be sampled.
    pub const BEGAN_NS: usize = 32;
    /// What it said at the latest sample, or at the thread's end.
    pub const LATEST_NS: usize = 40;
    /// The writer's position; where the kernel has it.
    pub const HEAD: usize = 1024;
    /// The reader's position.
    pub const TAIL: usize = 1032;
}

/// What has become of a slot: the number of the process that took it, and a stage.
pub mod state {
    /// Nobody uses it.
    pub const FREE: u32 = 0;
    /// A thread prepares it.
    pub const TAKEN: u32 = 1;
    /// A thread writes to it.
    pub const USED: u32 = 2;
    /// Its thread has ended; the reader gives it back.
    pub const ENDED: u32 = 3;

    /// A stage of a process's slot; the kernel has no number of a process above 2^22.
    #[must_use]
    pub const fn of(pid: u32, stage: u32) -> u32 {
        pid << 2 | stage
    }

    /// The stage, and the process.
    #[must_use]
    pub const fn parts(state: u32) -> (u32, u32) {
        (state & 3, state >> 2)
    }
}

/// Where a slot begins in the file.
#[must_use]
pub const fn offset(slot: usize, data_bytes: usize) -> usize {
    HEADER_BYTES + slot * (CONTROL_BYTES + data_bytes)
}

const _: () = assert!(HEADER_BYTES.is_multiple_of(4096));
