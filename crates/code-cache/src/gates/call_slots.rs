//! What a call of a tool's function keeps in its thread's slots.

use std::cell::Cell;
use std::mem::offset_of;
use std::sync::atomic::AtomicU64;

use crate::slots::{Room, SlotsPart};

/// The most arguments that a call can have.
pub const MOST_ARGUMENTS: usize = 10;

/// A call of a tool's function: what inserted code asks for, and what is kept meanwhile.
#[repr(C)]
pub struct CallSlots {
    /// The program's vector and mask registers during the call. (The XSAVE area is not for that:
    /// its header must stay as the processor wants it.)
    kept_vectors: [Cell<u64>; 33 * 8],
    /// What the call keeps of the general registers, by number.
    kept: [Cell<u64>; 16],
    /// What the call keeps of the flags, as `lahf` and `seto` give them.
    kept_flags: Cell<u64>,
    /// The function that is to be called.
    pub function: Cell<u64>,
    /// The tool, with which its function is called.
    pub tool: Cell<u64>,
    /// What the tool keeps for the thread, with which its function is called too.
    pub tool_state: Cell<u64>,
    /// What the function returned.
    pub result: Cell<u64>,
    /// Arguments of the function, those that are not in registers.
    pub arguments: [Cell<u64>; MOST_ARGUMENTS],
    /// The program's MXCSR during the call, and one to compare it with.
    control_words: [Cell<u32>; 2],
    /// Which components of the vector state the program uses during the call.
    vectors_used: Cell<u64>,
    /// Not zero while a tool's own code runs: other threads look at it.
    pub in_tool: AtomicU64,
}

// SAFETY: made of cells and atomics of words; no other part has the room.
unsafe impl SlotsPart for CallSlots {
    const ROOM: Room = Room::ToolCalls;
}

/// Where a field is in the slots.
macro_rules! slot {
    ($field:ident) => {
        CallSlots::START + offset_of!(CallSlots, $field) as i32
    };
}

impl CallSlots {
    /// Where [`CallSlots::function`] is in the slots.
    pub const FUNCTION: i32 = slot!(function);
    /// Where [`CallSlots::tool`] is in the slots.
    pub const TOOL: i32 = slot!(tool);
    /// Where [`CallSlots::tool_state`] is in the slots.
    pub const TOOL_STATE: i32 = slot!(tool_state);
    /// Where [`CallSlots::result`] is in the slots.
    pub const RESULT: i32 = slot!(result);
    /// Where [`CallSlots::arguments`] are in the slots.
    pub const ARGUMENTS: i32 = slot!(arguments);
    /// Where the flags are kept.
    pub const KEPT_FLAGS: i32 = slot!(kept_flags);
    /// Where vector and mask registers are kept.
    pub const KEPT_VECTORS: i32 = slot!(kept_vectors);
    pub(in crate::gates) const CONTROL_WORDS: i32 = slot!(control_words);
    pub(in crate::gates) const VECTORS_USED: i32 = slot!(vectors_used);
    pub(super) const IN_TOOL: i32 = slot!(in_tool);

    /// Where a general register is kept.
    #[must_use]
    pub const fn kept(register: u8) -> i32 {
        slot!(kept) + register as i32 * 8
    }
}
