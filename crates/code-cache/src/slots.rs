//! The state of one thread that translated code reaches by a fixed displacement from FS.
//!
//! The engine keeps FS for itself. [`Slots`] is a thread-local without initialiser or
//! destructor, so it lies in the static TLS block of the executable, at the same
//! displacement from FS in every thread: code in the cache addresses a slot as
//! `fs:[displacement + offset]`.

use std::cell::UnsafeCell;
use std::mem::offset_of;

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
    /// Where translated code keeps program registers that it spills.
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
    /// Line-atomic order: the number of the check that failed.
    pub check: u64,
    /// Line-atomic order: the address that the check was about.
    pub address: u64,
    /// Line-atomic order: where the check leaves the cache if need be.
    pub leave: u64,
    /// The program's FS base (it lives in GS; this is a copy for the engine).
    pub program_fs: u64,
    /// The program's GS base: only here.
    pub program_gs: u64,
    /// 1 while the thread holds anything that refers to the code cache (the flushes of the cache wait for that).
    pub in_cache: u64,
    /// Not zero while a tool's own code runs.
    pub in_tool: u64,
    /// What a call of a tool's function keeps of the general registers, by number.
    pub kept: [u64; 16],
    /// What a call of a tool's function keeps of the flags, as `lahf` and `seto` give them.
    pub kept_flags: u64,
    /// The function of a tool that is to be called.
    pub function: u64,
    /// The tool, with which its function is called.
    pub tool: u64,
    /// What the tool's function returned.
    pub result: u64,
    /// Arguments of the tool's function, those that are not in registers.
    pub arguments: [u64; MOST_ARGUMENTS],
    /// The program's MXCSR during the call, and one to compare it with.
    pub control_words: [u32; 2],
    /// The program's vector and mask registers during the call. (The XSAVE area is not for that:
    /// its header must stay as the processor wants it.)
    pub kept_vectors: [u64; 33 * 8],
    /// Which components of the vector state the program uses during the call.
    pub vectors_used: u64,
    /// What a tool keeps for the thread.
    pub tool_state: u64,
    /// What clients keep of their own where inserted code reaches it.
    rooms: [Room; ROOMS],
    /// The program's vector state outside the cache, in XSAVE format.
    pub vectors: Vectors,
}

/// How many clients keep something of their own.
const ROOMS: usize = 2;
/// How large each client's may be, in words.
const ROOM_WORDS: usize = 128;

#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Room([u64; ROOM_WORDS]);

/// What one client keeps of its own in each thread's slots, where inserted code reaches it. It begins
/// as zeros, and stays what it is where a child has used its parent's slots.
///
/// # Safety
/// Zeros must be a value of it, and no other part may have the room.
pub unsafe trait ClientSlots: Sized {
    /// Which room it has.
    const ROOM: usize;

    /// Where it lies in the slots, in bytes. Its offsets are relative to this.
    const START: i32 = {
        assert!(Self::ROOM < ROOMS && size_of::<Self>() <= size_of::<Room>());
        assert!(align_of::<Self>() <= align_of::<Room>());
        (offset_of!(Slots, rooms) + Self::ROOM * size_of::<Room>()) as i32
    };

    /// The client's part of a thread's slots. As the slots it is to be used through the pointer.
    #[inline]
    fn of(slots: *mut Slots) -> *mut Self {
        slots.wrapping_byte_add(Self::START as usize).cast()
    }
}

/// An XSAVE area.
#[repr(C, align(64))]
pub struct Vectors(pub [u8; 4096]);

/// The spill slot of the register that holds the target of an indirect branch.
pub const TARGET_SPILL: u8 = 0;
/// The spill slot of rcx on its way through a hashed chain (that of a far base, which is given
/// back before).
pub const HASH_SPILL: u8 = 1;
/// The spill slots of the registers that a trace borrows: buffer, scratch, owner word.
pub const BOUND_SPILLS: [u8; 3] = [2, 3, 4];

/// The most arguments that a call can have.
pub const MOST_ARGUMENTS: usize = 10;

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
            check: 0,
            address: 0,
            leave: 0,
            program_fs: 0,
            program_gs: 0,
            in_cache: 0,
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
            tool_state: 0,
            rooms: [Room([0; ROOM_WORDS]); ROOMS],
            vectors: Vectors([0; 4096]),
        }))
    };
}

impl Slots {
    /// Takes over from a thread's slots what clients keep there, and where they are in a buffer.
    ///
    /// # Safety
    /// The slots must be those of the calling thread.
    pub unsafe fn keep_of_clients(&mut self, from: *const Slots) {
        // SAFETY: the caller's.
        unsafe { (self.buffer, self.rooms) = ((*from).buffer, (*from).rooms) };
    }

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
pub fn slots() -> *mut Slots {
    SLOTS.with(|slots| slots.0.get())
}

/// The displacement of [`Slots`] from FS, the same in every thread.
#[must_use]
pub fn displacement() -> i32 {
    i32::try_from((slots() as u64).wrapping_sub(thread_pointer()) as i64)
        .expect("static TLS lies within 2 GiB of the thread pointer")
}

/// The address in FS.
pub fn thread_pointer() -> u64 {
    let base: u64;
    // SAFETY: the x86-64 ABI keeps the thread pointer's own value at fs:0.
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) base, options(nostack, readonly)) };
    base
}

