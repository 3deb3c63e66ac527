//! Buffers: inserted code appends entries to them without a call, and the tool gets the
//! entries in batches, in the thread that made them.
//!
//! Behind each thread's part of a buffer lies a page without access: there is no test for
//! overflow. The store that meets it finds room when what is complete has been handed over
//! and what the superblock has stored so far has been moved to the start.
//!
//! The position of the first buffer is in a register wherever translated code runs, and in a
//! slot where the thread is outside; those of the others are always in their slots.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::slots::{Slots, slots};
use unspool_kernel::layout;
use unspool_kernel::lock::{Mutex, OnceLock};

use super::Instrumenter;
use super::client::in_tool;
use crate::slots as tool_slots;
use unspool_engine::thread::Thread;

/// The most buffers that a tool can have.
pub const MOST_BUFFERS: usize = 8;

const PAGE: u64 = 4096;

/// A buffer, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferId(u8);

/// What gets a batch: the address of the first entry, and how many there are. It runs in the
/// thread that made them, on the engine's stack, and must return.
pub type Deliver = extern "C" fn(*const u8, usize);

/// What is known of a buffer.
#[derive(Debug, Clone, Copy)]
pub struct BufferKind {
    /// The most entries of a batch; it can be some more, since a page is not divided.
    pub entries: usize,
    /// Bytes of an entry: a multiple of its alignment, which is 8 at most.
    pub entry_size: usize,
    /// What gets the batches.
    pub deliver: Deliver,
    /// Whether a batch ends at each system call of its thread.
    pub at_system_calls: bool,
}

/// A thread's part of a buffer: addresses.
#[derive(Debug)]
#[repr(C)]
pub struct Part {
    /// Where the next entry goes (of the first buffer: see `Slots::buffer`).
    pub position: Cell<u64>,
    /// The first entry's place; 0 if there is no buffer.
    pub base: Cell<u64>,
    /// The page without access.
    pub end: Cell<u64>,
}

impl Part {
    fn set(&self, base: u64, end: u64) {
        self.position.set(base);
        self.base.set(base);
        self.end.set(end);
    }
}

static ANNOUNCED: Mutex<Vec<BufferKind>> = Mutex::new(Vec::new());
static KINDS: OnceLock<Vec<BufferKind>> = OnceLock::new();

impl BufferId {
    /// A new buffer.
    ///
    /// # Panics
    /// If the program runs already, if there are too many, or if the entries have no size.
    #[must_use]
    pub fn new(kind: BufferKind) -> BufferId {
        assert!(
            KINDS.get().is_none(),
            "buffers are to be made before the program is run: code that was translated before has no room for them"
        );
        assert!(
            kind.entry_size != 0 && kind.entries != 0,
            "a buffer without room"
        );
        let mut announced = ANNOUNCED.lock();
        assert!(
            announced.len() < MOST_BUFFERS,
            "a tool can have {MOST_BUFFERS} buffers"
        );
        announced.push(kind);
        BufferId(announced.len() as u8 - 1)
    }

    /// Has batches end at each system call.
    ///
    /// # Panics
    /// If the program runs already.
    pub fn deliver_at_system_calls(self) {
        assert!(KINDS.get().is_none(), "the program runs already");
        let mut announced = ANNOUNCED.lock();
        announced[self.index()].at_system_calls = true;
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Bytes of a thread's part of it.
    pub(crate) fn bytes(self) -> usize {
        part_size(&kinds()[self.index()])
    }
}

/// Whether another client has the register of the position.
static POSITION_IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The program is about to run: there will be no more buffers. Another client may have the register
/// of the position.
pub(crate) fn settle(position_is_taken: bool) {
    POSITION_IS_TAKEN.store(position_is_taken, Ordering::Relaxed);
    let announced = ANNOUNCED.lock();
    let _ = KINDS.set(announced.clone());
}

fn kinds() -> &'static [BufferKind] {
    KINDS.get().map_or(&[], Vec::as_slice)
}

/// Whether the tool has buffers.
pub(crate) fn are_used() -> bool {
    !kinds().is_empty()
}

/// Whether translated code keeps the first buffer's position in a register: not where that is
/// another client's.
pub(crate) fn first_is_bound() -> bool {
    !POSITION_IS_TAKEN.load(Ordering::Relaxed)
}

fn part_size(kind: &BufferKind) -> usize {
    (kind.entries * kind.entry_size).next_multiple_of(PAGE as usize)
}

