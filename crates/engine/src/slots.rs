//! The state of one thread that translated code reaches by a fixed displacement from FS.
//!
//! The engine keeps FS for itself. [`Slots`] is a thread-local without initialiser or
//! destructor, so it lies in the static TLS block of the executable, at the same
//! displacement from FS in every thread: code in the cache addresses a slot as
//! `fs:[displacement + offset]`.

use std::cell::UnsafeCell;
use std::mem::offset_of;

use crate::instrument::buffers::Part;
use crate::instrument::{MOST_ARGUMENTS, MOST_BUFFERS, MOST_SAMPLERS};
use unspool_instructions::decode::Segment;

/// The program's registers while its thread is outside the code cache, and the words
/// through which cache and engine talk.
#[repr(C, align(64))]
pub struct Slots {
    /// rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 … r15.
    pub registers: [u64; 16],
    /// The status flags.
    pub flags: u64,
    /// Program counter of the program.
    pub pc: u64,
    /// Where translated code keeps program registers that it borrows.
    pub spills: [u64; 10],
    /// The last branch that went through a hashed chain: its place in the cache.
    pub branch: u64,
    /// Why the cache was left: a number of [`crate::exit`].
    pub exit: u64,
    /// The cache address at which to enter.
    pub target: u64,
    /// The engine's stack pointer, a multiple of 16, while in the cache; 0 outside.
    pub host_stack: u64,
    /// Not zero: leave (or do not enter) the cache, something is pending.
    pub pending: u64,
    /// Next free word of the trace buffer, or of a tool's first buffer.
    pub buffer: u64,
    /// Line-atomic order: the word that marks lines as exclusive to this thread.
    pub owner_word: u64,
    /// Line-atomic order: eight times the buffer position plus this bounds the thread's time.
    pub clock: u64,
    /// Line-atomic order: the number of the check that failed …
    pub check: u64,
    /// … the address that it is about …
    pub address: u64,
    /// … and where it leaves the cache if need be.
    pub leave: u64,
    /// Line-atomic order: where other threads see this one's state, time, and so on.
    pub public: u64,
    /// Line-atomic order: not zero when another thread wants an answer.
    pub poll: u64,
    /// The program's FS base (it lives in GS; this is a copy for the engine).
    pub program_fs: u64,
    /// The program's GS base: only here.
    pub program_gs: u64,
    /// 1 while the thread holds anything that refers to the code cache (see [`crate::flush`]).
    pub in_cache: u64,
    /// Line-atomic order: read-shared words not below this one have been seen.
    pub shared_seen: u64,
    /// What says which elements of a gather, a scatter or a tile are accessed: a bit for each.
    pub element_mask: u64,
    /// Their indexes, as they lie in the vector register; of a tile its configuration.
    pub elements: [u64; 8],
    /// Line-atomic order: rounds of the repeated string instruction at hand that come later.
    pub rest: u64,
    /// Not zero while a tool's own code runs.
    pub in_tool: u64,
    /// What a call of a tool's function keeps of the general registers, by number …
    pub kept: [u64; 16],
    /// … and of the flags, as `lahf` and `seto` give them.
    pub kept_flags: u64,
    /// The function of a tool that is to be called …
    pub function: u64,
    /// … with the tool …
    pub tool: u64,
    /// … and what it returned.
    pub result: u64,
    /// Its arguments, those that are not in registers.
    pub arguments: [u64; MOST_ARGUMENTS],
    /// The program's MXCSR during the call, and one to compare it with.
    pub control_words: [u32; 2],
    /// The program's vector and mask registers during the call. (The XSAVE area is not for that:
    /// its header must stay as the processor wants it.)
    pub kept_vectors: [u64; 33 * 8],
    /// Which components of the vector state the program uses during the call.
    pub vectors_used: u64,
    /// The thread's number.
    pub thread_number: u64,
    /// What a tool keeps for the thread.
    pub tool_state: u64,
    /// Where the counters of a tool are; 0 if there are none.
    pub counters: u64,
    /// A tool's countdowns: the passages that are left.
    pub countdowns: [u64; MOST_SAMPLERS],
    /// Which of them has just ended.
    pub sampler: u64,
    /// What spreads them.
    pub random: u64,
    /// A tool's buffers.
    pub buffers: [Part; MOST_BUFFERS],
    /// What passes between hooks of the program's functions and the engine.
    pub exchange: Exchange,
    /// Where the last call put its return address, plus 8; 0 once a hook has seen it.
    pub called: u64,
    /// The end of the list of calls of hooked functions …
    pub activations: u64,
    /// … which may grow to here …
    pub activations_limit: u64,
    /// … if the stack pointer is not below this.
    pub usual_stack: u64,
    /// The program's vector state outside the cache, in XSAVE format.
    pub vectors: Vectors,
}

