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
use std::ops::Range;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::FragmentId;
use unspool_code_cache::slots::{Slots, slots};
use unspool_kernel::layout;
use unspool_kernel::lock::{Mutex, OnceLock};

use super::in_tool::{in_tool, state, thread_state};
use crate::slots as tool_slots;
use crate::slots::MOST_BUFFERS;
use unspool_engine::thread::Thread;

const PAGE: u64 = 4096;
/// The most bytes of a buffer: an address space has no more.
const MOST_BYTES: usize = 1 << 46;

/// A buffer, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferId(u8);

/// What gets a batch: what the tool keeps for the thread, the address of the first entry, and how
/// many there are. It runs in the thread that made them, on the engine's stack, and must return.
pub type Deliver = extern "C" fn(*mut (), *const u8, usize);

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
    /// Where the tool makes it.
    pub made_at: &'static Location<'static>,
}

static ANNOUNCED: Mutex<Vec<BufferKind>> = Mutex::new(Vec::new());
static KINDS: OnceLock<Vec<BufferKind>> = OnceLock::new();

impl BufferId {
    /// A new buffer.
    ///
    /// # Panics
    /// If the program runs already, if there are too many, if the entries have no size, or if so many
    /// fit into no memory.
    #[must_use]
    #[track_caller]
    pub fn new(kind: BufferKind) -> BufferId {
        assert!(
            KINDS.get().is_none(),
            "buffers are to be made before the program is run: code that was translated before has no room for them"
        );
        assert!(
            kind.entry_size != 0 && kind.entries != 0,
            "a buffer without room"
        );
        let bytes = kind.entries.checked_mul(kind.entry_size);
        assert!(
            bytes.is_some_and(|bytes| bytes <= MOST_BYTES),
            "{} entries of {} bytes fit into no memory",
            kind.entries,
            kind.entry_size
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
    #[track_caller]
    pub fn deliver_at_system_calls(self) {
        assert!(KINDS.get().is_none(), "the program runs already");
        let mut announced = ANNOUNCED.lock();
        announced[self.index()].at_system_calls = true;
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// What is known of it.
    pub(crate) fn kind(self) -> &'static BufferKind {
        &kinds()[self.index()]
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

/// How many buffers the tool has.
pub(crate) fn count() -> usize {
    kinds().len()
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

/// Bytes of a thread's part of a buffer.
pub(crate) fn part_size(kind: &BufferKind) -> usize {
    (kind.entries * kind.entry_size).next_multiple_of(PAGE as usize)
}

/// Gives the calling thread its parts. If there is no memory for one, says for which.
pub(super) fn prepare() -> Result<(), (&'static BufferKind, io::Error)> {
    for (number, kind) in kinds().iter().enumerate() {
        let size = part_size(kind) as u64;
        let (base, end) = map(size).map_err(|error| (kind, error))?;
        tool_slots::of(slots()).buffers[number].set(base, end);
        position(slots(), number).set(base);
    }
    Ok(())
}

/// So many bytes, with a page behind them that cannot be accessed. Returns where they start and end.
fn map(size: u64) -> io::Result<(u64, u64)> {
    let base = layout::map_memory(size + PAGE, libc::PROT_READ | libc::PROT_WRITE)?;
    let end = base + size;
    // SAFETY: the page is the mapping's last.
    unsafe { layout::protect(end, PAGE, libc::PROT_NONE)? };
    Ok((base, end))
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
        hand_over(kind, base..end, thread_state());
    }
}

thread_local! {
    /// Whether the tool is getting entries of this thread.
    static IS_DELIVERED: Cell<bool> = const { Cell::new(false) };
}

/// Whether the tool is getting entries of the calling thread.
pub(crate) fn is_delivered() -> bool {
    IS_DELIVERED.get()
}

fn hand_over(kind: &BufferKind, entries: Range<u64>, state: *mut ()) {
    let count = (entries.end - entries.start) as usize / kind.entry_size;
    if count != 0 {
        IS_DELIVERED.set(true);
        in_tool(|| (kind.deliver)(state, entries.start as *const u8, count));
        IS_DELIVERED.set(false);
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
/// superblock has stored moves to the start. `binding`: the registers that a fragment has spilled.
pub(crate) fn make_room(
    thread: &mut Thread,
    binding: impl Fn(FragmentId) -> Option<RegisterBinding>,
) {
    let slots = thread.slots();
    let target = slots.target();
    let address = tool_slots::of(slots).full_buffer.take();
    let Some(number) = at_end(slots, address) else {
        return;
    };
    let fragment = {
        let code = thread.process.code();
        code.cache.fragment_at(target)
    };
    let Some(binding) = fragment.and_then(binding) else {
        unspool_kernel::diagnostics::fatal("a tool's buffer overflowed outside translated code");
    };
    let register = match number {
        0 if first_is_bound() => binding.buffer(),
        _ => binding.scratch(),
    };
    let start = thread.register(register);
    let part = &tool_slots::of(slots).buffers[number];
    let (base, end) = (part.base.get(), part.end.get());
    hand_over(&kinds()[number], base..start, state(thread));
    // SAFETY: both ranges lie in this thread's part.
    unsafe { std::ptr::copy(start as *const u8, base as *mut u8, (end - start) as usize) };
    if number != 0 || !first_is_bound() {
        part.position.set(base);
    }
    thread.set_register(register, base);
}

/// What the path from which a function is called has stored behind a buffer's position.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PendingBytes {
    /// All of it: by so much the path's end moves the position.
    pub(crate) all: u32,
    /// Those of them, the last ones, that count only if the instruction completes before which the
    /// function is called.
    pub(crate) undecided: u32,
}

impl PendingBytes {
    pub(crate) fn to_word(self) -> u64 {
        u64::from(self.all) | u64::from(self.undecided) << 32
    }

    pub(crate) fn from_word(word: u64) -> PendingBytes {
        PendingBytes {
            all: word as u32,
            undecided: (word >> 32) as u32,
        }
    }
}

/// What inserted code has announced to the function that the calling thread is in.
pub(super) fn pending_here(buffer: BufferId) -> PendingBytes {
    let part = &tool_slots::of(slots()).buffers[buffer.index()];
    PendingBytes::from_word(part.pending.get())
}

/// The calling thread has left the place of a call whose inserted code will not revoke that.
pub(super) fn forget_pending() {
    for part in &tool_slots::of(slots()).buffers[..kinds().len()] {
        part.pending.set(0);
    }
}

/// Appends entries for code that does not run in place of the program, in a call or outside.
///
/// A thread's part has, in order: entries that are complete, up to the position; those that the path
/// has stored behind it; and room. What is appended here goes behind them all, except that entries
/// which count only if the instruction completes stay the last ones. When a part is handed over in
/// the middle of a path, the path goes on behind what is left. The position, relative to which it
/// stores, may then lie before the start of the part until the path ends.
pub(super) struct Appender {
    kind: &'static BufferKind,
    number: usize,
    state: *mut (),
    base: u64,
    end: u64,
    /// Behind the last entry.
    top: u64,
    pending: PendingBytes,
}

impl Appender {
    /// Behind what the calling thread has appended, and what its path has stored. With `state` the
    /// tool gets entries for which there is no room.
    pub(super) fn new(buffer: BufferId, pending: PendingBytes, state: *mut ()) -> Appender {
        let number = buffer.index();
        let part = &tool_slots::of(slots()).buffers[number];
        Appender {
            kind: &kinds()[number],
            number,
            state,
            base: part.base.get(),
            end: part.end.get(),
            top: position(slots(), number).get() + u64::from(pending.all),
            pending,
        }
    }

    /// Appends an entry of the buffer's size.
    pub(super) fn push(&mut self, entry: &[u8]) {
        debug_assert_eq!(entry.len(), self.kind.entry_size);
        // SAFETY: the entry has as many bytes as the buffer's have.
        unsafe { self.push_from(entry.as_ptr()) }
    }

    /// The same for an entry that may have bytes which are not set.
    ///
    /// # Safety
    /// There must be as many bytes as the buffer's entries have.
    pub(super) unsafe fn push_from(&mut self, from: *const u8) {
        let to = self.take_place();
        // The most frequent sizes without a call.
        // SAFETY: there is room for the entry, and as many bytes are there, as the caller says.
        unsafe {
            match self.kind.entry_size {
                8 => std::ptr::copy_nonoverlapping(from, to, 8),
                16 => std::ptr::copy_nonoverlapping(from, to, 16),
                24 => std::ptr::copy_nonoverlapping(from, to, 24),
                bytes => std::ptr::copy_nonoverlapping(from, to, bytes),
            }
        }
    }

    /// Appends an entry of zeros, which the caller fills.
    pub(super) fn push_empty(&mut self) -> &mut [u8] {
        let place = self.take_place();
        let size = self.kind.entry_size;
        // SAFETY: there is room for the entry in this thread's part, and nobody else looks at it as
        // long as the appender is borrowed.
        let entry = unsafe { std::slice::from_raw_parts_mut(place, size) };
        entry.fill(0);
        entry
    }

    /// Where the next entry goes, for which there is room.
    fn take_place(&mut self) -> *mut u8 {
        let size = self.kind.entry_size;
        if self.top + size as u64 > self.end {
            self.make_room();
        }
        let undecided = u64::from(self.pending.undecided);
        let place = (self.top - undecided) as *mut u8;
        if undecided != 0 {
            // SAFETY: both ranges lie in this thread's part, in which there is room for an entry.
            unsafe { std::ptr::copy(place, place.add(size), undecided as usize) };
        }
        self.top += size as u64;
        place
    }

    fn make_room(&mut self) {
        self.flush();
        let room = (self.end - self.top) as usize;
        assert!(
            self.kind.entry_size <= room,
            "the buffer of {} bytes that is made at {} is too small for what one instruction appends; give it room for more entries",
            self.end - self.base,
            self.kind.made_at
        );
    }

    /// Hands over all that counts whether the instruction completes or not.
    pub(super) fn flush(&mut self) {
        let undecided = u64::from(self.pending.undecided);
        let decided = self.top - undecided;
        self.top = self.base + undecided;
        self.keep_position();
        hand_over(self.kind, self.base..decided, self.state);
        // SAFETY: both ranges lie in this thread's part.
        unsafe {
            std::ptr::copy(
                decided as *const u8,
                self.base as *mut u8,
                undecided as usize,
            );
        }
    }

    fn keep_position(&self) {
        position(slots(), self.number).set(self.top - u64::from(self.pending.all));
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        self.keep_position();
    }
}

/// Moves a position of the calling thread, which has left a superblock in its middle.
pub(super) fn advance(buffer: BufferId, bytes: u32) {
    position(slots(), buffer.index()).update(|at| at + u64::from(bytes));
}
