//! Where each field of the file is, in bytes. Every field is a little-endian 64-bit word
//! unless something else is said, and aligned, so that a reader never sees half of one.
//!
//! ```text
//! file   := header (HEADER_BYTES) block*
//! block  := kind, owner, used, 0…  (BLOCK_HEADER_BYTES)  content   = BLOCK_BYTES in all
//! ```
//!
//! | block | content | `used` |
//! |---|---|---|
//! | thread | one thread's state: [`thread`], then its open frames: [`frame`] | open frames |
//! | constructs | records of [`construct::BYTES`]: [`construct`] | records |
//! | entries | descriptions: [`entry`] | bytes |
//! | spans | records of [`span::BYTES`]: [`span`] | records |
//!
//! A construct's number is its block's number times 65536 plus its place in the block.

/// The first word of a file.
pub const MAGIC: u64 = u64::from_le_bytes(*b"UNSPOMP\n");
/// The version of what follows.
pub const VERSION: u64 = 3;
/// The header's size.
pub const HEADER_BYTES: usize = 4096;
/// A block's size.
pub const BLOCK_BYTES: usize = 65536;
/// The size of a block's own header.
pub const BLOCK_HEADER_BYTES: usize = 64;
/// No construct.
pub const NONE: u64 = u64::MAX;

/// The header.
pub mod header {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// [`super::VERSION`].
    pub const VERSION: usize = 8;
    /// The process.
    pub const PROCESS: usize = 16;
    /// Its parent.
    pub const PARENT: usize = 24;
    /// When the process was first seen, in ticks of its clock.
    pub const START_TICKS: usize = 32;
    /// The same moment by the system's monotonic clock, in nanoseconds.
    pub const START_NS: usize = 40;
    /// The last moment at which both clocks were read, in ticks.
    pub const LAST_TICKS: usize = 48;
    /// The same moment in nanoseconds.
    pub const LAST_NS: usize = 56;
    /// 1 once the process has ended in the ordinary way.
    pub const ENDED: usize = 64;
    /// Blocks in use.
    pub const BLOCKS: usize = 72;
    /// The largest number of threads in parallel regions at one time.
    pub const PEAK_THREADS: usize = 80;
    /// Which runtimes took part: a bit for each of [`super::runtime`].
    pub const RUNTIMES: usize = 88;
    /// Constructs and spans that found no room.
    pub const WITHOUT_ROOM: usize = 96;
    /// Constructs nested too deeply to be told apart.
    pub const TOO_DEEP: usize = 104;
    /// Ends without a beginning.
    pub const UNMATCHED: usize = 112;
    /// One more than the MPI rank, or 0.
    pub const RANK: usize = 120;
    /// Processes in the MPI job, or 0.
    pub const RANKS: usize = 128;
    /// Cancelled constructs.
    pub const CANCELLED: usize = 136;
    /// Processors that the process may use.
    pub const PROCESSORS: usize = 144;
    /// 1 where ticks are nanoseconds of the monotonic clock, 0 where they are the processor's.
    pub const CLOCK: usize = 152;
}

/// Bits of [`header::RUNTIMES`].
pub mod runtime {
    /// GNU libgomp.
    pub const GOMP: u64 = 1;
    /// A runtime that offers OMPT: LLVM's or Intel's.
    pub const OMPT: u64 = 2;
    /// MPI.
    pub const MPI: u64 = 4;
}

/// Every block.
pub mod block {
    /// What it holds.
    pub const KIND: usize = 0;
    /// The number of the thread that owns it.
    pub const OWNER: usize = 8;
    /// How much of it is in use.
    pub const USED: usize = 16;
    /// A thread's state.
    pub const THREAD: u64 = 1;
    /// Constructs.
    pub const CONSTRUCTS: u64 = 2;
    /// Descriptions.
    pub const ENTRIES: u64 = 3;
    /// Spans of time.
    pub const SPANS: u64 = 4;
}

/// A thread, after the header of its block.
pub mod thread {
    /// Where its open frames start.
    pub const FRAMES: usize = 128;
    /// How many frames there is room for.
    pub const FRAME_LIMIT: usize = (super::BLOCK_BYTES - FRAMES) / super::frame::BYTES;
}