/// Gives the calling thread its parts.
pub(super) fn prepare() -> io::Result<()> {
    for (number, kind) in kinds().iter().enumerate() {
        let size = part_size(kind) as u64;
        let base = layout::map_memory(size + PAGE, libc::PROT_READ | libc::PROT_WRITE)?;
        let end = base + size;
        // SAFETY: the page is the mapping's last.
        unsafe { layout::protect(end, PAGE, libc::PROT_NONE)? };
        tool_slots::of(slots()).buffers[number].set(base, end);
        position(slots(), number).set(base);
    }
    Ok(())
}

/// Gives the calling thread's parts back.
pub(super) fn free() {
    for number in 0..kinds().len() {
        let part = &tool_slots::of(slots()).buffers[number];
        let (base, end) = (part.base.get(), part.end.get());
        part.set(0, 0);
        // SAFETY: the part is this thread's, which appends nothing any more.
        unsafe { libc::munmap(base as *mut libc::c_void, (end - base + PAGE) as usize) };
    }
}

/// Where a thread that is outside of translated code keeps a position.
fn position(slots: &Slots, number: usize) -> &Cell<u64> {
    match number {
        0 if first_is_bound() => &slots.buffer,
        _ => &tool_slots::of(slots).buffers[number].position,
    }
}

/// Hands over what the calling thread, which is outside of translated code, has appended.
pub(super) fn hand_over_all() {
    hand_over_those(|_| true);
}

/// The same for the buffers that want it at system calls.
pub(super) fn hand_over_at_system_call() {
    hand_over_those(|kind| kind.at_system_calls);
}

fn hand_over_those(wanted: impl Fn(&BufferKind) -> bool) {
    for (number, kind) in kinds().iter().enumerate() {
        if !wanted(kind) {
            continue;
        }
        let base = tool_slots::of(slots()).buffers[number].base.get();
        let end = position(slots(), number).replace(base);
        hand_over(kind, base, end);
    }
}

fn hand_over(kind: &BufferKind, base: u64, end: u64) {
    let count = (end - base) as usize / kind.entry_size;
    if count != 0 {
        in_tool(|| (kind.deliver)(base as *const u8, count));
    }
}

/// The buffer whose end a fault of the calling thread is at.
fn at_end(slots: &Slots, address: u64) -> Option<usize> {
    (0..kinds().len()).find(|&number| {
        let end = tool_slots::of(slots).buffers[number].end.get();
        (end..end + PAGE).contains(&address)
    })
}

/// Whether a fault in translated code is the end of a buffer. If so it is kept which.
pub(crate) fn is_full(thread: &Thread, address: u64) -> bool {
    let full = at_end(thread.slots(), address).is_some();
    if full {
        tool_slots::of(thread.slots()).full_buffer.set(address);
    }
    full
}

/// A buffer is full in the middle of a fragment: what is complete goes to the tool, what the
/// superblock has stored moves to the start.
pub(crate) fn make_room(thread: &mut Thread) {
    let Some(instrumenter) = Instrumenter::get() else {
        return;
    };
    let slots = thread.slots();
    let target = slots.target.get();
    let address = tool_slots::of(slots).full_buffer.take();
    let Some(number) = at_end(slots, address) else {
        return;
    };
    let fragment = {
        let code = thread.process.code();
        CacheAddress::of(target).and_then(|at| code.cache.fragment_at(at))
    };
    let binding = fragment.and_then(|it| {
        instrumenter
            .fragments
            .with(it, |kept| kept.binding)
            .flatten()
    });
    let Some(binding) = binding else {
        unspool_kernel::diagnostics::fatal("a tool's buffer overflowed outside translated code");
    };
    let register = match number {
        0 if first_is_bound() => binding.buffer(),
        _ => binding.scratch(),
    };
    let start = thread.register(register);
    let part = &tool_slots::of(slots).buffers[number];
    let (base, end) = (part.base.get(), part.end.get());
    hand_over(&kinds()[number], base, start);
    // SAFETY: both ranges lie in this thread's part.
    unsafe { std::ptr::copy(start as *const u8, base as *mut u8, (end - start) as usize) };
    if number != 0 || !first_is_bound() {
        part.position.set(base);
    }
    thread.set_register(register, base);
}

/// Moves a position of the calling thread, which has left a superblock in its middle.
pub(super) fn advance(buffer: BufferId, bytes: u32) {
    position(slots(), buffer.index()).update(|at| at + u64::from(bytes));
}
