//! The state of one thread that translated code reaches by a fixed displacement from FS.
//!
//! The engine keeps FS for itself. [`Slots`] is a thread-local without initialiser or
//! destructor, so it lies in the static TLS block of the executable, at the same
//! displacement from FS in every thread: code in the cache addresses a slot as
//! `fs:[displacement + offset]`.

use std::cell::{Cell, UnsafeCell};
use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use unspool_instructions::decode::Segment;

use crate::address::CacheAddress;
use crate::exit::Reason;

/// The program's registers while its thread is outside the code cache, and the words
/// through which cache and engine talk.
///
/// All of it is cells and atomics, and is used by shared reference. Translated code writes the cells,
/// but only between a thread's way through [`Gates::enter`](crate::gates::Gates::enter) and its return,
/// which the compiler takes for a call that may change them; a signal handler uses them only where
/// it has interrupted the thread there. What a handler writes at other times, or another thread
/// uses, is atomic: [`pending`](Self::pending), [`in_cache`](Self::in_cache),
/// and what gates and clients say of theirs.
#[repr(C, align(64))]
pub struct Slots {
    /// rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 … r15.
    pub registers: [Cell<u64>; 16],
    /// The status flags.
    pub flags: Cell<u64>,
    /// Program counter of the program.
    pub pc: Cell<u64>,
    /// Where translated code keeps program registers that it spills.
    pub spills: [Cell<u64>; SPILLS],
    /// The last branch that went through a hashed chain: its place in the cache.
    branch: Cell<u64>,
    /// Why the cache was left: the number of a [`Reason`].
    exit: Cell<u64>,
    /// The cache address at which to enter.
    target: Cell<u64>,
    /// The engine's stack pointer, a multiple of 16, while in the cache; 0 outside.
    pub host_stack: Cell<u64>,
    /// Not zero: leave (or do not enter) the cache, something is pending.
    pub pending: AtomicU64,
    /// What the first of the bound registers holds in the cache: next free word of the trace buffer,
    /// or of a tool's first buffer.
    pub buffer: Cell<u64>,
    /// What the third of the bound registers holds in the cache: the word that marks lines as
    /// exclusive to this thread.
    pub owner_word: Cell<u64>,
    /// The program's FS base (it lives in GS; this is a copy for the engine).
    pub program_fs: Cell<u64>,
    /// The program's GS base: only here.
    pub program_gs: Cell<u64>,
    /// 1 while the thread holds anything that refers to the code cache (the flushes of the cache wait for that).
    pub in_cache: AtomicU64,
    /// What gates and clients keep of their own where emitted code reaches it.
    rooms: Rooms,
    /// The program's vector state outside the cache, in XSAVE format.
    pub vectors: Vectors,
}

/// A part of the slots that one type has for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// That of the gate of failed checks.
    FailedChecks,
    /// That of the gate of tools' functions.
    ToolCalls,
    /// That of one client.
    FirstClient,
    /// That of another.
    SecondClient,
}

impl Room {
    /// In the order in which they lie in the slots: those of the gates first, then those of clients.
    const ALL: [Room; 4] = [
        Room::FailedChecks,
        Room::ToolCalls,
        Room::FirstClient,
        Room::SecondClient,
    ];
    /// The first one of a client.
    const FIRST_OF_CLIENTS: Room = Room::FirstClient;

    const fn words(self) -> usize {
        match self {
            Room::FailedChecks => 8,
            Room::ToolCalls => 320,
            Room::FirstClient => 128,
            Room::SecondClient => 264,
        }
    }

    /// Where it begins, in words: at a cache line.
    const fn start(self) -> usize {
        let (mut start, mut before) = (0, 0);
        while before < self as usize {
            start += Room::ALL[before].words();
            before += 1;
        }
        assert!(start.is_multiple_of(8));
        start
    }

    const fn end(self) -> usize {
        self.start() + self.words()
    }
}

#[repr(C, align(64))]
struct Rooms([Cell<u64>; Room::SecondClient.end()]);

/// What a gate or a client keeps of its own in each thread's slots, where emitted code reaches it. It
/// begins as zeros. What a client has there stays what it is where a child has used its parent's
/// slots.
///
/// # Safety
/// It must be `repr(C)` and made of cells and atomics of words (a shared reference is all that there
/// is, and emitted code writes it), zeros must be a value of it, and no other part may have the room.
pub unsafe trait SlotsPart: Sized {
    /// Which room it has.
    const ROOM: Room;

