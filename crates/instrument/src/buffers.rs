//! Buffers: inserted code appends entries to them without a call, and the tool gets the
//! entries in batches, in the thread that made them.
//!
//! Behind each thread's part of a buffer lies a page without access: no store tests for overflow.
//! The one that meets the page finds room when what is complete has been handed over and what the
//! superblock has stored so far has been moved to the start. Most parts are handed over before that,
//! where a loop goes on that has nearly filled one.
//!
//! The tool gets the entries by a function that the thread calls, or the memory itself by a thread of
//! its own ([`consumer`](super::consumer)): the thread then goes on in other memory.
//!
//! The position of the first buffer is in a register wherever translated code runs, and in a
//! slot where the thread is outside; those of the others are always in their slots.

mod appender;

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use unspool_code_cache::binding::RegisterBinding;
use unspool_code_cache::cache::FragmentId;
use unspool_code_cache::slots::{Slots, slots};
use unspool_kernel::lock::{Mutex, OnceLock};

pub(crate) use self::appender::{Appender, PendingBytes, forget_pending, pending_here};
use super::consumer::{BufferKind, Consumer, Consumption, Filled, Memory, PAGE, Receiver};
use super::growth;
use super::in_tool::{deliver, state, thread_number, thread_state};
use crate::slots as tool_slots;
use crate::slots::MOST_BUFFERS;
use unspool_engine::thread::Thread;

/// The most bytes of a buffer: an address space has no more.
const MOST_BYTES: usize = 1 << 46;

/// A buffer, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferId(u8);

static ANNOUNCED: Mutex<Vec<BufferKind>> = Mutex::new(Vec::new());
static KINDS: OnceLock<Vec<BufferKind>> = OnceLock::new();
/// By the number of the buffer.
static CONSUMERS: OnceLock<Vec<Option<Consumer>>> = OnceLock::new();

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
        assert!(
            kind.consumer().is_none_or(|(_, most)| most != 0),
            "a consumer that can get no batch"
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
    let consumers = kinds().iter().map(|kind| {
        let (consume, most_filled) = kind.consumer()?;
        Some(Consumer::new(kind, consume, most_filled))
    });
    let _ = CONSUMERS.set(consumers.collect());
}

fn kinds() -> &'static [BufferKind] {
    KINDS.get().map_or(&[], Vec::as_slice)
}

/// The consumers of all buffers that have one.
pub(crate) fn consumers() -> impl Iterator<Item = &'static Consumer> {
    CONSUMERS.get().into_iter().flatten().flatten()
}

fn consumer_of(number: usize) -> Option<&'static Consumer> {
    CONSUMERS.get()?.get(number)?.as_ref()
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

/// Gives the calling thread its parts. If there is no memory for one, says for which.
pub(super) fn prepare() -> Result<(), (&'static BufferKind, io::Error)> {
    for (number, kind) in kinds().iter().enumerate() {
        let consumer = consumer_of(number);
        let memory = consumer.map_or_else(|| Memory::new(kind.part_size()), Consumer::memory);
        let (base, end) = memory.map_err(|error| (kind, error))?.into_places();
        tool_slots::of(slots()).buffers[number].set(base, end);
        position(slots(), number).set(base);
        if let Some(consumer) = consumer {
            // As long as the program has not bound its threads to processors.
            consumer.start();
        }
    }
    Ok(())
}

/// Hands over what the calling thread, which ends, has appended, and gives its parts back.
pub(super) fn end() {
    for (number, kind) in kinds().iter().enumerate() {
        let part = &tool_slots::of(slots()).buffers[number];
        if let Some(consumer) = consumer_of(number) {
            consumer.admit();
            let (base, end) = (part.base.get(), part.end.get());
            let entries = (position(slots(), number).get() - base) as usize / kind.entry_size;
            part.set(0, 0);
            // SAFETY: the part is this thread's, which appends nothing any more.
            let memory = unsafe { Memory::from_places((base, end)) };
            give(consumer, number, (memory, entries), true);
            continue;
        }
        let end = position(slots(), number).replace(part.base.get());
        let (base, end) = hand_over(number, end, 0, thread_state());
        part.set(0, 0);
        // SAFETY: as above.
        drop(unsafe { Memory::from_places((base, end)) });
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
        let part = &tool_slots::of(slots()).buffers[number];
        let end = position(slots(), number).replace(part.base.get());
        let (base, _) = hand_over(number, end, 0, thread_state());
        position(slots(), number).set(base);
    }
}

thread_local! {
    /// How many batches of each buffer this thread has given away.
    static BATCHES: [Cell<u64>; MOST_BUFFERS] = const { [const { Cell::new(0) }; MOST_BUFFERS] };
}

/// Gives a batch of the calling thread's away, for which there is room: its last one, or not.
fn give(
    consumer: &'static Consumer,
    number: usize,
    (memory, count): (Memory, usize),
    is_last: bool,
) {
    let before = BATCHES.with(|batches| {
        let next = batches[number].get() + 1;
        batches[number].replace(if is_last { 0 } else { next })
    });
    let origin = (thread_number(), before, is_last);
    consumer.give(Filled::new(consumer, memory, count, origin));
}

/// Hands over the entries of the calling thread's part that lie before `end`. So many bytes behind
/// them are kept, and are then at the start of the part. Returns where that starts and ends: it is
/// other memory, if the tool has got the memory itself.
fn hand_over(number: usize, end: u64, kept: usize, state: *mut ()) -> (u64, u64) {
    let kind = &kinds()[number];
    let part = &tool_slots::of(slots()).buffers[number];
    let old = (part.base.get(), part.end.get());
    let count = (end - old.0) as usize / kind.entry_size;
    if count == 0 {
        return old;
    }
    // Entries may be of memory that was not there before.
    growth::tell(state);
    let new = match kind.receiver {
        Receiver::Function(function) => {
            deliver(|| function(state, old.0 as *const u8, count));
            None
        }
        Receiver::Consumer { .. } => consumer_of(number)
            .map(|consumer| (consumer, consumer.admit_with_memory().into_places())),
    };
    let place = new.map_or(old, |(_, new)| new);
    // SAFETY: both are this thread's memory: its part, and what is to be its part.
    unsafe { std::ptr::copy(end as *const u8, place.0 as *mut u8, kept) };
    if let Some((consumer, new)) = new {
        part.set_memory(new.0, new.1);
        // SAFETY: the thread uses the other one from here on.
        let memory = unsafe { Memory::from_places(old) };
        give(consumer, number, (memory, count), false);
    }
    place
}

/// Hands over what the calling thread has appended to a buffer that has hardly room left. Inserted code
/// calls it where a path has ended.
pub(crate) extern "C" fn hand_over_full(
    _: *const (),
    state: *mut (),
    number: u64,
    _: u64,
    _: u64,
    _: u64,
) -> u64 {
    Appender::new(BufferId(number as u8), PendingBytes::default(), state).flush();
    0
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
    let kept = (part.end.get() - start) as usize;
    let (base, _) = hand_over(number, start, kept, state(thread));
    if number != 0 || !first_is_bound() {
        part.position.set(base);
    }
    thread.set_register(register, base);
}

impl BufferId {
    /// What its consumer has had to do so far, in this process; nothing if it has none.
    #[must_use]
    pub fn consumption(self) -> Consumption {
        consumer_of(self.index()).map_or_else(Consumption::default, Consumer::consumption)
    }
}

/// Moves a position of the calling thread, which has left a superblock in its middle.
pub(super) fn advance(buffer: BufferId, bytes: u32) {
    position(slots(), buffer.index()).update(|at| at + u64::from(bytes));
}
