//! What a tool keeps in each thread's slots, for inserted code.

use std::cell::{Cell, UnsafeCell};
use std::sync::atomic::AtomicU64;
use unspool_events::ThreadId;

use unspool_code_cache::gates::MOST_ARGUMENTS;
use unspool_code_cache::slots::{Room, Slots, SlotsPart};

/// The most buffers that a tool can have.
pub const MOST_BUFFERS: usize = 8;
/// The most samplers that a tool can have.
pub const MOST_SAMPLERS: usize = 64;

/// The most words of each thread that a tool can have for inserted code.
pub(crate) const MOST_THREAD_WORDS: usize = 8;

/// The most switches that a tool can have.
pub(crate) const MOST_SWITCHES: usize = 8;

/// The most operands of an instruction whose values can be found out.
pub const MOST_MEMORY_VALUES: usize = 4;

/// Which share of a part a path may still use that ends in no place where it is looked at whether the
/// part is full.
const SPARE: u64 = 16;

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
    /// From here on a path that has ended may hand the part over.
    pub(crate) full: Cell<u64>,
    /// What the path of inserted code from which a function is called has stored behind the
    /// position: a `PendingBytes` as a word. Everywhere else it is 0.
    pub(crate) pending: Cell<u64>,
}

impl Part {
    /// It is nothing, or new memory.
    pub(crate) fn set(&self, base: u64, end: u64) {
        self.position.set(base);
        self.set_memory(base, end);
        self.pending.set(0);
    }

    /// It goes on in this memory.
    pub(crate) fn set_memory(&self, base: u64, end: u64) {
        self.base.set(base);
        self.end.set(end);
        self.full.set(end - (end - base) / SPARE);
    }
}

/// A tool's part of a thread's slots.
#[repr(C)]
pub(crate) struct ToolSlots {
    /// The thread's number.
    pub(crate) thread_number: Cell<u64>,
    /// Where the counters are; 0 if there are none.
    pub(crate) counters: AtomicU64,
    /// The countdowns: the passages that are left.
    pub(crate) countdowns: [Cell<u64>; MOST_SAMPLERS],
    /// Which of them has just ended.
    pub(crate) sampler: Cell<u64>,
    /// What spreads them.
    pub(crate) random: Cell<u64>,
    /// The address at which a buffer was found full; 0 for none.
    pub(crate) full_buffer: Cell<u64>,
    /// What inserted code compares shadow memory with, and stores there.
    pub(crate) words: [Cell<u64>; MOST_THREAD_WORDS],
    /// By which the thread chooses between two versions of code: 0 or 1. Any thread may change them.
    pub(crate) switches: [AtomicU64; MOST_SWITCHES],
    /// In which version the instruction is that makes a system call: see
    /// [`number`](crate::switches::number).
    pub(crate) calling_version: Cell<u64>,
    /// The buffers.
    pub(crate) buffers: [Part; MOST_BUFFERS],
    /// What passes between hooks of the program's functions and the engine.
    pub(crate) exchange: UnsafeCell<Exchange>,
    /// Where the last call put its return address, plus 8; 0 once a hook has seen it.
    pub(crate) called: Cell<u64>,
    /// The end of the list of calls of hooked functions.
    pub(crate) activations: Cell<u64>,
    /// Where the list of calls of hooked functions may grow to.
    pub(crate) activations_limit: Cell<u64>,
    /// The stack pointer below which that list does not grow in place.
    pub(crate) usual_stack: Cell<u64>,
    /// The coroutine of the wrapper that runs; 0 if none does.
    pub(crate) running_wrapper: Cell<u64>,
    /// The first of the coroutines that wait for a wrapper; 0 if none does.
    pub(crate) kept_wrappers: Cell<u64>,
    /// The time that was read last, and what rax and rdx held meanwhile.
    pub(crate) time_stamp: [Cell<u64>; 3],
    /// The values of the instruction's operands that are wanted now.
    pub(crate) memory_values: [Cell<u64>; MOST_MEMORY_VALUES],
    /// Where operands are that the instruction writes, if it changes what their addresses are made of.
    pub(crate) memory_addresses: [Cell<u64>; MOST_MEMORY_VALUES],
    /// Where the operand of the next instruction is, if it is rewritten.
    pub(crate) elsewhere: Cell<u64>,
    /// RFLAGS, where they are wanted now.
    pub(crate) flags: Cell<u64>,
    /// The word on top of the stack, likewise; and the stack pointer meanwhile.
    pub(crate) stack_top: [Cell<u64>; 2],
    /// MXCSR, likewise.
    pub(crate) vector_control: Cell<u64>,
    /// Whole vector registers that are arguments.
    pub(crate) wide_arguments: [[Cell<u64>; 8]; MOST_ARGUMENTS],
    /// Mask registers, likewise.
    pub(crate) masks: [Cell<u64>; 8],
    /// Which elements of vectors the instruction accesses: a bit for each, as they were before it.
    pub(crate) element_mask: Cell<u64>,
    /// Their indexes, likewise.
    pub(crate) element_indexes: [Cell<u64>; 8],
    /// What their addresses are counted from.
    pub(crate) element_base: Cell<u64>,
}

