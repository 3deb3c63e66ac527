//! The file in which programs tell when they enter and leave regions of interest: a header and a ring of
//! marks, which any thread of any process of a run may write, and the command reads.
//!
//! A writer takes the next number by raising [`WRITTEN`](place::WRITTEN), unless the ring is full, and
//! writes who it is; the mark is there as soon as its time is. The reader takes marks in the order of their
//! numbers, sets their times to 0, and raises [`READ`](place::READ).

/// What the header begins with. It changes with this file.
pub const MAGIC: u64 = 0x0031_736e_6f69_6765;

/// The environment variable with the file's path.
pub const VARIABLE: &core::ffi::CStr = c"UNSPOOL_PROFILE_REGIONS";

/// Marks that the ring holds: a power of two.
pub const MARKS: u64 = 1 << 16;

/// The size of a mark: its time, and who has made it.
const MARK_BYTES: usize = 16;

/// The size of the file.
pub const FILE_BYTES: usize = place::FIRST + MARKS as usize * MARK_BYTES;

/// Where the words of the header are.
pub mod place {
    /// [`MAGIC`](super::MAGIC).
    pub const MAGIC: usize = 0;
    /// The inode of the PID namespace whose numbers mean something to the reader.
    pub const PID_NAMESPACE: usize = 8;
    /// The number of the next mark.
    pub const WRITTEN: usize = 64;
    /// The number of the mark that is read next.
    pub const READ: usize = 128;
    /// Marks for which there was no room.
    pub const LOST: usize = 192;
    /// Processes that were in another PID namespace.
    pub const ELSEWHERE: usize = 200;
    /// The first mark.
    pub const FIRST: usize = 256;
}

/// Where a mark's time is: of the system's monotonic clock, in nanoseconds.
#[must_use]
pub fn time_place(number: u64) -> usize {
    place::FIRST + (number % MARKS) as usize * MARK_BYTES
}

/// Where it says [who](mark) has made it.
#[must_use]
pub fn who_place(number: u64) -> usize {
    time_place(number) + 8
}

/// A process, and whether it enters a region or leaves it.
pub mod mark {
    /// As one word.
    #[must_use]
    pub fn of(pid: u32, enters: bool) -> u64 {
        (pid as u64) << 1 | enters as u64
    }

    /// From the word.
    #[must_use]
    pub fn parts(word: u64) -> (u32, bool) {
        ((word >> 1) as u32, word & 1 != 0)
    }
}
