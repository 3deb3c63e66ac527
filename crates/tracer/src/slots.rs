//! What the tracer keeps in each thread's slots, for inserted code.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use unspool_code_cache::slots::{Room, Slots, SlotsPart};

/// The tracer's part of a thread's slots.
#[repr(C)]
pub(crate) struct TraceSlots {
    /// Line-atomic order: eight times the buffer position plus this bounds the thread's time.
    pub(crate) clock: Cell<u64>,
    /// Line-atomic order: where other threads see this one's state, time, and so on.
    pub(crate) public: Cell<u64>,
    /// Line-atomic order: not zero when another thread wants an answer.
    pub(crate) poll: AtomicU64,
    /// Line-atomic order: read-shared words not below this one have been seen.
    pub(crate) shared_seen: Cell<u64>,
    /// What says which elements of a gather, a scatter or a tile are accessed: a bit for each.
    pub(crate) element_mask: Cell<u64>,
    /// Their indexes, as they lie in the vector register; of a tile its configuration.
    pub(crate) elements: [Cell<u64>; 8],
    /// Rounds of the repeated string instruction at hand that come later.
    pub(crate) rest: Cell<u64>,
}

/// The bit of [`TraceSlots::poll`] that asks for more than an answer.
pub(crate) const ASKED_TO_SHOW: u64 = 2;

/// Asks a thread, by its poll slot, to show its records. This may be lost where it is answering somebody
/// just now.
pub(crate) fn ask_to_show(poll: &AtomicU64) {
    poll.fetch_or(ASKED_TO_SHOW, Ordering::SeqCst);
}

/// Where the parts of a tile configuration lie: first row, bytes of the rows of each tile,
/// rows of each tile (Intel SDM, volume 1, section 18.2).
pub(crate) const TILE_FIRST_ROW: usize = 1;
pub(crate) const TILE_ROW_BYTES: usize = 16;
pub(crate) const TILE_ROWS: usize = 48;

// SAFETY: made of cells and atomics of words; no other part has the room.
unsafe impl SlotsPart for TraceSlots {
    const ROOM: Room = Room::FirstClient;
}

/// The tracer's part of these slots.
#[inline]
pub(crate) fn of(slots: &Slots) -> &TraceSlots {
    TraceSlots::of(slots)
}

/// Byte offsets in the slots, for code that is emitted.
pub(crate) mod offset {
    use std::mem::offset_of;

    use super::{SlotsPart, TraceSlots};

    const fn slot(within: usize) -> i32 {
        TraceSlots::START + within as i32
    }

    pub(crate) const CLOCK: i32 = slot(offset_of!(TraceSlots, clock));
    pub(crate) const PUBLIC: i32 = slot(offset_of!(TraceSlots, public));
    pub(crate) const POLL: i32 = slot(offset_of!(TraceSlots, poll));
    pub(crate) const SHARED_SEEN: i32 = slot(offset_of!(TraceSlots, shared_seen));
    pub(crate) const ELEMENT_MASK: i32 = slot(offset_of!(TraceSlots, element_mask));
    pub(crate) const ELEMENTS: i32 = slot(offset_of!(TraceSlots, elements));
    pub(crate) const REST: i32 = slot(offset_of!(TraceSlots, rest));
}
