//! Places in translated code from which the engine is called for line-atomic order: where owners
//! are checked, and where a chunk of a repeated string instruction ends.

mod extents;

pub(crate) use self::extents::{elements, extents, repeated};

use std::sync::atomic::{AtomicU32, Ordering};

use unspool_code_cache::address::CacheAddress;
use unspool_code_cache::emit::Gpr;
use unspool_code_cache::gates::CheckNumber;
use unspool_instructions::operands::MemoryOperand;
use unspool_kernel::layout;

/// More places than the code cache has room for.
const MOST_SITES: u64 = layout::CACHE_SIZE / 2 / 64;

/// The most bytes of each operand that are accessed without a safe point between.
pub(crate) const CHUNK: u64 = 64 << 10;

/// What the engine must know of the end of a chunk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChunkEnd {
    /// Which value of ZF ends the repetition, if any does.
    pub(crate) stops_at: Option<bool>,
}

/// What the engine must know of a check that fails.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CheckSite {
    /// How the address is computed from the registers.
    pub(crate) operand: MemoryOperand,
    /// First and last byte, relative to the address.
    pub(crate) first: i64,
    /// See `first`.
    pub(crate) last: i64,
    /// Whether the line is to be written.
    pub(crate) write: bool,
    /// How many accessing instructions precede in the record.
    pub(crate) ordinal: usize,
    /// How many words precede in the record.
    pub(crate) words: usize,
    /// The instruction's number in its superblock.
    pub(crate) instruction: u32,
    /// Where the check begins, to be made again.
    pub(crate) start: CacheAddress,
    /// Where the cache goes on behind the check.
    pub(crate) passed: CacheAddress,
    /// Where the cache is left for the engine to look at it.
    pub(crate) leave: CacheAddress,
    /// The register that holds the position in the buffer.
    pub(crate) buffer: Gpr,
    /// Whether the program's flags are in their spill slot.
    pub(crate) flags_live: bool,
    /// It is no check, but the end of a chunk of a repeated string instruction.
    pub(crate) ends_chunk: Option<ChunkEnd>,
}

/// All places, by number. They change under the lock of the cache.
#[derive(Debug)]
pub(crate) struct CheckSites {
    /// Address of the array of [`CheckSite`]; 0 where there are none.
    sites: u64,
    /// How many there are.
    count: AtomicU32,
}

impl CheckSites {
    /// Reserves room for them, if there are to be any.
    pub(crate) fn reserve(wanted: bool) -> std::io::Result<CheckSites> {
        const ACCESSIBLE: i32 = libc::PROT_READ | libc::PROT_WRITE;
        let sites = match wanted {
            true => layout::map_memory(MOST_SITES * size_of::<CheckSite>() as u64, ACCESSIBLE)?,
            false => 0,
        };
        Ok(CheckSites {
            sites,
            count: AtomicU32::new(0),
        })
    }

    /// No translation is left that has any.
    pub(crate) fn forget(&self) {
        self.count.store(0, Ordering::Relaxed);
    }

    /// The one with a number.
    pub(crate) fn get(&self, number: CheckNumber) -> &CheckSite {
        assert!(number.place() < self.count.load(Ordering::Relaxed) as usize);
        // SAFETY: elements below the count have been written and do not change.
        unsafe { &*(self.sites as *const CheckSite).add(number.place()) }
    }

    /// The number that the next place will have.
    pub(crate) fn next(&self) -> CheckNumber {
        CheckNumber::at(self.count.load(Ordering::Relaxed) as usize)
    }

    /// Adds a place, before its code can run.
    pub(crate) fn add(&self, site: CheckSite) {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        assert!(
            u64::from(number) < MOST_SITES,
            "a check takes more than 64 bytes of the cache"
        );
        // SAFETY: the array is mapped and long enough; nobody uses this element yet.
        unsafe {
            (self.sites as *mut CheckSite)
                .add(number as usize)
                .write(site)
        };
    }
}