/// Registers at a hook of one of the program's functions: where it is entered, and where it
/// returns. What the engine changes here, the hook puts into the registers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Exchange {
    /// The integer arguments: rdi, rsi, rdx, rcx, r8, r9.
    pub integers: [u64; 6],
    /// rax.
    pub result: u64,
    /// rsp.
    pub stack: u64,
    /// What the hook is about: the description of the function, or the return address.
    pub subject: u64,
    /// Not zero: control does not go on here.
    pub verdict: u64,
    /// The low halves of xmm0 to xmm7.
    pub floats: [u64; 8],
}

/// An XSAVE area.
#[repr(C, align(64))]
pub struct Vectors(pub [u8; 4096]);

/// The spill slot of the register that holds the target of an indirect branch.
pub(crate) const TARGET_SPILL: u8 = 0;
/// The spill slot of rcx on its way through a hashed chain (that of a far base, which is given
/// back before).
pub(crate) const HASH_SPILL: u8 = 1;
/// The spill slots of the registers that a trace borrows: buffer, scratch, owner word.
pub(crate) const BOUND_SPILLS: [u8; 3] = [2, 3, 4];

struct SlotsCell(UnsafeCell<Slots>);

thread_local! {
    static SLOTS: SlotsCell = const {
        SlotsCell(UnsafeCell::new(Slots {
            registers: [0; 16],
            flags: 0x202,
            pc: 0,
            spills: [0; 10],
            branch: 0,
            exit: 0,
            target: 0,
            host_stack: 0,
            pending: 0,
            buffer: 0,
            owner_word: 0,
            clock: 0,
            check: 0,
            address: 0,
            leave: 0,
            public: 0,
            poll: 0,
            program_fs: 0,
            program_gs: 0,
            in_cache: 0,
            shared_seen: 0,
            element_mask: 0,
            elements: [0; 8],
            rest: 0,
            in_tool: 0,
            kept: [0; 16],
            kept_flags: 0,
            function: 0,
            tool: 0,
            result: 0,
            arguments: [0; MOST_ARGUMENTS],
            control_words: [0; 2],
            kept_vectors: [0; 33 * 8],
            vectors_used: 0,
            thread_number: 0,
            tool_state: 0,
            counters: 0,
            countdowns: [0; MOST_SAMPLERS],
            sampler: 0,
            random: 1,
            buffers: [Part::NONE; MOST_BUFFERS],
            exchange: Exchange {
                integers: [0; 6],
                result: 0,
                stack: 0,
                subject: 0,
                verdict: 0,
                floats: [0; 8],
            },
            called: 0,
            activations: 0,
            activations_limit: 0,
            usual_stack: u64::MAX,
            vectors: Vectors([0; 4096]),
        }))
    };
}

impl Slots {
    /// The program's base of a segment.
    #[must_use]
    pub fn base(&self, segment: Segment) -> u64 {
        match segment {
            Segment::Fs => self.program_fs,
            Segment::Gs => self.program_gs,
        }
    }
}

/// The slots of this thread. Signal handlers and the cache write them too: use them
/// through the pointer, one access at a time, and keep no reference.
#[must_use]
#[inline]
pub(crate) fn slots() -> *mut Slots {
    SLOTS.with(|slots| slots.0.get())
}

/// The displacement of [`Slots`] from FS, the same in every thread.
#[must_use]
pub(crate) fn displacement() -> i32 {
    i32::try_from((slots() as u64).wrapping_sub(thread_pointer()) as i64)
        .expect("static TLS lies within 2 GiB of the thread pointer")
}

/// The address in FS.
pub(crate) fn thread_pointer() -> u64 {
    let base: u64;
    // SAFETY: the x86-64 ABI keeps the thread pointer's own value at fs:0.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) base, options(nostack, readonly)) };
    base
}

