//! Write protection of translated code: where a half of the cache is filled, a wild pointer of the
//! program's faults as it would if nothing were there.
//!
//! Code grows at the end of each half, and the jumps that are patched lie mostly in what was
//! written or patched last. So a fixed number of blocks stays writable, those that were written
//! last, and a block that is to be changed again takes the place of the one that was left alone
//! for the longest time. No thread is hindered: all code can be run all the time.

use crate::address::CacheAddress;
use std::ops::Range;

use smallvec::SmallVec;
use unspool_kernel::{diagnostics, layout, race_windows};

/// Bytes of a block in the first part of a half: many programs need no more than a few.
const SMALL: u64 = 16 << 10;
/// Bytes of that part, and of each block behind it, where the kernel puts huge pages: it would
/// have to split one to protect a part of it.
const LARGE: u64 = 2 << 20;
const SIZES: [u64; 2] = [SMALL, LARGE];
/// How many blocks of either size are writable at most, besides those at the ends of the halves.
const MOST_WRITABLE: [usize; 2] = [8, 3];

/// A half of the cache.
#[derive(Debug, Clone, Copy)]
struct Half {
    start: u64,
    /// Up to here its blocks are full.
    filled: u64,
}

impl Half {
    /// The block that holds an address, and its size's number.
    fn block(&self, address: u64) -> (Range<u64>, usize) {
        let offset = address - self.start;
        let number = usize::from(offset >= LARGE);
        let size = SIZES[number];
        let start = self.start + offset / size * size;
        (start..start + size, number)
    }
}

/// Which full blocks can be written.
#[derive(Debug)]
pub(crate) struct Protection {
    halves: [Half; 2],
    /// For each size the starts of the blocks that can be written, the one written last at the end.
    writable: [SmallVec<[u64; MOST_WRITABLE[0]]>; 2],
    /// Whether the kernel has refused, and everything can be written.
    given_up: bool,
}

impl Protection {
    /// For halves that start there, at whole pages, and are empty.
    pub(super) fn new(starts: [u64; 2]) -> Protection {
        Protection {
            halves: starts.map(|start| Half {
                start,
                filled: start,
            }),
            writable: Default::default(),
            given_up: false,
        }
    }

    /// The halves are filled up to here, by what has been written since the last time.
    pub(super) fn filled_up_to(&mut self, ends: [u64; 2]) {
        for (half, end) in ends.into_iter().enumerate() {
            while !self.given_up {
                let (block, size) = self.halves[half].block(self.halves[half].filled);
                if block.end > end {
                    break;
                }
                self.halves[half].filled = block.end;
                self.keep_writable(block.start, size);
            }
        }
    }

    /// The halves, which were empty, hold code up to here that is as it shall be.
    pub(super) fn took_over(&mut self, ends: [u64; 2]) {
        for (half, end) in self.halves.iter_mut().zip(ends) {
            half.filled = half.block(end).0.start;
            let range = half.start..half.filled;
            if !range.is_empty() && layout::close_cache(range).is_err() {
                return self.give_up();
            }
        }
    }

    /// Everything can be written, and the halves are empty.
    pub(super) fn start_anew(&mut self) {
        for half in &mut self.halves {
            let range = half.start..half.filled;
            if !range.is_empty() && layout::open_cache(range).is_err() {
                diagnostics::fatal("no memory for translated code");
            }
            half.filled = half.start;
        }
        self.writable.iter_mut().for_each(SmallVec::clear);
    }

    /// All of it is one range again, and stays so: the kernel allows no more ranges that differ, or
    /// may soon refuse to open one again.
    pub(super) fn give_up(&mut self) {
        if !self.given_up {
            self.start_anew();
            self.given_up = true;
        }
    }

    /// A block of a size can be written, and was just now. Protects the one that was left alone
    /// for the longest time, where there are too many.
    fn keep_writable(&mut self, start: u64, size: usize) {
        let writable = &mut self.writable[size];
        writable.push(start);
        if writable.len() > MOST_WRITABLE[size] {
            let oldest = writable.remove(0);
            if layout::close_cache(oldest..oldest + SIZES[size]).is_err() {
                self.give_up();
            }
        }
    }

    fn make_writable(&mut self, address: u64) {
        let later_half = address >= self.halves[1].start;
        let half = &self.halves[usize::from(later_half)];
        if address >= half.filled {
            return;
        }
        let (block, size) = half.block(address);
        let writable = &mut self.writable[size];
        match writable.iter().position(|&start| start == block.start) {
            Some(place) => writable[place..].rotate_left(1),
            None if layout::open_cache(block.clone()).is_err() => self.give_up(),
            None => self.keep_writable(block.start, size),
        }
    }