/// Byte offsets of slots, for code that is emitted.
pub mod offset {
    use super::{Segment, Slots, offset_of};
    /// Of [`Slots::flags`](super::Slots::flags).
    pub const FLAGS: i32 = offset_of!(Slots, flags) as i32;
    /// Of [`Slots::branch`](super::Slots::branch).
    pub const BRANCH: i32 = offset_of!(Slots, branch) as i32;
    /// Of [`Slots::exit`](super::Slots::exit).
    pub const EXIT: i32 = offset_of!(Slots, exit) as i32;
    /// Of [`Slots::target`](super::Slots::target).
    pub const TARGET: i32 = offset_of!(Slots, target) as i32;
    /// Of [`Slots::host_stack`](super::Slots::host_stack).
    pub const HOST_STACK: i32 = offset_of!(Slots, host_stack) as i32;
    /// Of [`Slots::pending`](super::Slots::pending).
    pub const PENDING: i32 = offset_of!(Slots, pending) as i32;
    /// Of [`Slots::buffer`](super::Slots::buffer).
    pub const BUFFER: i32 = offset_of!(Slots, buffer) as i32;
    /// Of [`Slots::owner_word`](super::Slots::owner_word).
    pub const OWNER_WORD: i32 = offset_of!(Slots, owner_word) as i32;
    /// Of [`Slots::check`](super::Slots::check).
    pub const CHECK: i32 = offset_of!(Slots, check) as i32;
    /// Of [`Slots::address`](super::Slots::address).
    pub const ADDRESS: i32 = offset_of!(Slots, address) as i32;
    /// Of [`Slots::leave`](super::Slots::leave).
    pub const LEAVE: i32 = offset_of!(Slots, leave) as i32;
    /// Of [`Slots::program_fs`](super::Slots::program_fs).
    pub const PROGRAM_FS: i32 = offset_of!(Slots, program_fs) as i32;
    /// Of [`Slots::program_gs`](super::Slots::program_gs).
    pub const PROGRAM_GS: i32 = offset_of!(Slots, program_gs) as i32;
    /// Of [`Slots::kept_vectors`](super::Slots::kept_vectors).
    pub const KEPT_VECTORS: i32 = offset_of!(Slots, kept_vectors) as i32;
    /// Of [`Slots::vectors_used`](super::Slots::vectors_used).
    pub const VECTORS_USED: i32 = offset_of!(Slots, vectors_used) as i32;
    /// Of [`Slots::in_tool`](super::Slots::in_tool).
    pub const IN_TOOL: i32 = offset_of!(Slots, in_tool) as i32;
    /// Of [`Slots::function`](super::Slots::function).
    pub const FUNCTION: i32 = offset_of!(Slots, function) as i32;
    /// Of [`Slots::tool`](super::Slots::tool).
    pub const TOOL: i32 = offset_of!(Slots, tool) as i32;
    /// Of [`Slots::tool_state`](super::Slots::tool_state).
    pub const TOOL_STATE: i32 = offset_of!(Slots, tool_state) as i32;
    /// Of [`Slots::result`](super::Slots::result).
    pub const RESULT: i32 = offset_of!(Slots, result) as i32;
    /// Of [`Slots::kept_flags`](super::Slots::kept_flags).
    pub const KEPT_FLAGS: i32 = offset_of!(Slots, kept_flags) as i32;
    /// Of [`Slots::arguments`](super::Slots::arguments).
    pub const ARGUMENTS: i32 = offset_of!(Slots, arguments) as i32;
    /// Of [`Slots::control_words`](super::Slots::control_words).
    pub const CONTROL_WORDS: i32 = offset_of!(Slots, control_words) as i32;
    /// Of [`Slots::vectors`](super::Slots::vectors).
    pub const VECTORS: i32 = offset_of!(Slots, vectors) as i32;

    /// Of the program's base of a segment.
    pub const fn base(segment: Segment) -> i32 {
        match segment {
            Segment::Fs => PROGRAM_FS,
            Segment::Gs => PROGRAM_GS,
        }
    }

    /// Of a saved program register.
    pub const fn register(number: u8) -> i32 {
        number as i32 * 8
    }

    /// Of a general register that a call keeps.
    pub const fn kept(number: u8) -> i32 {
        offset_of!(Slots, kept) as i32 + number as i32 * 8
    }

    /// Of a spill slot.
    pub const fn spill(number: u8) -> i32 {
        offset_of!(Slots, spills) as i32 + number as i32 * 8
    }
}
