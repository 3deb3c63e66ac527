//! Appending to a thread's part of a buffer by code that does not run in place of the program.

use unspool_code_cache::slots::slots;

use super::{BufferId, BufferKind, hand_over, kinds, position};
use crate::slots as tool_slots;

/// What the path from which a function is called has stored behind a buffer's position.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PendingBytes {
    /// All of it: by so much the path's end moves the position.
    pub(crate) all: u32,
    /// Those of them, the last ones, that count only if the instruction completes before which the
    /// function is called.
    pub(crate) undecided: u32,
}

impl PendingBytes {
    pub(crate) fn to_word(self) -> u64 {
        u64::from(self.all) | u64::from(self.undecided) << 32
    }

    pub(crate) fn from_word(word: u64) -> PendingBytes {
        PendingBytes {
            all: word as u32,
            undecided: (word >> 32) as u32,
        }
    }
}

/// What inserted code has announced to the function that the calling thread is in.
pub(crate) fn pending_here(buffer: BufferId) -> PendingBytes {
    let part = &tool_slots::of(slots()).buffers[buffer.index()];
    PendingBytes::from_word(part.pending.get())
}

/// The calling thread has left the place of a call whose inserted code will not revoke that.
pub(crate) fn forget_pending() {
    for part in &tool_slots::of(slots()).buffers[..kinds().len()] {
        part.pending.set(0);
    }
}

/// Appends entries for code that does not run in place of the program, in a call or outside.
///
/// A thread's part has, in order: entries that are complete, up to the position; those that the path
/// has stored behind it; and room. What is appended here goes behind them all, except that entries
/// which count only if the instruction completes stay the last ones. When a part is handed over in
/// the middle of a path, the path goes on behind what is left. The position, relative to which it
/// stores, may then lie before the start of the part until the path ends.
pub(crate) struct Appender {
    kind: &'static BufferKind,
    number: usize,
    state: *mut (),
    base: u64,
    end: u64,
    /// Behind the last entry.
    top: u64,
    pending: PendingBytes,
}

impl Appender {
    /// Behind what the calling thread has appended, and what its path has stored. With `state` the
    /// tool gets entries for which there is no room.
    pub(crate) fn new(buffer: BufferId, pending: PendingBytes, state: *mut ()) -> Appender {
        let number = buffer.index();
        let part = &tool_slots::of(slots()).buffers[number];
        Appender {
            kind: &kinds()[number],
            number,
            state,
            base: part.base.get(),
            end: part.end.get(),
            top: position(slots(), number).get() + u64::from(pending.all),
            pending,
        }
    }

    /// Appends an entry of the buffer's size.
    pub(crate) fn push(&mut self, entry: &[u8]) {
        debug_assert_eq!(entry.len(), self.kind.entry_size);
        // SAFETY: the entry has as many bytes as the buffer's have.
        unsafe { self.push_from(entry.as_ptr()) }
    }

    /// The same for an entry that may have bytes which are not set.
    ///
    /// # Safety
    /// There must be as many bytes as the buffer's entries have.
    pub(crate) unsafe fn push_from(&mut self, from: *const u8) {
        let to = self.take_place();
        // The most frequent sizes without a call.
        // SAFETY: there is room for the entry, and as many bytes are there, as the caller says.
        unsafe {
            match self.kind.entry_size {
                8 => std::ptr::copy_nonoverlapping(from, to, 8),
                16 => std::ptr::copy_nonoverlapping(from, to, 16),
                24 => std::ptr::copy_nonoverlapping(from, to, 24),
                bytes => std::ptr::copy_nonoverlapping(from, to, bytes),
            }
        }
    }

    /// Appends an entry of zeros, which the caller fills.
    pub(crate) fn push_empty(&mut self) -> &mut [u8] {
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
        let size = self.kind.entry_size;
        if self.top + size as u64 > self.end {
            self.make_room();
        }
        self.take(size)
    }

    /// Where the next entries go, and how many groups of so many entries have room there: as many as are
    /// wanted at most. None if the part is too small for a group. The caller writes all of them.
    pub(crate) fn take_groups(&mut self, wanted: u64, entries: usize) -> Option<(*mut u8, u64)> {
        let size = entries * self.kind.entry_size;
        let room = |appender: &Appender| (appender.end - appender.top) / size as u64;
        if room(self) == 0 {
            self.flush();
        }
        let groups = room(self).min(wanted);
        (groups != 0).then(|| (self.take(groups as usize * size), groups))
    }

    /// Where so many bytes go, for which there is room.
    fn take(&mut self, bytes: usize) -> *mut u8 {
        let undecided = u64::from(self.pending.undecided);
        let place = (self.top - undecided) as *mut u8;
        if undecided != 0 {
            // SAFETY: both ranges lie in this thread's part, in which there is room for the bytes.
            unsafe { std::ptr::copy(place, place.add(bytes), undecided as usize) };
        }
        self.top += bytes as u64;
        place
    }

    fn make_room(&mut self) {
        self.flush();
        let room = (self.end - self.top) as usize;
        assert!(
            self.kind.entry_size <= room,
            "the buffer of {} bytes that is made at {} is too small for what one instruction appends; give it room for more entries",
            self.end - self.base,
            self.kind.made_at
        );
    }

    /// Hands over all that counts whether the instruction completes or not.
    pub(crate) fn flush(&mut self) {
        let undecided = u64::from(self.pending.undecided);
        let decided = self.top - undecided;
        self.top = self.base + undecided;
        self.keep_position();
        (self.base, self.end) = hand_over(self.number, decided, undecided as usize, self.state);
        self.top = self.base + undecided;
        self.keep_position();
    }

    fn keep_position(&self) {
        position(slots(), self.number).set(self.top - u64::from(self.pending.all));
    }
}

impl Drop for Appender {
    fn drop(&mut self) {
        self.keep_position();
    }
}