    /// Where it lies in the slots, in bytes. Its offsets are relative to this.
    const START: i32 = {
        assert!(size_of::<Self>() <= Self::ROOM.words() * size_of::<u64>());
        assert!(align_of::<Self>() <= align_of::<Rooms>());
        (offset_of!(Slots, rooms) + Self::ROOM.start() * size_of::<u64>()) as i32
    };

    /// This part of a thread's slots.
    #[must_use]
    #[inline]
    fn of(slots: &Slots) -> &Self {
        let Rooms(words) = &slots.rooms;
        let room = &words[const { Self::ROOM.start()..Self::ROOM.end() }];
        // SAFETY: the room is large enough and aligned for it, which `START` asserts; it holds zeros
        // or what was kept there by this type, which alone has the room, and is made of cells.
        unsafe { &*room.as_ptr().cast::<Self>() }
    }
}

/// How many bytes an XSAVE area has.
pub(crate) const AREA_SIZE: usize = 4096;

/// An XSAVE area.
#[repr(C, align(64))]
pub struct Vectors(UnsafeCell<[u8; AREA_SIZE]>);

impl Vectors {
    /// Where it lies.
    #[must_use]
    pub fn area(&self) -> *mut u8 {
        self.0.get().cast()
    }
}

/// How many spill slots there are.
const SPILLS: usize = 14;
/// The spill slot of the register that holds the target of an indirect branch.
pub const TARGET_SPILL: u8 = 0;
/// The spill slot of rcx on its way through a hashed chain (that of a far base, which is given
/// back before).
pub(crate) const HASH_SPILL: u8 = 1;
/// The spill slots of the registers that a trace borrows: buffer, scratch, owner word.
pub const BOUND_SPILLS: [u8; 3] = [2, 3, 4];

thread_local! {
    static SLOTS: Slots = const {
        Slots {
            registers: [const { Cell::new(0) }; 16],
            flags: Cell::new(0x202),
            pc: Cell::new(0),
            spills: [const { Cell::new(0) }; SPILLS],
            branch: Cell::new(0),
            exit: Cell::new(0),
            target: Cell::new(0),
            host_stack: Cell::new(0),
            pending: AtomicU64::new(0),
            buffer: Cell::new(0),
            owner_word: Cell::new(0),
            program_fs: Cell::new(0),
            program_gs: Cell::new(0),
            in_cache: AtomicU64::new(0),
            rooms: Rooms([const { Cell::new(0) }; _]),
            vectors: Vectors(UnsafeCell::new([0; AREA_SIZE])),
        }
    };
}

impl Slots {
    /// All general registers.
    #[must_use]
    #[inline]
    pub fn registers(&self) -> [u64; 16] {
        self.registers.each_ref().map(Cell::get)
    }

    /// Sets all general registers.
    pub fn set_registers(&self, values: &[u64; 16]) {
        for (register, value) in self.registers.iter().zip(values) {
            register.set(*value);
        }
    }

    /// Why the cache was left.
    #[must_use]
    #[inline]
    pub fn reason(&self) -> Reason {
        Reason::of_number(self.exit.get() as u32)
    }

    /// Where the thread enters the cache, or has left it in the middle of a fragment.
    #[must_use]
    #[inline]
    pub fn target(&self) -> CacheAddress {
        CacheAddress::emitted(self.target.get())
    }

    /// Says where the thread is to enter the cache: an address of the program is not that.
    ///
    /// ```compile_fail,E0308
    /// let slots = unspool_code_cache::slots::slots();
    /// slots.set_target(slots.pc.get());
    /// ```
    #[inline]
    pub fn set_target(&self, target: CacheAddress) {
        self.target.set(target.get());
    }

    /// The last branch that went through a hashed chain, if there was one.
    #[must_use]
    pub fn branch(&self) -> Option<CacheAddress> {
        CacheAddress::of(self.branch.get())
    }

    /// Has the thread find that it has left the cache for this reason.
    pub fn set_reason(&self, reason: Reason) {
        self.exit.set(u64::from(reason.number()));
    }

    /// The program's base of a segment.
    #[must_use]
    pub fn base(&self, segment: Segment) -> u64 {
        match segment {
            Segment::Fs => self.program_fs.get(),
            Segment::Gs => self.program_gs.get(),
        }
    }

    /// All that is there now.
    #[must_use]
    pub fn save(&self) -> SavedSlots {
        let mut saved = Box::new_uninit();
        // SAFETY: both are of the type, which is made of numbers.
        unsafe {
            std::ptr::copy_nonoverlapping(self, saved.as_mut_ptr(), 1);
            SavedSlots(saved.assume_init())
        }
    }

