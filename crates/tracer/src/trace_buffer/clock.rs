//! A thread's time, as far as it is needed while the program runs.
//!
//! Readers count a thread's time exactly, record by record. Here a bound is enough: a stamp
//! past a bound of the last owner's time stands past the time itself. No instruction or
//! event takes more than [`TIME_PER_BYTE`] for each byte that it adds to the buffer, so the
//! bound follows from the position in the buffer by one addition, and recording costs
//! nothing more. Wherever the encoder has just counted exactly, the bound is drawn tight.

use unspool_events::raw::{SpecialKind, special_header};

use super::{TraceBuffer, WORD};
use crate::slots as trace_slots;
use unspool_engine::translate::superblock::LIMIT;

/// A record has a header at least, and a path no more instructions than a superblock.
pub(crate) const TIME_PER_BYTE: u64 = LIMIT as u64 / WORD;

impl TraceBuffer {
    /// A time that nothing exceeds which the thread has recorded before `position`, nor any
    /// stamp that waits there. (A line acquired a moment ago may be taken before it is accessed.)
    pub(crate) fn bound(&self, position: u64) -> u64 {
        trace_slots::of(self.slots)
            .clock
            .get()
            .wrapping_add(position.wrapping_mul(TIME_PER_BYTE))
    }

    pub(crate) fn set_bound(&mut self, position: u64, bound: u64) {
        let clock = bound.wrapping_sub(position.wrapping_mul(TIME_PER_BYTE));
        trace_slots::of(self.slots).clock.set(clock);
    }

    /// A stamp was put before `position`.
    pub(crate) fn pass_stamp(&mut self, position: u64, time: u64) {
        self.reached = self.reached.max(time);
        self.set_bound(position, self.bound(position).max(time));
    }

    /// Adds a stamp for whatever comes next, while the thread is out of the cache.
    pub(crate) fn stamp_next(&mut self, time: u64) {
        self.append(&[special_header(SpecialKind::Stamp, 0, 1), time]);
        self.pass_stamp(self.position(), time);
    }

    /// The records before `end` have gone to the encoder; the buffer starts anew.
    pub(crate) fn begin_buffer(&mut self, end: u64) {
        let mut bound = self.bound(end);
        if let Some((time, words)) = self.encoder.as_ref().and_then(|encoder| encoder.counted()) {
            self.reached = self.reached.max(time);
            bound = bound.min(self.reached + words as u64 * WORD * TIME_PER_BYTE);
        }
        self.set_bound(self.base, bound);
    }

    /// Puts records before the one in the making, which starts at `start`, has got `words`
    /// words, and moves up. Returns where it starts now.
    pub(crate) fn insert_before(&mut self, start: u64, words: u64, record: &[u64]) -> u64 {
        let size = record.len() as u64 * WORD;
        let making = (words + 1) * WORD;
        let mut start = start;
        let fits = size + making <= self.end - self.base;
        if !fits || start + size + making > self.end {
            start = self.make_room(start, making.min(self.end - start));
        }
        if !fits {
            if self.is_recording {
                self.encode_past_buffer(record);
            }
            return start;
        }
        // SAFETY: both ranges lie in the buffer.
        unsafe {
            std::ptr::copy(
                start as *const u8,
                (start + size) as *mut u8,
                making as usize,
            );
            std::ptr::copy_nonoverlapping(record.as_ptr(), start as *mut u64, record.len());
        }
        start + size
    }

    /// Everything before the record in the making, which starts at `start`, goes to the encoder;
    /// so many bytes of it move to the buffer's start. Returns where it starts now.
    pub(crate) fn make_room(&mut self, start: u64, bytes: u64) -> u64 {
        self.hand_over(start);
        self.move_to_start(start, bytes)
    }

    /// The same, but what comes before is only set aside until the next poll.
    pub(crate) fn make_room_until_poll(&mut self, start: u64, bytes: u64) -> u64 {
        self.set_aside(start);
        self.move_to_start(start, bytes)
    }

    fn move_to_start(&mut self, start: u64, bytes: u64) -> u64 {
        // SAFETY: both ranges lie in the buffer; of a record without words nothing may have been
        // written.
        unsafe { std::ptr::copy(start as *const u8, self.base as *mut u8, bytes as usize) };
        self.base
    }
}