/// A construct that a thread has entered and not left.
pub mod frame {
    /// The construct's number.
    pub const CONSTRUCT: usize = 0;
    /// When it was entered.
    pub const BEGIN: usize = 8;
    /// Ticks in what was nested in it.
    pub const NESTED: usize = 16;
    /// Ticks that it waited.
    pub const WAITED: usize = 24;
    /// A frame's size.
    pub const BYTES: usize = 32;
}

/// What one thread did in one construct, in one context.
///
/// A record is three cache lines: what is written when it is made, what its thread writes at
/// every passage, and what is written about waiting. A region's waits are booked by the
/// thread that forked it: they must not take the line away that the others write.
pub mod construct {
    /// [`crate::Kind`], in the lower half; 0 while the record is being made.
    pub const KIND: usize = 0;
    /// The construct that encloses it in this thread, or [`super::NONE`].
    pub const PARENT: usize = 8;
    /// Where it is in the code.
    pub const ADDRESS: usize = 16;
    /// For a worker's part of a region: the construct of the thread that opened it. For a
    /// barrier: the function that its region's threads execute, or 0. For a critical or a
    /// lock: which one. For an interval or an MPI call: its name's number.
    pub const DETAIL: usize = 24;
    /// The call path by which it was first entered: the number of an entry, or 0.
    pub const PATH: usize = 32;
    /// For a region: the number of this thread's place among all threads at that time.
    pub const PLACE: usize = 40;
    /// When it was first entered.
    pub const FIRST: usize = 48;
    /// For a region: its largest number of threads.
    pub const TEAM: usize = 56;
    /// How often it was left.
    pub const COUNT: usize = 64;
    /// Ticks between entering and leaving.
    pub const TOTAL: usize = 72;
    /// Of them, what was neither nested nor waited.
    pub const OWN: usize = 80;
    /// The longest of all.
    pub const LONGEST: usize = 88;
    /// The longest own part: of a wait, the longest instance.
    pub const OWN_LONGEST: usize = 96;
    /// When it was last entered; a lock, when it was last not free.
    pub const LAST: usize = 104;
    /// For a region: ticks from the fork until this thread started.
    pub const STARTUP: usize = 112;
    /// For a loop: its iterations, of all threads and in all passages, where the runtime is
    /// told how many there are.
    pub const ITERATIONS: usize = 120;
    /// Ticks waited: before the block, or for a region at its end.
    pub const WAIT: usize = 128;
    /// The longest wait.
    pub const WAIT_LONGEST: usize = 136;
    /// For a barrier or a region: how often this thread was the last to arrive.
    pub const LAST_ARRIVALS: usize = 144;
    /// When last to arrive: ticks since the barrier or fork before.
    pub const PATH_TOTAL: usize = 152;
    /// Of them, ticks waited at locks, criticals, ordered blocks and for tasks.
    pub const PATH_WAIT: usize = 160;
    /// When last to arrive: ticks from then until it went on, which nobody waited for work.
    pub const LAST_WAIT: usize = 168;
    /// A record's size.
    pub const BYTES: usize = 192;
    /// Records in a block.
    pub const IN_BLOCK: usize = (super::BLOCK_BYTES - super::BLOCK_HEADER_BYTES) / BYTES;
}

/// A description: what (a 32-bit number), its length in bytes (another), its bytes, padded
/// to a multiple of eight.
pub mod entry {
    /// A module: start, end, bias, then its path.
    pub const MODULE: u32 = 1;
    /// The program's arguments, each with a zero byte after it.
    pub const ARGUMENTS: u32 = 2;
    /// A call path: its number, then return addresses, the innermost first.
    pub const PATH: u32 = 3;
    /// A name: its number, then the name.
    pub const NAME: u32 = 4;
}

/// One passage through a construct.
pub mod span {
    /// The construct's number.
    pub const CONSTRUCT: usize = 0;
    /// When it was entered.
    pub const BEGIN: usize = 8;
    /// When it was left.
    pub const END: usize = 16;
    /// Ticks waited before its block.
    pub const WAIT: usize = 24;
    /// A span's size.
    pub const BYTES: usize = 32;
    /// Spans in a block.
    pub const IN_BLOCK: usize = (super::BLOCK_BYTES - super::BLOCK_HEADER_BYTES) / BYTES;
}
