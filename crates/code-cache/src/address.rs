//! Addresses in the code cache.
//!
//! The program's addresses are plain `u64`, as registers and the kernel have them. Where translated
//! code lies is another address space, though both are the same memory: what belongs to the one is
//! never looked up in the other, and the types see to it.
//!
//! ```
//! use unspool_code_cache::address::CacheAddress;
//! use unspool_code_cache::cache::{Cache, Position};
//!
//! fn position(cache: &Cache, at: CacheAddress) -> Option<Position> {
//!     cache.position(at)
//! }
//! ```
//!
//! A program counter of the program is no such address, and not found by accident:
//!
//! ```compile_fail,E0308
//! use unspool_code_cache::cache::{Cache, Position};
//!
//! fn position(cache: &Cache, program_counter: u64) -> Option<Position> {
//!     cache.position(program_counter)
//! }
//! ```

use std::fmt::{self, LowerHex};

use unspool_kernel::layout;

/// An address in the code cache, which lies in the lowest 4 GiB.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct CacheAddress(u32);

impl CacheAddress {
    /// Stands for no address.
    pub const NOWHERE: CacheAddress = CacheAddress(0);

    /// Whether it is an address.
    #[must_use]
    #[inline]
    pub fn is_somewhere(self) -> bool {
        self != CacheAddress::NOWHERE
    }

    /// An address of which nothing is known, if it lies in the cache or its gates.
    #[must_use]
    #[inline]
    pub fn of(address: u64) -> Option<CacheAddress> {
        let is_in_cache = address.wrapping_sub(layout::cache()) < layout::cache_room();
        is_in_cache.then(|| CacheAddress::emitted(address))
    }

    /// Where code of the cache has been emitted, or where a thread stands that has left such code.
    #[must_use]
    #[inline]
    pub(crate) fn emitted(address: u64) -> CacheAddress {
        debug_assert!(
            u32::try_from(address).is_ok(),
            "the cache lies in the lowest 4 GiB"
        );
        CacheAddress(address as u32)
    }

    /// Where an emitter writes, which is in the cache, or stands for a place there.
    #[inline]
    pub(crate) fn of_byte(byte: *mut u8) -> CacheAddress {
        CacheAddress(byte as u64 as u32)
    }

    /// The number of the address.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u64 {
        self.0 as u64
    }

    /// The byte before it: what is called from there returns here.
    #[must_use]
    #[inline]
    pub fn before(self) -> CacheAddress {
        CacheAddress(self.0 - 1)
    }

    /// So many bytes before it.
    #[must_use]
    #[inline]
    pub fn minus(self, bytes: u32) -> CacheAddress {
        CacheAddress(self.0.wrapping_sub(bytes))
    }

    /// So many bytes behind it.
    #[must_use]
    #[inline]
    pub fn plus(self, bytes: u32) -> CacheAddress {
        CacheAddress(self.0.wrapping_add(bytes))
    }

    /// What a relative jump that ends at `end` has in its field to lead here.
    #[must_use]
    #[inline]
    pub fn distance_from(self, end: CacheAddress) -> u32 {
        self.0.wrapping_sub(end.0)
    }

    /// Where a relative jump leads that ends here and has this in its field.
    #[must_use]
    pub fn jump_target(self, distance: u32) -> CacheAddress {
        CacheAddress(self.0.wrapping_add(distance))
    }

    /// How many bytes of code there are from an earlier address on.
    #[must_use]
    #[inline]
    pub fn bytes_since(self, earlier: CacheAddress) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Where it is in a cache line.
    #[must_use]
    pub(crate) fn line_offset(self) -> u32 {
        self.0 % 64
    }

    /// How many bytes it lies behind another one, if it does.
    #[must_use]
    pub(crate) fn offset_from(self, start: CacheAddress) -> Option<u32> {
        self.0.checked_sub(start.0)
    }
}

impl LowerHex for CacheAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        LowerHex::fmt(&self.0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use unspool_kernel::layout;

    use super::CacheAddress;

    #[test]
    fn only_what_lies_in_the_cache_is_one() {
        let (start, room) = (layout::cache(), layout::cache_room());
        for (address, is_one) in [
            (0, false),
            (start - 1, false),
            (start, true),
            (start + room - 1, true),
            (start + room, false),
            (1 << 32 | start, false),
            (u64::MAX, false),
        ] {
            let found = CacheAddress::of(address);
            assert_eq!(found.is_some(), is_one, "{address:#x}");
            assert_eq!(found.map(CacheAddress::get), is_one.then_some(address));
        }
    }

    #[test]
    fn differences_are_those_of_the_numbers() {
        let start = CacheAddress::emitted(layout::cache());
        assert_eq!(start.plus(16).offset_from(start), Some(16));
        assert_eq!(start.plus(16).before(), start.plus(15));
        assert_eq!(start.before().offset_from(start), None);
        assert_eq!(start.plus(16).bytes_since(start), 16);
        assert_eq!(start.distance_from(start.plus(5)) as i32, -5);
        let back = start.distance_from(start.plus(5));
        assert_eq!(start.plus(5).jump_target(back), start);
        assert_eq!(format!("{start:#x}"), format!("{:#x}", layout::cache()));
    }
}
