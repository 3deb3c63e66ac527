//! Memory for code, near enough to other code for a direct jump.

use std::ops::Range;

use crate::refusal::Refusal;

const PAGE: u64 = 4096;
/// What is asked of the system at a time.
const BLOCK: u64 = 4 * PAGE;
/// A jump reaches two gigabytes; what it is to reach from anywhere in an image, and from
/// anywhere in a block, less.
const REACH: u64 = (1 << 31) - (1 << 20);
/// No page is mapped below this, so that null pointers fault.
const LOWEST: u64 = 0x1_0000;

/// Code that is being written.
#[derive(Debug)]
pub(crate) struct NearCode {
    /// What it must be near to.
    image: Range<u64>,
    blocks: Vec<Block>,
}

#[derive(Debug)]
struct Block {
    start: u64,
    used: u64,
}

impl NearCode {
    /// None yet, for what is near an image.
    pub(crate) fn new(image: Range<u64>) -> NearCode {
        let blocks = Vec::new();
        NearCode { image, blocks }
    }

    /// Where the next piece will be that is no longer than `size` bytes.
    pub(crate) fn next(&mut self, size: u64) -> Result<u64, Refusal> {
        let has_room = |block: &&Block| block.used + size <= BLOCK;
        if let Some(block) = self.blocks.last().filter(has_room) {
            return Ok(block.start + block.used);
        }
        let start = map_near(&self.image).ok_or(Refusal::NoRoom)?;
        self.blocks.push(Block { start, used: 0 });
        Ok(start)
    }

    /// Puts a piece where `next` said.
    pub(crate) fn put(&mut self, piece: &[u8]) {
        let Some(block) = self.blocks.last_mut() else {
            return;
        };
        debug_assert!(block.used + piece.len() as u64 <= BLOCK);
        // SAFETY: the block is ours alone, writable, and has room.
        unsafe {
            let to = (block.start + block.used) as *mut u8;
            std::ptr::copy_nonoverlapping(piece.as_ptr(), to, piece.len());
        }
        block.used = (block.used + piece.len() as u64).next_multiple_of(16);
    }

    /// Has it executed from now on, and written no more.
    pub(crate) fn finish(self) -> Result<(), Refusal> {
        for block in self.blocks {
            let (start, size) = (block.start as *mut libc::c_void, BLOCK as usize);
            // SAFETY: the block is ours.
            if unsafe { libc::mprotect(start, size, libc::PROT_READ | libc::PROT_EXEC) } != 0 {
                let error = std::io::Error::last_os_error();
                return Err(Refusal::Forbidden(format!("mprotect: {error}")));
            }
        }
        Ok(())
    }
}

/// Maps a block near an image: below it if possible, because heaps and what is mapped later grow
/// elsewhere.
fn map_near(image: &Range<u64>) -> Option<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut gaps = Vec::new();
    let mut last_end = LOWEST;
    for line in maps.lines() {
        let Some((start, end)) = range(line) else {
            continue;
        };
        if start > last_end {
            gaps.push(last_end..start);
        }
        last_end = last_end.max(end);
    }
    // The gap above the last mapping is not the program's.
    let below = gaps.iter().rev().filter(|gap| gap.end <= image.start);
    let below = below.map(|gap| gap.end.saturating_sub(BLOCK).max(gap.start));
    let above = gaps.iter().filter(|gap| gap.start >= image.end);
    let above = above.map(|gap| gap.start.next_multiple_of(PAGE));
    below.chain(above).find_map(|start| {
        let is_near = start.max(image.end).abs_diff(start.min(image.start)) + BLOCK < REACH;
        is_near.then(|| map_at(start)).flatten()
    })
}

fn range(line: &str) -> Option<(u64, u64)> {
    let (range, _) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    let number = |digits| u64::from_str_radix(digits, 16).ok();
    Some((number(start)?, number(end)?))
}

fn map_at(start: u64) -> Option<u64> {
    // SAFETY: maps new memory, and only where there is none.
    let mapped = unsafe {
        libc::mmap(
            start as *mut libc::c_void,
            BLOCK as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return None;
    }
    // Kernels before 4.17 take the address for a hint.
    if mapped as u64 != start {
        // SAFETY: nobody knows of it yet.
        unsafe { libc::munmap(mapped, BLOCK as usize) };
        return None;
    }
    Some(start)
}
