//! Where each field of the file is, in bytes. Every field is a little-endian 64-bit word
//! unless something else is said, and aligned, so that a reader never sees half of one.
//!
//! The file is one that is [filled in place](unspool_container::in_place): a header, which says
//! of which process it is, declarations of [streams](stream), and blocks. The first block is that
//! of the process; all others are of one size.
//!
//! | stream | content of its blocks, from [`block::CONTENT`] on | [`block::USED`] |
//! |---|---|---|
//! | `openmp-process` | the fields of the process: [`process_block`] | |
//! | `openmp-threads` | one thread's state: the constructs that it is in, [`frame`] | open constructs |
//! | `openmp-constructs` | records of [`construct::BYTES`]: [`construct`] | records |
//! | `openmp-descriptions` | [`description`] after description | bytes |
//! | `openmp-spans` | records of [`span::BYTES`]: [`span`] | records |
//!
//! A block belongs to the thread that its header names: the number of that thread's block in the
//! stream of threads, and 1. A construct's number is that of its block in the stream of
//! constructs times 65536 plus its index in the block.

/// A block's size, except that of the process.
pub const BLOCK_BYTES: usize = 65536;
/// No construct.
pub const NONE: u64 = u64::MAX;

/// The streams of a file.
pub mod stream {
    use unspool_container::stream::{Declaration, Form, StreamNumber};

    /// What the process is, and what was counted in all of it.
    pub const PROCESS: StreamNumber = StreamNumber(0x100);
    /// What threads are in.
    pub const THREADS: StreamNumber = StreamNumber(0x101);
    /// What threads did.
    pub const CONSTRUCTS: StreamNumber = StreamNumber(0x102);
    /// Modules, call paths and names.
    pub const DESCRIPTIONS: StreamNumber = StreamNumber(0x103);
    /// Single passages through constructs.
    pub const SPANS: StreamNumber = StreamNumber(0x104);

    /// How many streams there are.
    pub const COUNT: usize = 5;

    /// What a file declares: each stream's number, name, and version of its schema.
    #[must_use]
    pub fn declarations() -> [Declaration; COUNT] {
        let blocks = |number, name: &'static str, version| Declaration {
            number,
            name: name.into(),
            version,
            form: Form::Blocks,
        };
        [
            blocks(PROCESS, "openmp-process", 1),
            blocks(THREADS, "openmp-threads", 1),
            blocks(CONSTRUCTS, "openmp-constructs", 1),
            blocks(DESCRIPTIONS, "openmp-descriptions", 1),
            blocks(SPANS, "openmp-spans", 1),
        ]
    }
}

/// Every block. The header of the chunk that it is comes first.
pub mod block {
    use unspool_container::in_place::HEADER_BYTES;

    /// How much of it is in use.
    pub const USED: usize = HEADER_BYTES;
    /// Where its content begins, aligned to cache lines as the block is.
    pub const CONTENT: usize = 128;
    /// How much content a block has room for.
    pub const ROOM: usize = super::BLOCK_BYTES - CONTENT;

    const _: () = assert!(USED + 8 <= CONTENT);
}

/// The block of the process. Offsets count from its beginning.
pub mod process_block {
    /// The block's size.
    pub const BYTES: usize = 4096;

    /// The parent of the process.
    pub const PARENT: usize = 128;
    /// When the process was first seen, in ticks of its clock.
    pub const START_TICKS: usize = 136;
    /// When the process was first seen, by the system's monotonic clock, in nanoseconds.
    pub const START_NS: usize = 144;
    /// When both clocks were last read, in ticks of the process's clock.
    pub const LAST_TICKS: usize = 152;
    /// When both clocks were last read, by the system's monotonic clock, in nanoseconds.
    pub const LAST_NS: usize = 160;
    /// 1 once the process has ended by itself.
    pub const ENDED: usize = 168;
    /// The largest number of threads in parallel regions at one time.
    pub const PEAK_THREADS: usize = 176;
    /// Which runtimes took part: a bit for each of [`super::runtime`].
    pub const RUNTIMES: usize = 184;
    /// Constructs and spans that found no room.
    pub const WITHOUT_ROOM: usize = 192;
    /// Constructs nested too deeply to be told apart.
    pub const TOO_DEEP: usize = 200;
    /// Ends of constructs that had not begun.
    pub const UNMATCHED: usize = 208;
    /// One more than the MPI rank, or 0.
    pub const RANK: usize = 216;
    /// Processes in the MPI job, or 0.
    pub const RANKS: usize = 224;
    /// Cancelled constructs.
    pub const CANCELLED: usize = 232;
    /// Processors that the process may use.
    pub const PROCESSORS: usize = 240;
    /// 1 where ticks are nanoseconds of the monotonic clock, 0 where they are the processor's.
    pub const CLOCK: usize = 248;
}