    /// Puts back what was there, except for what clients keep, and where they are in a buffer.
    pub fn restore(&self, saved: SavedSlots) {
        const WORDS: usize = size_of::<Slots>() / size_of::<u64>();
        let SavedSlots(saved) = saved;
        saved.buffer.set(self.buffer.get());
        let of_clients = Room::FIRST_OF_CLIENTS.start()..;
        let (words, own) = (
            &saved.rooms.0[of_clients.clone()],
            &self.rooms.0[of_clients],
        );
        for (word, own) in words.iter().zip(own) {
            word.set(own.get());
        }
        let (from, to) = (&raw const *saved, std::ptr::from_ref(self));
        for word in 0..WORDS {
            // SAFETY: both are words of the slots, which are in cells. Others may look at some of them.
            unsafe {
                let value = from.cast::<u64>().add(word).read();
                let to = to.cast::<u64>().add(word).cast_mut();
                AtomicU64::from_ptr(to).store(value, Ordering::Relaxed);
            }
        }
    }
}

/// What a thread's slots held.
pub struct SavedSlots(Box<Slots>);

/// The slots of this thread.
#[must_use]
#[inline]
pub fn slots() -> &'static Slots {
    // SAFETY: they lie in the static TLS block and have no destructor: they are there until the
    // thread has ended, and no reference to them goes to another thread, because cells are not `Sync`.
    SLOTS.with(|slots| unsafe { &*std::ptr::from_ref(slots) })
}

/// The displacement of [`Slots`] from FS, the same in every thread.
#[must_use]
pub fn displacement() -> i32 {
    i32::try_from((std::ptr::from_ref(slots()) as u64).wrapping_sub(thread_pointer()) as i64)
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
    pub(crate) const BRANCH: i32 = offset_of!(Slots, branch) as i32;
    /// Of the [`Reason`](crate::exit::Reason) for which the cache was left.
    pub(crate) const EXIT: i32 = offset_of!(Slots, exit) as i32;
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
    /// Of [`Slots::program_fs`](super::Slots::program_fs).
    pub const PROGRAM_FS: i32 = offset_of!(Slots, program_fs) as i32;
    /// Of [`Slots::program_gs`](super::Slots::program_gs).
    pub const PROGRAM_GS: i32 = offset_of!(Slots, program_gs) as i32;
    /// Of [`Slots::vectors`](super::Slots::vectors).
    pub(crate) const VECTORS: i32 = offset_of!(Slots, vectors) as i32;

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

    /// Of a spill slot.
    pub const fn spill(number: u8) -> i32 {
        offset_of!(Slots, spills) as i32 + number as i32 * 8
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::mem::offset_of;
    use std::sync::atomic::Ordering;

    use super::{AREA_SIZE, Room, Slots, SlotsPart, slots};

    #[repr(C)]
    struct Kept {
        first: Cell<u64>,
        second: Cell<u64>,
    }

    // SAFETY: made of cells of words; nobody else has rooms in a test.
    unsafe impl SlotsPart for Kept {
        const ROOM: Room = Room::SecondClient;
    }

    #[test]
    fn a_client_finds_its_words_at_their_displacement() {
        let own = slots();
        Kept::of(own).first.set(3);
        Kept::of(own).second.set(7);
        let displacement = Kept::START as usize + offset_of!(Kept, second);
        let word = std::ptr::from_ref(own).wrapping_byte_add(displacement);
        // SAFETY: a word of the slots.
        assert_eq!(unsafe { word.cast::<u64>().read() }, 7);
        assert_eq!(Kept::of(own).first.get(), 3);
    }

    #[test]
    fn all_but_what_clients_keep_is_put_back() {
        let own = slots();
        let last = own.vectors.area().wrapping_add(AREA_SIZE - 1);
        let set = |value: u64| {
            own.registers[15].set(value);
            own.pending.store(value, Ordering::Relaxed);
            own.buffer.set(value);
            Kept::of(own).first.set(value);
            // SAFETY: in this thread's area.
            unsafe { last.write(value as u8) };
        };
        set(1);
        let saved = own.save();
        set(2);
        own.restore(saved);
        assert_eq!(own.registers()[15], 1);
        assert_eq!(own.pending.load(Ordering::Relaxed), 1);
        // SAFETY: as above.
        assert_eq!(unsafe { last.read() }, 1);
        assert_eq!((own.buffer.get(), Kept::of(own).first.get()), (2, 2));
    }

    #[test]
    fn each_thread_has_its_own() {
        let there = std::thread::spawn(|| {
            slots().pc.set(5);
            std::ptr::from_ref::<Slots>(slots()) as usize
        });
        slots().pc.set(3);
        assert_ne!(there.join().unwrap(), std::ptr::from_ref(slots()) as usize);
        assert_eq!(slots().pc.get(), 3);
    }
}
