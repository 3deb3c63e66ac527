//! The trace of one thread.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use unspool_code_cache::slots::Slots;
use unspool_events::raw::MAX_PATH_WORDS;
use unspool_events::{Event, Order, ThreadId, ThreadRecords};
use unspool_kernel::layout;

use super::functions;
use super::values::TakenBefore;
use crate::tracer::Tracer;
use unspool_engine::client::PerThread;
use unspool_engine::signal_handling::broken_pipe;

const WORD: u64 = 8;
const PAGE: u64 = 4096;
/// Words in a page.
const PAGE_WORDS: u64 = PAGE / WORD;

/// The trace of each thread; null if there is none. A child between `vfork` and `execve` uses its
/// parent's.
pub(crate) static OF_THREAD: PerThread<ThreadTrace> = PerThread::new();

/// What the trace keeps for one thread.
pub(crate) struct ThreadTrace {
    pub(super) encoder: Option<Box<dyn ThreadRecords>>,
    pub(super) slots: &'static Slots,
    /// Whether the code has come to the end of the buffer.
    pub(super) is_full: bool,
    /// The first word of the buffer.
    pub(super) base: u64,
    /// Its end, where the guard page is.
    pub(super) end: u64,
    /// Whether accesses are recorded at the moment.
    pub(super) recording: bool,
    /// Whether the thread has registered.
    pub(super) registered: bool,
    /// Calls of traced functions that have not returned.
    pub(super) frames: Vec<functions::Frame>,
    /// In verify mode: what was taken before the instruction that is being executed.
    pub(super) taken: TakenBefore,
    /// In line-atomic order: a time that the thread is known to have reached.
    pub(super) reached: u64,
    /// How far others see it, where clocks are kept close.
    pub(super) progress: Option<Arc<super::skew::ThreadProgress>>,
    /// Whether lines of the superblock in the making have been lost to others.
    pub(super) lost: bool,
    /// By which index the owner words know the thread.
    pub(super) index: u32,
    /// How many moments that all threads have in common it has passed.
    pub(super) barriers: u64,
    /// The generation of path ids that its records name.
    pub(super) generation: u32,
    /// The lines it took last.
    pub(super) run: super::ownership::Run,
}

/// The memory of a thread's buffer, with a page behind it that cannot be accessed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Buffer {
    base: u64,
    size: u64,
}

impl Buffer {
    /// Maps a new one.
    pub(super) fn map(tracer: &Tracer) -> std::io::Result<Buffer> {
        let words = tracer
            .plan
            .buffer
            .max(PAGE_WORDS)
            .next_multiple_of(PAGE_WORDS);
        let size = words * WORD;
        let base = layout::map_memory(size + PAGE, libc::PROT_READ | libc::PROT_WRITE)?;
        let buffer = Buffer { base, size };
        // SAFETY: the page is the mapping's last.
        unsafe { layout::protect(buffer.base + size, PAGE, libc::PROT_NONE) }
            .inspect_err(|_| buffer.unmap())?;
        Ok(buffer)
    }

    /// Gives it back: nobody has used it.
    pub(super) fn unmap(self) {
        // SAFETY: the mapping is this one's.
        unsafe { libc::munmap(self.base as *mut libc::c_void, (self.size + PAGE) as usize) };
    }
}

impl ThreadTrace {
    /// Starts the trace of a thread, in a buffer that was mapped for it, or a new one.
    pub(super) fn new(
        tracer: &Tracer,
        thread: ThreadId,
        slots: &'static Slots,
        buffer: Option<Buffer>,
    ) -> Box<ThreadTrace> {
        let Buffer { base, size } = match buffer.map_or_else(|| Buffer::map(tracer), Ok) {
            Ok(buffer) => buffer,
            Err(error) => unspool_kernel::diagnostics::fatal(&format!(
                "no memory for a trace buffer: {error}\nhelp: ask for a smaller one with --buffer"
            )),
        };
        // Before the encoder's, which is not to be the older one.
        let generation = tracer.generation.load(Ordering::SeqCst);
        let encoder = tracer.writer.lock().thread(thread);
        let mut trace = Box::new(ThreadTrace {
            encoder: Some(encoder),
            slots,
            is_full: false,
            base,
            end: base + size,
            recording: tracer.should_record(false),
            registered: false,
            frames: Vec::new(),
            taken: TakenBefore::default(),
            reached: 0,
            progress: None,
            lost: false,
            index: 0,
            barriers: 0,
            generation,
            run: super::ownership::Run::default(),
        });
        trace.set_position(base);
        tracer.buffer_mapped(size);
        trace.set_bound(base, 0);
        trace
    }

