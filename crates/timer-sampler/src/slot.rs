//! The memory that is shared with the command.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_int};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use unspool_sample_slots::{
    CONTROL_BYTES, HEADER_BYTES, MAGIC, SLOTS, header, offset, slot, state,
};

use crate::clock::time_ns;

const PATH_BYTES: usize = 4096;

/// Where the file is.
struct Path(UnsafeCell<[u8; PATH_BYTES]>);

// SAFETY: written once, before the process has other threads of the program's.
unsafe impl Sync for Path {}

static PATH: Path = Path(UnsafeCell::new([0; PATH_BYTES]));
static HEADER: AtomicPtr<u8> = AtomicPtr::new(null_mut());

/// Maps the header of the file at a path. Says whether this process is to be sampled.
pub(crate) fn open(path: &CStr) -> bool {
    let bytes = path.to_bytes_with_nul();
    if bytes.len() > PATH_BYTES {
        return false;
    }
    // SAFETY: the process has only this thread, and the room is as large as was tested.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), PATH.0.get().cast(), bytes.len()) };
    let Some(start) = map(0, HEADER_BYTES) else {
        return false;
    };
    HEADER.store(start, Ordering::Release);
    if word(header::MAGIC) != MAGIC {
        HEADER.store(null_mut(), Ordering::Release);
        return false;
    }
    if pid_namespace() != Some(word(header::PID_NAMESPACE)) {
        count(header::ELSEWHERE);
        HEADER.store(null_mut(), Ordering::Release);
        return false;
    }
    true
}

/// Whether this process is sampled.
pub(crate) fn is_open() -> bool {
    !HEADER.load(Ordering::Relaxed).is_null()
}

pub(crate) fn pid_namespace() -> Option<u64> {
    // SAFETY: zeros are a value of the structure, the path ends in a zero.
    unsafe {
        let mut found: libc::stat = std::mem::zeroed();
        let path = c"/proc/self/ns/pid".as_ptr();
        (libc::stat(path, &raw mut found) == 0).then_some(found.st_ino)
    }
}

/// A word of the header.
pub(crate) fn word(place: usize) -> u64 {
    at(HEADER.load(Ordering::Acquire), place).load(Ordering::Relaxed)
}

/// One more of what a word of the header counts.
pub(crate) fn count(place: usize) {
    at(HEADER.load(Ordering::Acquire), place).fetch_add(1, Ordering::Relaxed);
}

/// What the clock of the timers says in the calling thread.
fn sampled_ns() -> u64 {
    time_ns(word(header::CLOCK) as c_int)
}

/// A word of mapped memory.
fn at<'a>(start: *mut u8, place: usize) -> &'a AtomicU64 {
    // SAFETY: callers have mapped the memory, and name aligned words in it.
    unsafe { AtomicU64::from_ptr(start.add(place).cast()) }
}

fn states<'a>(number: usize) -> &'a AtomicU32 {
    let start = HEADER.load(Ordering::Acquire);
    // SAFETY: the header is mapped, and has a state for each number.
    unsafe { AtomicU32::from_ptr(start.add(header::STATES + 4 * number).cast()) }
}

/// Maps a part of the file. No descriptor stays: the program may close all that it has not opened.
fn map(offset: usize, bytes: usize) -> Option<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the path ends in a zero; the mapping is new.
    unsafe {
        let path = PATH.0.get().cast_const().cast();
        let file = libc::open(path, libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOCTTY);
        if file < 0 {
            return None;
        }
        let offset = offset as libc::off_t;
        // What there is no memory for must be told here: a write to the mapping would end the
        // program.
        let mut start = libc::MAP_FAILED;
        if libc::fallocate(file, 0, offset, bytes as libc::off_t) == 0 {
            start = libc::mmap(
                null_mut(),
                bytes,
                protection,
                libc::MAP_SHARED,
                file,
                offset,
            );
        }
        libc::close(file);
        (start != libc::MAP_FAILED).then_some(start.cast())
    }
}

/// A slot that is this process's.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    number: usize,
    start: *mut u8,
    data_bytes: usize,
}