/// Registers at a hook of one of the program's functions: where it is entered, and where it
/// returns. What the engine changes here, the hook puts into the registers.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Exchange {
    /// The integer arguments: rdi, rsi, rdx, rcx, r8, r9.
    pub(crate) integers: [u64; 6],
    /// rax.
    pub(crate) result: u64,
    /// rsp.
    pub(crate) stack: u64,
    /// What the hook is about: the description of the function, or the return address.
    pub(crate) subject: u64,
    /// Not zero: control does not go on here.
    pub(crate) verdict: u64,
    /// The low halves of xmm0 to xmm7.
    pub(crate) floats: [u64; 8],
}

// SAFETY: made of cells and atomics of words; no other part has the room.
unsafe impl SlotsPart for ToolSlots {
    const ROOM: Room = Room::SecondClient;
}

/// A tool's part of these slots.
#[inline]
pub(crate) fn of(slots: &Slots) -> &ToolSlots {
    ToolSlots::of(slots)
}

/// A thread begins: its calls of hooked functions are the engine's business at first.
pub(super) fn prepare(slots: &Slots, thread: ThreadId) {
    of(slots).thread_number.set(u64::from(thread.0));
    of(slots).usual_stack.set(u64::MAX);
}

/// Byte offsets in the slots, for code that is emitted.
pub(crate) mod offset {
    use std::mem::offset_of;

    use super::{Exchange, SlotsPart, ToolSlots};

    const fn slot(within: usize) -> i32 {
        ToolSlots::START + within as i32
    }

    const fn exchanged(within: usize) -> i32 {
        slot(offset_of!(ToolSlots, exchange) + within)
    }

    pub(crate) const THREAD_NUMBER: i32 = slot(offset_of!(ToolSlots, thread_number));
    pub(crate) const TIME_STAMP: i32 = slot(offset_of!(ToolSlots, time_stamp));
    pub(crate) const WIDE_ARGUMENTS: i32 = slot(offset_of!(ToolSlots, wide_arguments));
    pub(crate) const ELSEWHERE: i32 = slot(offset_of!(ToolSlots, elsewhere));
    pub(crate) const FLAGS: i32 = slot(offset_of!(ToolSlots, flags));
    pub(crate) const STACK_TOP: i32 = slot(offset_of!(ToolSlots, stack_top));
    pub(crate) const STACK_POINTER: i32 = STACK_TOP + 8;
    pub(crate) const VECTOR_CONTROL: i32 = slot(offset_of!(ToolSlots, vector_control));
    pub(crate) const MASKS: i32 = slot(offset_of!(ToolSlots, masks));
    pub(crate) const ELEMENT_MASK: i32 = slot(offset_of!(ToolSlots, element_mask));
    pub(crate) const ELEMENT_INDEXES: i32 = slot(offset_of!(ToolSlots, element_indexes));
    pub(crate) const ELEMENT_BASE: i32 = slot(offset_of!(ToolSlots, element_base));
    pub(crate) const MEMORY_VALUES: i32 = slot(offset_of!(ToolSlots, memory_values));
    pub(crate) const MEMORY_ADDRESSES: i32 = slot(offset_of!(ToolSlots, memory_addresses));
    pub(crate) const COUNTDOWNS: i32 = slot(offset_of!(ToolSlots, countdowns));
    pub(crate) const SAMPLER: i32 = slot(offset_of!(ToolSlots, sampler));
    pub(crate) const WORDS: i32 = slot(offset_of!(ToolSlots, words));
    pub(crate) const SWITCHES: i32 = slot(offset_of!(ToolSlots, switches));
    pub(crate) const CALLING_VERSION: i32 = slot(offset_of!(ToolSlots, calling_version));
    pub(crate) const BUFFERS: i32 = slot(offset_of!(ToolSlots, buffers));
    pub(crate) const CALLED: i32 = slot(offset_of!(ToolSlots, called));
    pub(crate) const ACTIVATIONS: i32 = slot(offset_of!(ToolSlots, activations));
    pub(crate) const ACTIVATIONS_LIMIT: i32 = slot(offset_of!(ToolSlots, activations_limit));
    pub(crate) const USUAL_STACK: i32 = slot(offset_of!(ToolSlots, usual_stack));
    pub(crate) const KEPT_WRAPPERS: i32 = slot(offset_of!(ToolSlots, kept_wrappers));
    pub(crate) const EXCHANGE_RESULT: i32 = exchanged(offset_of!(Exchange, result));
    pub(crate) const EXCHANGE_STACK: i32 = exchanged(offset_of!(Exchange, stack));
    pub(crate) const EXCHANGE_SUBJECT: i32 = exchanged(offset_of!(Exchange, subject));
    pub(crate) const EXCHANGE_VERDICT: i32 = exchanged(offset_of!(Exchange, verdict));

    /// Of an integer argument in the exchange.
    pub(crate) const fn exchanged_integer(number: usize) -> i32 {
        exchanged(offset_of!(Exchange, integers)) + number as i32 * 8
    }

    /// Of a floating-point argument in the exchange.
    pub(crate) const fn exchanged_float(number: usize) -> i32 {
        exchanged(offset_of!(Exchange, floats)) + number as i32 * 8
    }
}