    /// Where the next word goes, while the thread is out of the cache.
    pub(super) fn position(&self) -> u64 {
        self.slots.buffer.get()
    }

    pub(super) fn set_position(&mut self, position: u64) {
        self.slots.buffer.set(position);
    }

    /// The words of the record in the making, which starts at `start`: as many as have been
    /// written, and whatever is behind them.
    pub(super) fn words_at(&self, start: u64) -> &[u64] {
        let first = (start + WORD).min(self.end);
        let count = ((self.end - first) / WORD).min(MAX_PATH_WORDS as u64);
        // SAFETY: the words lie in the buffer, which is mapped, and which only this thread writes
        // to, out of the code cache now.
        unsafe { std::slice::from_raw_parts(first as *const u64, count as usize) }
    }

    /// Gives the records up to `end` to the encoder, or drops them if they are not wanted.
    /// The buffer begins anew.
    pub(super) fn hand_over(&mut self, end: u64) {
        if self.recording {
            self.give(end);
        }
        self.begin_buffer(end);
    }

    fn give(&mut self, end: u64) {
        // SAFETY: the range is mapped and written by this thread only; the encoder does not touch it.
        let records = unsafe {
            std::slice::from_raw_parts(self.base as *const u64, ((end - self.base) / WORD) as usize)
        };
        self.encode(records);
        if let Some(tracer) = crate::tracer::tracer() {
            tracer.show_progress(records.len());
        }
    }

    /// Gives words to the encoder.
    pub(super) fn encode(&mut self, words: &[u64]) {
        self.write(|encoder| encoder.append(words));
    }

    /// What comes from now on names path ids of the latest generation. The thread is out of the
    /// cache.
    pub(super) fn enter_generation(&mut self) {
        self.empty();
        self.write(|encoder| encoder.enter_generation());
    }

    /// Ends the chunk.
    pub(super) fn flush(&mut self) {
        self.write(|encoder| encoder.flush());
    }

    fn write(&mut self, write: impl FnOnce(&mut dyn ThreadRecords)) {
        if let Some(encoder) = &mut self.encoder {
            broken_pipe::kept_from_program(|| write(&mut **encoder));
        }
    }

    /// Empties the buffer, while the thread is out of the cache.
    pub(super) fn empty(&mut self) {
        let position = self.position();
        self.hand_over(position);
        self.set_position(self.base);
    }

    /// Adds whole special records.
    pub(super) fn append(&mut self, words: &[u64]) {
        if !self.recording {
            // Paths are not wanted, but this is.
            self.empty();
            self.encode(words);
            return;
        }
        let size = words.len() as u64 * WORD;
        if self.position() + size > self.end {
            self.empty();
        }
        if size > self.end - self.base {
            self.encode(words);
            return;
        }
        let position = self.position();
        // SAFETY: the range was checked to lie in the buffer.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), position as *mut u64, words.len()) };
        self.set_position(position + size);
    }

    /// Adds an event, stamped where the order stamps events.
    pub(super) fn event(&mut self, tracer: &Tracer, event: &Event) {
        let mut words = Vec::new();
        if let Some(time) = tracer.event_time() {
            words.push(unspool_events::raw::special_header(
                unspool_events::raw::SpecialKind::Stamp,
                0,
                1,
            ));
            words.push(time);
        }
        event.encode(&mut words);
        self.append(&words);
    }

    /// Starts or stops recording accesses.
    pub(super) fn set_recording(&mut self, recording: bool) {
        if recording != self.recording {
            self.empty();
            self.recording = recording;
        }
    }
}

impl Drop for ThreadTrace {
    fn drop(&mut self) {
        if let Some(tracer) = crate::tracer::tracer() {
            tracer.buffer_unmapped(self.end - self.base);
        }
        // SAFETY: the mapping is ours; nothing points into it once the thread has ended.
        unsafe {
            libc::munmap(
                self.base as *mut libc::c_void,
                (self.end - self.base + PAGE) as usize,
            )
        };
    }
}

impl Tracer {
    /// Whether a thread's accesses are wanted.
    pub(super) fn should_record(&self, registered: bool) -> bool {
        let region =
            !self.plan.regions_only || self.in_region.load(std::sync::atomic::Ordering::Acquire);
        let thread = !self.plan.registered_only || registered;
        region && thread
    }

    /// The time that an event gets, in orders whose times do not advance by themselves.
    pub(super) fn event_time(&self) -> Option<u64> {
        match self.plan.order {
            Order::None | Order::LineAtomic => None,
            Order::Ticket => Some(self.tickets.draw()),
            // SAFETY: reads a counter.
            Order::Timestamp => Some(unsafe { std::arch::x86_64::_rdtsc() }),
        }
    }
}
