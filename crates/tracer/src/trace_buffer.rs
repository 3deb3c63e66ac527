//! A thread's trace buffer: what it has recorded and not handed over yet.
//!
//! Translated code leaves words there; [`clock`] says how far the thread's time is by them, and
//! [`shown`] how its records come to be seen by others in time.

mod clock;
mod memory;
mod shown;

pub(crate) use self::clock::TIME_PER_BYTE;
pub(crate) use self::memory::BufferMemory;

use std::ops::Range;
use std::sync::Arc;

use unspool_code_cache::slots::Slots;
use unspool_events::raw::MAX_PATH_WORDS;
use unspool_events::raw::{SpecialKind, special_header};
use unspool_events::{Event, ThreadId, ThreadRecords};

use crate::recording::Recording;
use crate::slots as trace_slots;
use crate::thread_progress::ThreadProgress;

const WORD: u64 = 8;
const PAGE: u64 = 4096;

/// The trace buffer of a thread.
pub(crate) struct TraceBuffer {
    pub(crate) recording: &'static Recording,
    /// Where the records go; none in a child that must leave its parent's alone.
    encoder: Option<Box<dyn ThreadRecords>>,
    pub(crate) slots: &'static Slots,
    /// Records that have been in the buffer before those that are there, and go first.
    set_aside: Vec<u64>,
    /// Whether the code has come to the end of the buffer.
    is_full: bool,
    /// The first word of the buffer.
    pub(crate) base: u64,
    /// Its end, where the guard page is.
    pub(crate) end: u64,
    /// Whether accesses are recorded at the moment.
    is_recording: bool,
    /// Whether the thread has registered.
    is_registered: bool,
    /// A time that the thread is known to have reached, in orders whose times stamps move.
    pub(crate) reached: u64,
    /// How far others see it, where clocks are kept close.
    pub(crate) progress: Option<Arc<ThreadProgress>>,
    /// The generation of path ids that its records name.
    generation: u32,
}

impl TraceBuffer {
    /// Starts the records of a thread, in memory that was mapped for it, or in new memory.
    pub(crate) fn new(
        recording: &'static Recording,
        thread: ThreadId,
        slots: &'static Slots,
        memory: Option<BufferMemory>,
    ) -> TraceBuffer {
        let memory = memory.map_or_else(|| BufferMemory::map(recording.plan.buffer), Ok);
        let BufferMemory { base, size } = memory.unwrap_or_else(|error| {
            unspool_kernel::diagnostics::fatal(&format!(
                "no memory for a trace buffer: {error}\nhelp: ask for a smaller one with --buffer"
            ))
        });
        // Before the encoder's, which is not to be the older one.
        let generation = recording.path_ids.generation();
        let mut buffer = TraceBuffer {
            recording,
            encoder: Some(recording.begin_thread(thread)),
            slots,
            set_aside: Vec::new(),
            is_full: false,
            base,
            end: base + size,
            is_recording: recording.selects(false),
            is_registered: false,
            reached: 0,
            progress: None,
            generation,
        };
        buffer.set_position(base);
        recording.buffers.add(size);
        buffer.set_bound(base, 0);
        buffer
    }

    /// Notes whether a fault at an address is that of the guard page.
    pub(crate) fn note_fault(&mut self, address: u64) -> bool {
        self.is_full = (self.end..self.end + PAGE).contains(&address);
        self.is_full
    }

    /// Whether the code has come to the end of the buffer, once.
    pub(crate) fn take_full(&mut self) -> bool {
        std::mem::take(&mut self.is_full)
    }

    /// Where the next word goes, while the thread is out of the cache.
    pub(crate) fn position(&self) -> u64 {
        self.slots.buffer.get()
    }

    pub(crate) fn set_position(&mut self, position: u64) {
        self.slots.buffer.set(position);
    }

    /// The words of the record in the making, which starts at `start`: as many as have been
    /// written, and whatever is behind them.
    pub(crate) fn words_at(&self, start: u64) -> &[u64] {
        let first = (start + WORD).min(self.end);
        let count = ((self.end - first) / WORD).min(MAX_PATH_WORDS as u64);
        // SAFETY: the words lie in the buffer, which is mapped, and which only this thread writes
        // to, out of the code cache now.
        unsafe { std::slice::from_raw_parts(first as *const u64, count as usize) }
    }

    /// Gives the records up to `end` to the encoder, or drops them if they are not wanted.
    /// The buffer begins anew.
    pub(crate) fn hand_over(&mut self, end: u64) {
        if self.is_recording {
            self.give(end);
        }
        self.begin_buffer(end);
    }

    fn give(&mut self, end: u64) {
        // SAFETY: the range is mapped and written by this thread only; the encoder does not touch it.
        let records = unsafe { words_in(self.base..end) };
        self.encode(records);
        self.recording.count_words(records.len());
    }

