//! What a path has stored in buffers where it calls a function, which may append entries too.

use std::mem::offset_of;

use unspool_code_cache::emit::Emitter;

use crate::buffers::{self, PendingBytes};
use crate::slots::{Part, offset as tool_offset};
use crate::{BufferId, MOST_BUFFERS};

/// Bytes that a path has stored behind each buffer's position.
pub(super) type Pending = [u32; MOST_BUFFERS];

/// The same at the call of a function: what it appends goes behind them.
#[derive(Clone, Copy, Default)]
pub(super) struct AtCall(pub(super) [PendingBytes; MOST_BUFFERS]);

impl AtCall {
    pub(super) fn of(&self, buffer: BufferId) -> PendingBytes {
        self.0[buffer.index()]
    }

    /// Emits what has the function find them.
    pub(super) fn announce(&self, code: &mut Emitter) {
        self.store(code, |bytes| bytes);
    }

    /// Emits the opposite, behind the call.
    pub(super) fn revoke(&self, code: &mut Emitter) {
        self.store(code, |_| 0);
    }

    /// The most bytes that both together take.
    pub(super) fn size() -> usize {
        const STORE: usize = 12;
        4 * STORE * buffers::count()
    }

    fn store(&self, code: &mut Emitter, value: impl Fn(u32) -> u32) {
        for (number, pending) in self.0.iter().enumerate() {
            let slot = part(number) + offset_of!(Part, pending) as i32;
            for (half, bytes) in [(0, pending.all), (4, pending.undecided)] {
                if bytes != 0 {
                    code.store_slot_imm32(slot + half, value(bytes));
                }
            }
        }
    }
}

/// Where the thread's part of a buffer is told of.
pub(super) fn part(number: usize) -> i32 {
    tool_offset::BUFFERS + (number * size_of::<Part>()) as i32
}