/// Bits of [`process_block::RUNTIMES`].
pub mod runtime {
    /// GNU libgomp.
    pub const GOMP: u64 = 1;
    /// A runtime that offers OMPT: LLVM's or Intel's.
    pub const OMPT: u64 = 2;
    /// MPI.
    pub const MPI: u64 = 4;
}

/// What the kernel counted of a thread, since the thread was first seen: in its block of
/// [`stream::THREADS`], behind the last frame. What threads left that have ended is in it too, where
/// the block is used again. All are 0 in files from before they were counted.
pub mod thread_block {
    /// Where these fields begin.
    pub const START: usize = super::BLOCK_BYTES - 32;
    /// How long it ran, in nanoseconds.
    pub const RAN_NS: usize = START;
    /// How long it was ready to run and had no processor, in nanoseconds.
    pub const WITHOUT_NS: usize = START + 8;
    /// How often it stopped running to wait for something.
    pub const STOPPED: usize = START + 16;
    /// How often it was made to stop running.
    pub const PREEMPTED: usize = START + 24;
}

/// A construct that a thread has entered and not left.
pub mod frame {
    /// The construct's number.
    pub const CONSTRUCT: usize = 0;
    /// When the thread entered the construct.
    pub const BEGIN: usize = 8;
    /// Ticks that passed in constructs nested in this one.
    pub const NESTED: usize = 16;
    /// Ticks that the thread waited before the construct's block.
    pub const WAITED: usize = 24;
    /// A frame's size.
    pub const BYTES: usize = 32;
    /// How many frames a thread's block has room for.
    pub const IN_BLOCK: usize = (super::thread_block::START - super::block::CONTENT) / BYTES;
}

