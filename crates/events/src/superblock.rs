//! What is known of code before it runs: the accesses of each superblock, and how the
//! words recorded at run time give their addresses.
//!
//! A superblock has one entry and several exits. A **path** is the run from the entry to
//! one exit; its accesses are a prefix of the superblock's. At run time a path records a
//! header that names it and a few words (see [`crate::raw`]); everything else is here,
//! once for each piece of code.

use crate::access::AccessKind;
use crate::cache_control::{Fence, LineOperation};
use crate::id::PathId;

/// A superblock: a straight piece of code with one entry and one or more exits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Superblock {
    /// Address of its first instruction.
    pub pc: u64,
    /// The paths' ids are `first_path`, `first_path + 1`, … in the order of `paths`.
    pub first_path: PathId,
    /// Its accessing instructions, in program order: those that access memory or control the
    /// caches, and all where each is recorded. Others are not listed.
    pub instructions: Vec<AccessingInstruction>,
    /// Its exits, in program order.
    pub paths: Vec<Path>,
}

/// One way through a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Path {
    /// How many of the superblock's accessing instructions are on the path.
    pub accessing: u16,
    /// How many instructions the path executes, accessing or not.
    pub executed: u16,
    /// How many words a record of the path has.
    pub words: u8,
}

/// An instruction that accesses memory, controls the caches, or is recorded for itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccessingInstruction {
    /// Its address.
    pub pc: u64,
    /// Whether it is atomic.
    pub atomic: bool,
    /// Whether its data is to bypass the caches.
    pub non_temporal: bool,
    /// Whether it is a near call or return: its last operand is the return address.
    pub calls_or_returns: bool,
    /// Its bytes, where each instruction is recorded.
    pub fetched: Option<u8>,
    /// What it asks of the caches.
    pub cache_control: Option<CacheControl>,
    /// A word that holds the ticket it drew (order `ticket`).
    pub ticket: Option<Slot>,
    /// A word that holds 1 where the compare-and-swap succeeded and 0 where it failed.
    pub cas_success: Option<Slot>,
    /// Its memory operands: reads first, then writes. An operand that is read and written
    /// stands twice.
    pub operands: Vec<Operand>,
}

/// What an instruction asks of the caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheControl {
    /// An operation on the line that holds a byte.
    Line {
        /// Which operation.
        operation: LineOperation,
        /// The byte's address.
        address: AddressSource,
    },
    /// A fence.
    Fence(Fence),
}

/// The index of a word in the record of a path, from 0.
pub type Slot = u8;

/// One memory operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operand {
    /// Read or write.
    pub kind: AccessKind,
    /// Bytes of one element (of the whole operand where the extent is `Plain`).
    pub size: u32,
    /// The address of its first (or only) element.
    pub address: AddressSource,
    /// How far it reaches.
    pub extent: Extent,
}

/// Where an address comes from. All sums wrap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressSource {
    /// Known from the code alone.
    Absolute(u64),
    /// A recorded word plus a constant.
    Word {
        /// Which word.
        slot: Slot,
        /// What to add to it.
        add: i64,
    },
}

/// How far a memory operand reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// `size` bytes at the address.
    Plain,
    /// A repeated string instruction: |`before` − `after`| elements of `size` bytes, the
    /// first at the address, the next one above it, or below it where the word
    /// `pointer_after` (the pointer after the instruction) is less than the address. Decoded as one access for the whole range. No element: no access.
    Repeat {
        /// The word with the count register before.
        before: Slot,
        /// The word with the count register after.
        after: Slot,
        /// The word with the pointer register after.
        pointer_after: Slot,
    },
    /// A gather or scatter: element i at address + `index[i]` × scale, wherever its mask is
    /// set. Decoded as one access for each element, from the lowest.
    Indexed {
        /// The first of the words that hold the index register.
        index: Slot,
        /// Bytes of one index: 4 (signed) or 8.
        index_size: u8,
        /// 1, 2, 4 or 8.
        scale: u8,
        /// Number of elements.
        count: u8,
        /// Where the mask is.
        mask: Mask,
    },
    /// A masked vector operand: element i at address + i × `size`, wherever its mask is set.
    /// Decoded as one access for each run of adjacent elements.
    Masked {
        /// Number of elements.
        count: u8,
        /// Where the mask is.
        mask: Mask,
    },
    /// Expand-load and compress-store: as many adjacent elements as the mask has bits set.
    /// Decoded as one access.
    Compressed {
        /// Number of elements.
        count: u8,
        /// The word with the mask register: bit i for element i.
        mask: Slot,
    },
    /// A broadcast under a mask: `size` bytes at the address, if any bit is set.
    AnyOf {
        /// How many bits of the mask count.
        count: u8,
        /// The word with the mask register.
        mask: Slot,
    },
    /// Rows of a tile: row i, from the first to before the end, at address + i × stride.
    /// Decoded as one access for each row.
    Rows {
        /// The word with the bytes from row to row, signed.
        stride: Slot,
        /// The word with the tile's form: bits 0–15 the bytes of a row, 16–23 the end, 24–31
        /// the first row.
        form: Slot,
    },
}

/// Which elements of a vector operand are accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask {
    /// All.
    All,
    /// Element i if bit i of this word is set.
    Bits(Slot),
}