    /// Points the 32-bit field of a jump to `target`, atomically with respect to threads that run
    /// it.
    pub(crate) fn patch(&mut self, field: CacheAddress, target: CacheAddress) {
        self.set_field(field, target.distance_from(field.plus(4)));
    }

    /// Sets a 32-bit field of an instruction, atomically with respect to threads that run it.
    pub(crate) fn set_field(&mut self, field: CacheAddress, value: u32) {
        self.make_writable(field.get());
        race_windows::widen();
        // SAFETY: the field belongs to a jump of the cache and does not cross a cache line, so
        // the store is seen whole. It need not be aligned, so it is the machine's store, not
        // Rust's.
        unsafe {
            std::arch::asm!(
                "mov dword ptr [{field}], {value:e}",
                field = in(reg) field.get(),
                value = in(reg) value,
                options(nostack, preserves_flags)
            );
        }
    }

    /// Replaces eight bytes of code within one cache line, all at once.
    pub(super) fn replace(&mut self, at: CacheAddress, bytes: [u8; 8]) {
        self.make_writable(at.get());
        race_windows::widen();
        // SAFETY: the caller's branch is code of the cache, and the store is seen whole. It need
        // not be aligned, so it is the machine's store, not Rust's.
        unsafe {
            std::arch::asm!(
                "mov qword ptr [{at}], {bytes}",
                at = in(reg) at.get(),
                bytes = in(reg) u64::from_le_bytes(bytes),
                options(nostack, preserves_flags)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF: u64 = 8 * LARGE;

    /// Two halves that can be written and run.
    fn halves() -> [u64; 2] {
        let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
        let size = 2 * HALF as usize;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
        // SAFETY: a new mapping.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), size, all, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        [start as u64, start as u64 + HALF]
    }

    /// Asks the kernel, which says so instead of faulting.
    fn can_be_written(address: u64) -> bool {
        // SAFETY: nothing relies on the byte.
        unsafe { libc::getrandom(address as *mut libc::c_void, 1, 0) == 1 }
    }

    fn protected(start: u64, blocks: Range<u64>) -> Vec<u64> {
        let is_protected = |block: &u64| !can_be_written(start + block * SMALL);
        blocks.filter(is_protected).collect()
    }

    #[test]
    fn what_was_written_last_can_be_written() {
        let [hot, cold] = halves();
        let mut protection = Protection::new([hot, cold]);
        protection.filled_up_to([hot + 8 * SMALL, cold]);
        assert!(protected(hot, 0..100).is_empty());
        protection.filled_up_to([hot + 10 * SMALL + 5, cold + SMALL - 1]);
        assert_eq!(protected(hot, 0..100), [0, 1]);
        let field = CacheAddress::emitted(hot + SMALL + 50);
        protection.patch(field, field.plus(4 + 77));
        // SAFETY: the test's own memory.
        let distance = unsafe { std::ptr::read_unaligned((hot + SMALL + 50) as *const u32) };
        assert_eq!(distance, 77);
        assert_eq!(protected(hot, 0..100), [0, 2]);
        protection.set_field(CacheAddress::emitted(hot + 3 * SMALL), 0);
        protection.replace(CacheAddress::emitted(hot), [0; 8]);
        assert_eq!(protected(hot, 0..100), [2, 4], "3 was written since");
        assert!(protected(cold, 0..100).is_empty());
        protection.start_anew();
        assert!(protected(hot, 0..100).is_empty());
    }

    #[test]
    fn huge_pages_are_protected_as_a_whole() {
        let [hot, cold] = halves();
        let mut protection = Protection::new([hot, cold]);
        protection.took_over([hot + 5 * LARGE + 1, cold + 3]);
        let blocks_of_large = LARGE / SMALL;
        let all = (0..5 * blocks_of_large).collect::<Vec<_>>();
        assert_eq!(protected(hot, 0..HALF / SMALL), all);
        assert!(protected(cold, 0..100).is_empty());
        protection.set_field(CacheAddress::emitted(hot + 3 * LARGE + SMALL), 0);
        let open = 3 * blocks_of_large..4 * blocks_of_large;
        assert!(protected(hot, open).is_empty());
        protection.set_field(CacheAddress::emitted(hot), 0);
        assert_eq!(protected(hot, 0..2), [1]);
    }

    #[test]
    fn what_the_kernel_refuses_to_protect_stays_writable() {
        let [hot, cold] = halves();
        let mut protection = Protection::new([hot, cold]);
        protection.filled_up_to([hot + 10 * SMALL, cold]);
        protection.give_up();
        protection.filled_up_to([hot + 20 * SMALL, cold + LARGE]);
        protection.set_field(CacheAddress::emitted(hot), 0);
        assert!(protected(hot, 0..100).is_empty() && protected(cold, 0..100).is_empty());
    }
}