/// Byte offsets of slots, for code that is emitted.
pub(crate) mod offset {
    use super::{Segment, Slots, offset_of};
    pub(crate) const FLAGS: i32 = offset_of!(Slots, flags) as i32;
    pub(crate) const BRANCH: i32 = offset_of!(Slots, branch) as i32;
    pub(crate) const EXIT: i32 = offset_of!(Slots, exit) as i32;
    pub(crate) const TARGET: i32 = offset_of!(Slots, target) as i32;
    pub(crate) const HOST_STACK: i32 = offset_of!(Slots, host_stack) as i32;
    pub(crate) const PENDING: i32 = offset_of!(Slots, pending) as i32;
    pub(crate) const BUFFER: i32 = offset_of!(Slots, buffer) as i32;
    pub(crate) const OWNER_WORD: i32 = offset_of!(Slots, owner_word) as i32;
    pub(crate) const CLOCK: i32 = offset_of!(Slots, clock) as i32;
    pub(crate) const CHECK: i32 = offset_of!(Slots, check) as i32;
    pub(crate) const ADDRESS: i32 = offset_of!(Slots, address) as i32;
    pub(crate) const LEAVE: i32 = offset_of!(Slots, leave) as i32;
    pub(crate) const PUBLIC: i32 = offset_of!(Slots, public) as i32;
    pub(crate) const POLL: i32 = offset_of!(Slots, poll) as i32;
    pub(crate) const SHARED_SEEN: i32 = offset_of!(Slots, shared_seen) as i32;
    pub(crate) const PROGRAM_FS: i32 = offset_of!(Slots, program_fs) as i32;
    pub(crate) const PROGRAM_GS: i32 = offset_of!(Slots, program_gs) as i32;
    pub(crate) const ELEMENT_MASK: i32 = offset_of!(Slots, element_mask) as i32;
    pub(crate) const ELEMENTS: i32 = offset_of!(Slots, elements) as i32;
    pub(crate) const REST: i32 = offset_of!(Slots, rest) as i32;
    pub(crate) const KEPT_VECTORS: i32 = offset_of!(Slots, kept_vectors) as i32;
    pub(crate) const VECTORS_USED: i32 = offset_of!(Slots, vectors_used) as i32;
    pub(crate) const IN_TOOL: i32 = offset_of!(Slots, in_tool) as i32;
    pub(crate) const FUNCTION: i32 = offset_of!(Slots, function) as i32;
    pub(crate) const TOOL: i32 = offset_of!(Slots, tool) as i32;
    pub(crate) const TOOL_STATE: i32 = offset_of!(Slots, tool_state) as i32;
    pub(crate) const RESULT: i32 = offset_of!(Slots, result) as i32;
    pub(crate) const KEPT_FLAGS: i32 = offset_of!(Slots, kept_flags) as i32;
    pub(crate) const ARGUMENTS: i32 = offset_of!(Slots, arguments) as i32;
    pub(crate) const CONTROL_WORDS: i32 = offset_of!(Slots, control_words) as i32;
    pub(crate) const COUNTDOWNS: i32 = offset_of!(Slots, countdowns) as i32;
    pub(crate) const SAMPLER: i32 = offset_of!(Slots, sampler) as i32;
    pub(crate) const BUFFERS: i32 = offset_of!(Slots, buffers) as i32;
    pub(crate) const CALLED: i32 = offset_of!(Slots, called) as i32;
    pub(crate) const ACTIVATIONS: i32 = offset_of!(Slots, activations) as i32;
    pub(crate) const ACTIVATIONS_LIMIT: i32 = offset_of!(Slots, activations_limit) as i32;
    pub(crate) const USUAL_STACK: i32 = offset_of!(Slots, usual_stack) as i32;
    pub(crate) const EXCHANGE_RESULT: i32 = offset_of!(Slots, exchange.result) as i32;
    pub(crate) const EXCHANGE_STACK: i32 = offset_of!(Slots, exchange.stack) as i32;
    pub(crate) const EXCHANGE_SUBJECT: i32 = offset_of!(Slots, exchange.subject) as i32;
    pub(crate) const EXCHANGE_VERDICT: i32 = offset_of!(Slots, exchange.verdict) as i32;
    pub(crate) const VECTORS: i32 = offset_of!(Slots, vectors) as i32;

    /// Of the program's base of a segment.
    pub(crate) const fn base(segment: Segment) -> i32 {
        match segment {
            Segment::Fs => PROGRAM_FS,
            Segment::Gs => PROGRAM_GS,
        }
    }

    /// Of a saved program register.
    pub(crate) const fn register(number: u8) -> i32 {
        number as i32 * 8
    }

    /// Of a general register that a call keeps.
    pub(crate) const fn kept(number: u8) -> i32 {
        offset_of!(Slots, kept) as i32 + number as i32 * 8
    }

    /// Of an integer argument in the exchange.
    pub(crate) const fn exchanged_integer(number: usize) -> i32 {
        offset_of!(Slots, exchange.integers) as i32 + number as i32 * 8
    }

    /// Of a floating-point argument in the exchange.
    pub(crate) const fn exchanged_float(number: usize) -> i32 {
        offset_of!(Slots, exchange.floats) as i32 + number as i32 * 8
    }

    /// Of a spill slot.
    pub(crate) const fn spill(number: u8) -> i32 {
        offset_of!(Slots, spills) as i32 + number as i32 * 8
    }
}