/// What one thread did in one construct, in one context.
///
/// A record is three cache lines: what is written when it is made, what its thread writes at
/// every passage, and what is written about waiting. A region's waits are booked by the
/// thread that forked it: they must not take the line away that the others write.
pub mod construct {
    /// [`crate::ConstructKind`], in the lower half; 0 while the record is being made.
    pub const KIND: usize = 0;
    /// The construct that encloses this one in the same thread, or [`super::NONE`].
    pub const PARENT: usize = 8;
    /// The address in the code where the program entered the runtime.
    pub const ADDRESS: usize = 16;
    /// For a worker's part of a region: the construct of the thread that opened it. For that
    /// construct, and for a barrier: the function that the region's threads execute, or 0. For a critical or a
    /// lock: which one. For an interval or an MPI call: its name's number.
    pub const DETAIL: usize = 24;
    /// The call path by which the construct was first entered: its number, or 0.
    pub const PATH: usize = 32;
    /// For a region: which of the threads that exist at one time executes it.
    pub const SLOT: usize = 40;
    /// When the construct was first entered.
    pub const FIRST: usize = 48;
    /// For a region: its largest number of threads.
    pub const TEAM: usize = 56;
    /// For a loop: its schedule when it was last entered, as the runtime is told: one of
    /// [`super::schedule`].
    pub const SCHEDULE: usize = 56;
    /// How often the construct was left.
    pub const COUNT: usize = 64;
    /// Ticks between entering and leaving.
    pub const TOTAL: usize = 72;
    /// Ticks between entering and leaving that were neither nested nor waited.
    pub const OWN: usize = 80;
    /// The longest passage, in ticks between entering and leaving.
    pub const LONGEST: usize = 88;
    /// The longest own part of a passage; for a wait, the longest wait.
    pub const OWN_LONGEST: usize = 96;
    /// When the construct was last entered; for a lock, when it was last not free.
    pub const LAST: usize = 104;
    /// For a region: ticks from the fork until this thread started.
    pub const STARTUP: usize = 112;
    /// For a task: by how many ticks it has made the longest chain of its region longer, of tasks each
    /// of which depends on the one before, as far as the tasks themselves take time. 0 in files from
    /// before it was counted.
    pub const CHAIN: usize = 112;
    /// For a loop: its iterations, of all threads and in all passages, where the runtime is
    /// told how many there are.
    pub const ITERATIONS: usize = 120;
    /// For a region: the part of [`STARTUP`] in which this thread was ready and had no processor.
    pub const STARTUP_WITHOUT_PROCESSOR: usize = 120;
    /// Ticks waited: before the block, or for a region at its end.
    pub const WAIT: usize = 128;
    /// The longest wait before the block or at the region's end, in ticks.
    pub const WAIT_LONGEST: usize = 136;
    /// For a barrier or a region: how often this thread was the last to arrive.
    pub const LAST_ARRIVALS: usize = 144;
    /// Ticks from the barrier or fork before until this thread arrived, where it was the last.
    pub const PATH_TOTAL: usize = 152;
    /// The part of [`PATH_TOTAL`] that was waited at locks, criticals, ordered blocks and for
    /// tasks, or for a processor.
    pub const PATH_WAIT: usize = 160;
    /// Ticks from this thread's arrival until it went on, where it was the last: nobody waited
    /// for work then.
    pub const LAST_WAIT: usize = 168;
    /// The part of [`OWN`], in ticks, in which the thread was ready to run and had no processor;
    /// for what is nothing but waiting, 0.
    pub const WITHOUT_PROCESSOR: usize = 176;
    /// The part of the wait, in ticks, that is due to a lack of processors: that of the thread
    /// that arrived last, and its own once it could have gone on.
    pub const WAIT_FOR_PROCESSOR: usize = 184;
    /// For a loop or sections: how many parts of it the runtime gave the thread. For the creation
    /// of tasks: how many the thread created. 0 in files from before they were counted.
    pub const RUNTIME_CALLS: usize = 144;
    /// How many of the [`RUNTIME_CALLS`], and of calls that gave nothing, were timed.
    pub const RUNTIME_TIMED: usize = 152;
    /// How long those took in the runtime, in ticks.
    pub const RUNTIME_TICKS: usize = 160;
    /// A record's size.
    pub const BYTES: usize = 192;
    /// Records in a block.
    pub const IN_BLOCK: usize = super::block::ROOM / BYTES;
}

/// Schedules of loops: as OpenMP numbers them (`omp_sched_t`).
pub mod schedule {
    /// The runtime is not told, or the file is from before they were noted.
    pub const UNKNOWN: u64 = 0;
    /// Parts are given to threads before any is executed.
    pub const STATIC: u64 = 1;
    /// Threads fetch parts of one size as they need them.
    pub const DYNAMIC: u64 = 2;
    /// Threads fetch parts as they need them, the largest first.
    pub const GUIDED: u64 = 3;
    /// The runtime chooses.
    pub const AUTO: u64 = 4;
}

/// A description: what (a 32-bit number), its length in bytes (another), its bytes, padded
/// to a multiple of eight.
pub mod description {
    /// A module: start, end, bias, then its path.
    pub const MODULE: u32 = 1;
    /// A call path: its number, then return addresses, the innermost first.
    pub const PATH: u32 = 3;
    /// A name: its number, then the name.
    pub const NAME: u32 = 4;
}

/// One passage through a construct.
pub mod span {
    /// The construct's number.
    pub const CONSTRUCT: usize = 0;
    /// When the thread entered the construct.
    pub const BEGIN: usize = 8;
    /// When the thread left the construct.
    pub const END: usize = 16;
    /// Ticks that the thread waited before the construct's block.
    pub const WAIT: usize = 24;
    /// A span's size.
    pub const BYTES: usize = 32;
    /// Spans in a block.
    pub const IN_BLOCK: usize = super::block::ROOM / BYTES;
}
