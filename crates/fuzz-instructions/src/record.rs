//! What the host tells the runner of a case, and what the runner answers: records of plain
//! words in files that both map.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::CODE_LIMIT;

/// The start of a file of cases. Vector states, memory images and cases follow.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Header {
    /// Number of cases.
    pub cases: u64,
    /// Number of vector states, each of [`VECTORS_SIZE`] bytes.
    pub vectors: u64,
    /// Number of memory images, each of the size of the data.
    pub images: u64,
    /// The components of vector state that cases have, as in XCR0.
    pub components: u64,
    /// Whether the code of the cases stays writable.
    pub writable: u64,
    /// Whether each place has private data of its own.
    pub separate: u64,
    /// Fills the header up to 64 bytes.
    pub reserved: [u64; 2],
}

/// Bytes of an XSAVE area.
pub const VECTORS_SIZE: usize = 4096;
/// The most words that are put into memory after the image.
pub const PATCH_LIMIT: usize = 4;

/// One case, as the runner wants it.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CaseRecord {
    /// rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8 … r15.
    pub registers: [u64; 16],
    /// The flags.
    pub flags: u64,
    /// The FS base.
    pub thread_pointer: u64,
    /// Which vector state.
    pub vectors: u64,
    /// Which memory image.
    pub image: u64,
    /// Where the code goes.
    pub address: u64,
    /// How many bytes of it there are; 0 if the case is to be left out.
    pub length: u64,
    /// Offsets in the data, and the words to put there; an offset of all ones ends the list.
    pub patches: [[u64; 2]; PATCH_LIMIT],
    /// The code, without the jump out.
    pub code: [u8; CODE_LIMIT],
}

/// The case was not reached.
pub const NOT_RUN: u64 = 0;
/// It ran to its end.
pub const COMPLETED: u64 = 1;
/// A signal ended it.
pub const SIGNALLED: u64 = 2;
/// It did not end.
pub const HUNG: u64 = 3;
/// The status of a case in which the runner itself ended.
pub const DIED: u64 = 4;
/// The status of a case that who observed it refused to run.
pub const REFUSED: u64 = 5;

/// How a case ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Outcome {
    /// [`COMPLETED`] and so on.
    pub status: u64,
    /// The signal, its code and its address.
    pub signal: [u64; 3],
    /// The processor's error code, trap number, and the address of a page fault.
    pub fault: [u64; 3],
    /// Where the program counter was, for a signal.
    pub pc: u64,
    /// The flags.
    pub flags: u64,
    /// The FS base.
    pub thread_pointer: u64,
    /// Digest of the general registers.
    pub registers: u64,
    /// Digest of the x87 state.
    pub x87: u64,
    /// Digest of the vector state.
    pub vectors: u64,
    /// Digest of the data.
    pub data: u64,
}

/// The state that digests stand for.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FullState {
    /// The general registers.
    pub registers: [u64; 16],
    /// Vectors and x87, in XSAVE format.
    pub vectors: [u8; VECTORS_SIZE],
    /// The data.
    pub data: [u8; crate::layout::DATA_SIZE as usize],
}