impl Slot {
    /// Takes a free slot for a thread.
    pub(crate) fn take(pid: u32, tid: u32, generation: u64) -> Option<Slot> {
        let taken = state::of(pid, state::TAKEN);
        let (free, order) = (state::FREE, Ordering::AcqRel);
        let number = (0..SLOTS).find(|&number| {
            let state = states(number);
            state.load(Ordering::Relaxed) == free
                && state
                    .compare_exchange(free, taken, order, Ordering::Relaxed)
                    .is_ok()
        });
        let Some(number) = number else {
            count(header::WITHOUT_SLOT);
            return None;
        };
        let data_bytes = word(header::DATA_BYTES) as usize;
        let bytes = CONTROL_BYTES + data_bytes;
        let Some(start) = map(offset(number, data_bytes), bytes) else {
            count(header::WITHOUT_MEMORY);
            states(number).store(state::FREE, Ordering::Release);
            return None;
        };
        // A child has slots of its own.
        // SAFETY: memory of this mapping only.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_DONTFORK) };
        let slot = Slot {
            number,
            start,
            data_bytes,
        };
        for place in [slot::EXPIRATIONS, slot::LOST, slot::HEAD, slot::TAIL] {
            slot.word(place).store(0, Ordering::Relaxed);
        }
        slot.begin_time();
        slot.word(slot::TID).store(tid.into(), Ordering::Relaxed);
        slot.word(slot::GENERATION)
            .store(generation, Ordering::Relaxed);
        let used = state::of(pid, state::USED);
        states(number).store(used, Ordering::Release);
        Some(slot)
    }

    /// The slot of this number whose memory was mapped there.
    pub(crate) fn at(number: usize, start: *mut u8) -> Slot {
        let data_bytes = word(header::DATA_BYTES) as usize;
        Slot {
            number,
            start,
            data_bytes,
        }
    }

    pub(crate) fn number(self) -> usize {
        self.number
    }

    /// Where it was mapped.
    pub(crate) fn start(self) -> *mut u8 {
        self.start
    }

    pub(crate) fn word<'a>(self, place: usize) -> &'a AtomicU64 {
        at(self.start, place)
    }

    /// The thread's clock begins here.
    fn begin_time(self) {
        let now_ns = sampled_ns();
        for place in [slot::BEGAN_NS, slot::LATEST_NS] {
            self.word(place).store(now_ns, Ordering::Relaxed);
        }
    }

    /// The thread's clock has come so far.
    pub(crate) fn note_time(self) {
        let now_ns = sampled_ns();
        self.word(slot::LATEST_NS).store(now_ns, Ordering::Relaxed);
    }

    /// Room for a record of so many bytes at the writer's position, if there is.
    pub(crate) fn room(self, bytes: usize) -> Option<Room> {
        let head = self.word(slot::HEAD).load(Ordering::Relaxed);
        let tail = self.word(slot::TAIL).load(Ordering::Acquire);
        let used = head.wrapping_sub(tail) as usize;
        let is_enough = used <= self.data_bytes && self.data_bytes - used >= bytes;
        is_enough.then_some(Room {
            slot: self,
            position: head,
        })
    }

    /// No one writes to it any more.
    pub(crate) fn end(self, pid: u32) {
        // SAFETY: the mapping is this slot's, and its thread has no timer any more.
        unsafe { libc::munmap(self.start.cast(), CONTROL_BYTES + self.data_bytes) };
        let ended = state::of(pid, state::ENDED);
        states(self.number).store(ended, Ordering::Release);
    }
}

/// Where a record is being written.
pub(crate) struct Room {
    slot: Slot,
    position: u64,
}

impl Room {
    /// Where the next bytes go: up to the end of the ring, and on from its start.
    pub(crate) fn parts(&self, bytes: usize) -> [(*mut u8, usize); 2] {
        let data = self.slot.start.wrapping_add(CONTROL_BYTES);
        let from = (self.position & (self.slot.data_bytes as u64 - 1)) as usize;
        let first = bytes.min(self.slot.data_bytes - from);
        [(data.wrapping_add(from), first), (data, bytes - first)]
    }

    /// So many bytes are written.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.position = self.position.wrapping_add(bytes as u64);
    }

    /// Writes bytes.
    ///
    /// # Safety
    /// They are readable as long as the call lasts, and the room was asked for so many.
    pub(crate) unsafe fn copy(&mut self, from: *const u8, bytes: usize) {
        let [(first, count), (second, rest)] = self.parts(bytes);
        // SAFETY: the ring has the room, as was tested; the caller vouches for the source.
        unsafe {
            copy(from, first, count);
            copy(from.add(count), second, rest);
        }
        self.advance(bytes);
    }

    /// Writes a word.
    pub(crate) fn put(&mut self, word: u64) {
        let bytes = word.to_ne_bytes();
        // SAFETY: bytes of this frame.
        unsafe { self.copy(bytes.as_ptr(), bytes.len()) };
    }

    /// Has the reader see it.
    pub(crate) fn publish(self) {
        let head = self.slot.word(slot::HEAD);
        head.store(self.position, Ordering::Release);
    }
}

/// Copies bytes, by no function that the program, or what watches its memory, may have replaced.
///
/// # Safety
/// Both sides have so many bytes.
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: the caller vouches for both sides; the direction flag is clear.
    unsafe {
        std::arch::asm!(
            "rep movsb",
            inout("rsi") from => _,
            inout("rdi") to => _,
            inout("rcx") bytes => _,
            options(nostack, preserves_flags)
        );
    }
}