    /// Keeps the records up to `end` until the next poll, when whoever takes them may take long. The buffer
    /// begins anew.
    fn set_aside(&mut self, end: u64) {
        if self.is_recording {
            // SAFETY: the range is mapped and written by this thread only.
            let records = unsafe { words_in(self.base..end) };
            let before = self.set_aside_bytes();
            self.set_aside.extend_from_slice(records);
            self.recording.buffers.add(self.set_aside_bytes() - before);
            self.recording.count_words(records.len());
            trace_slots::ask_to_show(&trace_slots::of(self.slots).poll);
        }
        self.set_bound(self.base, self.bound(end));
    }

    /// Whether records wait to be handed over.
    pub(crate) fn has_set_aside(&self) -> bool {
        !self.set_aside.is_empty()
    }

    /// The memory that is kept for it.
    fn set_aside_bytes(&self) -> u64 {
        self.set_aside.capacity() as u64 * WORD
    }

    fn give_set_aside(&mut self) {
        if let Some(encoder) = &mut self.encoder
            && !self.set_aside.is_empty()
        {
            encoder.append(&self.set_aside);
        }
        self.set_aside.clear();
    }

    /// Gives words to the encoder.
    pub(crate) fn encode(&mut self, words: &[u64]) {
        self.write(|encoder| encoder.append(words));
    }

    /// What comes from now on names path ids of the latest generation. The thread is out of the
    /// cache.
    pub(crate) fn enter_generation(&mut self) {
        let generation = self.recording.path_ids.generation();
        if generation != self.generation {
            self.generation = generation;
            self.empty();
            self.write(|encoder| encoder.enter_generation());
        }
    }

    /// Ends the chunk.
    pub(crate) fn flush(&mut self) {
        self.write(|encoder| encoder.flush());
    }

    fn write(&mut self, write: impl FnOnce(&mut dyn ThreadRecords)) {
        self.give_set_aside();
        if let Some(encoder) = &mut self.encoder {
            write(&mut **encoder);
        }
    }

    /// Empties the buffer, while the thread is out of the cache.
    pub(crate) fn empty(&mut self) {
        let position = self.position();
        self.hand_over(position);
        self.set_position(self.base);
    }

    /// Adds whole special records.
    pub(crate) fn append(&mut self, words: &[u64]) {
        if !self.is_recording {
            // Paths are not wanted, but this is.
            self.empty();
            self.encode_past_buffer(words);
            return;
        }
        let size = words.len() as u64 * WORD;
        if self.position() + size > self.end {
            self.empty();
        }
        if size > self.end - self.base {
            self.encode_past_buffer(words);
            return;
        }
        let position = self.position();
        // SAFETY: the range was checked to lie in the buffer.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), position as *mut u64, words.len()) };
        self.set_position(position + size);
    }

    /// Gives words to the encoder that have not been in the buffer, where no record is complete. They take time
    /// all the same.
    fn encode_past_buffer(&mut self, words: &[u64]) {
        self.encode(words);
        self.begin_buffer(self.base + words.len() as u64 * WORD);
    }

    /// Adds an event, stamped where the order stamps events.
    pub(crate) fn event(&mut self, event: &Event) {
        let mut words = Vec::new();
        if let Some(time) = self.recording.event_time() {
            words.extend([special_header(SpecialKind::Stamp, 0, 1), time]);
        }
        event.encode(&mut words);
        self.append(&words);
    }

    /// The thread has registered.
    pub(crate) fn register(&mut self) {
        self.is_registered = true;
    }

    /// Starts or stops recording accesses, as they are wanted now.
    pub(crate) fn follow_selection(&mut self) {
        let is_recording = self.recording.selects(self.is_registered);
        if is_recording != self.is_recording {
            self.empty();
            self.is_recording = is_recording;
        }
    }

    /// The thread has recorded its last.
    pub(crate) fn finish(&mut self) {
        self.give_set_aside();
        if let Some(encoder) = self.encoder.take() {
            encoder.finish();
        }
    }

    /// In a forked child: what the parent's thread has recorded is the parent's. Its encoder is left
    /// alone, because another of its threads may have been using what they share.
    pub(crate) fn leave_to_parent(&mut self) {
        std::mem::forget(self.encoder.take());
        self.set_aside.clear();
    }
}

/// The words in a range of a buffer.
///
/// # Safety
/// The range must be mapped, and not be written to as long as they are used.
unsafe fn words_in<'a>(range: Range<u64>) -> &'a [u64] {
    let count = (range.end - range.start) / WORD;
    // SAFETY: as promised.
    unsafe { std::slice::from_raw_parts(range.start as *const u64, count as usize) }
}

impl Drop for TraceBuffer {
    fn drop(&mut self) {
        let (base, size) = (self.base, self.end - self.base);
        self.recording.buffers.remove(size + self.set_aside_bytes());
        BufferMemory { base, size }.unmap();
    }
}
