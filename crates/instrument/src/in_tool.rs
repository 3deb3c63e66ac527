//! Code of the tool, and what the thread that runs it finds there.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use unspool_code_cache::gates::CallSlots;
use unspool_code_cache::slots::{SlotsPart, slots};
use unspool_engine::thread::Thread;

use crate::slots as tool_slots;

/// Runs code of the tool: if it fails, the tool is to blame.
pub(crate) fn in_tool<R>(run: impl FnOnce() -> R) -> R {
    let within = CallSlots::of(slots()).in_tool.load(Ordering::Relaxed);
    CallSlots::of(slots()).in_tool.store(1, Ordering::Relaxed);
    let result = run();
    CallSlots::of(slots())
        .in_tool
        .store(within, Ordering::Relaxed);
    result
}

thread_local! {
    /// Whether the tool is getting entries in this thread.
    static IS_DELIVERED: Cell<bool> = const { Cell::new(false) };
}

/// Runs code of the tool that gets entries.
pub(crate) fn deliver(to: impl FnOnce()) {
    IS_DELIVERED.set(true);
    in_tool(to);
    IS_DELIVERED.set(false);
}

/// Whether the tool is getting entries in the calling thread.
pub(crate) fn is_delivered() -> bool {
    IS_DELIVERED.get()
}

/// What the tool keeps for a thread.
pub(crate) fn state(thread: &Thread) -> *mut () {
    CallSlots::of(thread.slots()).tool_state.get() as *mut ()
}

/// What [`Instrumentation::thread_starts`](super::Instrumentation::thread_starts) returned for the calling thread.
#[must_use]
#[inline]
pub fn thread_state() -> *mut () {
    CallSlots::of(slots()).tool_state.get() as *mut ()
}

/// Where an argument's word is that is not passed in a register, for the call that the calling
/// thread is in.
///
/// # Panics
/// If a call cannot have so many.
#[must_use]
#[inline]
pub fn argument_word(number: usize) -> *mut u64 {
    CallSlots::of(slots()).arguments[number].as_ptr()
}

/// The whole vector register that is an argument of the call that the calling thread is in: the bytes
/// that were asked for.
///
/// # Panics
/// If a call cannot have so many arguments.
#[must_use]
#[inline]
pub fn wide_argument<const BYTES: usize>(number: usize) -> [u8; BYTES] {
    const { assert!(BYTES <= 64, "no register has more") }
    let words = &tool_slots::of(slots()).wide_arguments[number];
    // SAFETY: the words are this thread's, which is in the call, and as many bytes.
    unsafe { words.as_ptr().cast::<[u8; BYTES]>().read() }
}

/// Where the operand in memory of the instruction is that the calling thread is about to execute, in a
/// function for [`rewrite_operand`](super::Instruction::rewrite_operand).
#[inline]
pub fn set_operand_address(address: u64) {
    tool_slots::of(slots()).elsewhere.set(address);
}

/// The number of the calling thread of the program: 0 for the first one.
#[must_use]
#[inline]
pub fn thread_number() -> u32 {
    tool_slots::of(slots()).thread_number.get() as u32
}

/// The word at an address of the program; `None` if nothing can be read there.
#[must_use]
#[inline]
pub fn program_word(address: u64) -> Option<u64> {
    unspool_kernel::guarded::read_quickly(address)
}
