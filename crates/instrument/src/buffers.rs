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
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::FragmentId;
use unspool_code_cache::slots::{Slots, slots};
use unspool_kernel::layout;
use unspool_kernel::lock::{Mutex, OnceLock};

use super::in_tool::in_tool;
use crate::slots as tool_slots;
use crate::slots::MOST_BUFFERS;
use unspool_engine::thread::Thread;

const PAGE: u64 = 4096;
/// The most bytes of a buffer: an address space has no more.
const MOST_BYTES: usize = 1 << 46;

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
    hand_over(&kinds()[number], base, start);
    // SAFETY: both ranges lie in this thread's part.
    unsafe { std::ptr::copy(start as *const u8, base as *mut u8, (end - start) as usize) };
    if number != 0 || !first_is_bound() {
        part.position.set(base);
    }
    thread.set_register(register, base);
}

/// Appends entries for code that does not run in place of the program, in a call or outside.
pub(super) struct Appender {
    kind: BufferKind,
    number: usize,
    base: u64,
    end: u64,
    /// Where the next entry goes.
    next: u64,
    /// Bytes in front of it that the path has stored, and by which its end will move the position.
    pending: usize,
}

impl Appender {
    /// Behind what the calling thread has appended, and what its path has stored.
    pub(super) fn new(buffer: BufferId, pending: usize) -> Appender {
        let number = buffer.index();
        let part = &tool_slots::of(slots()).buffers[number];
        Appender {
            kind: kinds()[number],
            number,
            base: part.base.get(),
            end: part.end.get(),
            next: position(slots(), number).get() + pending as u64,
            pending,
        }
    }

    /// Appends an entry of the buffer's size.
    pub(super) fn push(&mut self, entry: &[u8]) {
        debug_assert_eq!(entry.len(), self.kind.entry_size);
        let (from, to) = (entry.as_ptr(), self.take_place());
        // The most frequent sizes without a call.
        // SAFETY: there is room for the entry in this thread's part.
        unsafe {
            match entry.len() {
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
        let size = self.kind.entry_size as u64;
        if self.next + size > self.end {
            self.make_room();
        }
        let place = self.next;
        self.next += size;
        place as *mut u8
    }

    /// Hands over all but as many bytes as the path's end will add to the position.
    fn make_room(&mut self) {
        let rest = self.next - self.pending as u64;
        hand_over(&self.kind, self.base, rest);
        // SAFETY: both ranges lie in this thread's part.
        unsafe { std::ptr::copy(rest as *const u8, self.base as *mut u8, self.pending) };
        self.next = self.base + self.pending as u64;
        self.keep_position();
    }

    fn keep_position(&self) {
        position(slots(), self.number).set(self.next - self.pending as u64);
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
