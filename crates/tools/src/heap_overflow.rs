//! Tells where a program reads or writes beside the blocks that it allocated.
//!
//! Around each block lie red zones, which nothing of the program's may touch. Blocks of `malloc`,
//! `calloc` and `realloc` have them, those of other functions do not. An access that jumps over
//! a red zone is not noticed. Of the C library's wide reads nothing is told: its string
//! functions read whole vectors, beyond the ends of strings. Of gathers, scatters and vectors with a
//! mask the elements count that are accessed.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use unspool_tool::lock::Mutex;
use unspool_tool::{
    AccessKind, Accesses, Address, Constant, Image, ImageKind, InstructionPointer, Original,
    Register, Shadow, Shape, Superblock, Tool, accesses, effective_address, iced_x86, image_at,
    images, say,
};

type Malloc = extern "C" fn(usize) -> Address;
type Calloc = extern "C" fn(usize, usize) -> Address;
type Realloc = extern "C" fn(Address, usize) -> Address;
type Free = extern "C" fn(Address);
type UsableSize = extern "C" fn(Address) -> usize;

/// Bytes of a red zone; blocks stay aligned.
const ZONE: u64 = 32;
const BOTH: usize = 2 * ZONE as usize;
/// Bytes of memory that share a byte of shadow memory.
const GRANULE: u64 = 8;
/// Reads from so many bytes on are wide.
const WIDE: u32 = 16;

/// Looks for overflows.
pub struct HeapOverflow {
    blocks: Mutex<BTreeMap<u64, u64>>,
    /// A bit for each byte of red zones.
    zones: Shadow<u8, GRANULE>,
    /// Images whose wide reads are not told.
    wide_readers: Mutex<Vec<Arc<images::Image>>>,
    told: Mutex<HashSet<Address>>,
}

/// Whether the thread is in an allocating function, which may call another one.
#[derive(Default)]
pub struct Inside(bool);

impl HeapOverflow {
    /// No blocks yet.
    ///
    /// # Panics
    /// If there can be no shadow memory.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "shadow memory is a resource")]
    pub fn new() -> HeapOverflow {
        HeapOverflow {
            blocks: Mutex::default(),
            zones: Shadow::new().unwrap_or_else(|error| panic!("{error}")),
            wide_readers: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// Puts red zones into what was allocated for a block. Returns the block.
    fn guard(&self, raw: Address, size: usize) -> Address {
        if raw == Address(0) {
            return raw;
        }
        let (block, size) = (raw.0 + ZONE, size as u64);
        self.blocks.lock().insert(block, size);
        self.paint(block, size, true);
        Address(block)
    }

    /// Takes the red zones away. Returns the block's size if it had any.
    fn release(&self, block: Address) -> Option<usize> {
        let size = self.blocks.lock().remove(&block.0)?;
        self.paint(block.0, size, false);
        Some(size as usize)
    }

    fn paint(&self, block: u64, size: u64, red: bool) {
        let end = block + size;
        for zone in [block - ZONE..block, end..end + ZONE] {
            for piece in (zone.start & !(GRANULE - 1)..zone.end).step_by(GRANULE as usize) {
                let is_red = |byte: &u64| red && zone.contains(&(piece + byte));
                let bits = (0..GRANULE).filter(is_red).map(|byte| 1 << byte).sum();
                // No two blocks have parts of the same piece.
                self.zones.set(piece, GRANULE, bits);
            }
        }
    }

    fn malloc(&self, original: &mut Original<Self, Malloc>, size: usize) -> Address {
        if original.state().0 || size > isize::MAX as usize {
            return original.call(size);
        }
        original.state().0 = true;
        let raw = original.call(size + BOTH);
        original.state().0 = false;
        self.guard(raw, size)
    }

    fn calloc(&self, original: &mut Original<Self, Calloc>, count: usize, size: usize) -> Address {
        let all = count
            .checked_mul(size)
            .filter(|&all| all <= isize::MAX as usize);
        let Some(all) = all.filter(|_| !original.state().0) else {
            return original.call(count, size);
        };
        original.state().0 = true;
        let raw = original.call(1, all + BOTH);
        original.state().0 = false;
        self.guard(raw, all)
    }

    fn realloc(
        &self,
        original: &mut Original<Self, Realloc>,
        block: Address,
        size: usize,
    ) -> Address {
        if original.state().0 || size > isize::MAX as usize {
            return original.call(block, size);
        }
        let earlier = self.release(block);
        let (raw, wanted) = match earlier {
            Some(_) if size == 0 => (Address(block.0 - ZONE), 0),
            Some(_) => (Address(block.0 - ZONE), size + BOTH),
            None if block == Address(0) => (block, size + BOTH),
            None => (block, size),
        };
        original.state().0 = true;
        let new = original.call(raw, wanted);
        original.state().0 = false;
        match earlier {
            // The block is as it was.
            Some(earlier) if new == Address(0) && size != 0 => {
                self.guard(raw, earlier);
                new
            }
            None if block != Address(0) => new,
            _ => self.guard(new, size),
        }
    }

    fn free(&self, original: &mut Original<Self, Free>, block: Address) {
        let inside = original.state().0;
        let raw = match !inside && self.release(block).is_some() {
            true => Address(block.0 - ZONE),
            false => block,
        };
        original.state().0 = true;
        original.call(raw);
        original.state().0 = inside;
    }

    fn usable_size(&self, original: &mut Original<Self, UsableSize>, block: Address) -> usize {
        let known = self.blocks.lock().get(&block.0).copied();
        known.map_or_else(|| original.call(block), |size| size as usize)
    }

    fn accessed(&self, _: &mut Inside, by: Address, at: Address, size: u64, is_write: bool) {
        let is_red = |byte: &u64| self.zones.get(*byte) & 1 << (byte % GRANULE) != 0;
        let Some(red) = (at.0..at.0.saturating_add(size)).find(is_red) else {
            return;
        };
        if self.told.lock().insert(by) {
            say(&self.describe(by, at, size, is_write, red));
        }
    }

    fn repeated(
        &self,
        state: &mut Inside,
        by: Address,
        at: Address,
        size: u64,
        is_write: bool,
        rounds: u64,
    ) {
        self.accessed(state, by, at, size.saturating_mul(rounds), is_write);
    }

    fn each_element(&self, state: &mut Inside, by: Address, elements: Accesses, is_write: bool) {
        for (at, size) in elements.to_vec() {
            self.accessed(state, by, at, size, is_write);
        }
    }

    fn describe(&self, by: Address, at: Address, size: u64, is_write: bool, red: u64) -> String {
        let blocks = self.blocks.lock();
        let below = blocks.range(..=red).next_back();
        let beside = match below {
            Some((block, length)) if red < block + length + ZONE => {
                format!(
                    "{} bytes behind the end of a block of {length}",
                    red - block - length
                )
            }
            _ => match blocks.range(red..).next() {
                Some((block, length)) => {
                    format!("{} bytes before a block of {length}", block - red)
                }
                None => "beside a block".to_owned(),
            },
        };
        let image = image_at(by.0);
        let routine = image.as_ref().and_then(|image| image.routine_at(by.0));
        let routine = routine.map_or_else(|| "code without a name".to_owned(), |it| it.name());
        let line = image.and_then(|image| image.source_line(by.0));
        let line = line.map_or_else(String::new, |line| format!(" ({line})"));
        let what = if is_write { "write" } else { "read" };
        format!("{what} of {size} bytes at {at}, {beside}, in {routine}{line}")
    }
}

impl Tool for HeapOverflow {
    type Thread = Inside;

    fn instrument(&self, superblock: &Superblock<Self>) {
        let image = image_at(superblock.address());
        let readers = self.wide_readers.lock();
        let may_read_wide =
            image.is_some_and(|it| readers.iter().any(|reader| Arc::ptr_eq(reader, &it)));
        for instruction in superblock.instructions() {
            for operand in instruction.memory_operands() {
                let is_write = operand.kind == AccessKind::Write;
                let is_wide_read = !is_write && operand.size >= WIDE && may_read_wide;
                let on_stack = operand.base == iced_x86::Register::RSP;
                if is_wide_read || on_stack {
                    continue;
                }
                let before = instruction.before();
                let elements = (InstructionPointer, accesses(operand), Constant(is_write));
                let Some(address) = effective_address(operand) else {
                    before.call(HeapOverflow::each_element, elements);
                    continue;
                };
                let size = Constant(u64::from(operand.size));
                match operand.shape {
                    Shape::Plain => {
                        let arguments = (InstructionPointer, address, size, Constant(is_write));
                        let tests = [self.zones.whole().is(0)];
                        let accessed = HeapOverflow::accessed;
                        before.check_shadow((operand, &tests, &[]), accessed, arguments);
                    }
                    Shape::Repeat { .. } => {
                        let count = Register::Rcx;
                        let arguments =
                            (InstructionPointer, address, size, Constant(is_write), count);
                        before.call(HeapOverflow::repeated, arguments);
                    }
                    _ => before.call(HeapOverflow::each_element, elements),
                }
            }
        }
    }

    fn image_load(&self, image: &Image<Self>) {
        let allocates = image.wrap::<Malloc>("malloc", HeapOverflow::malloc) != 0;
        image.wrap::<Calloc>("calloc", HeapOverflow::calloc);
        image.wrap::<Realloc>("realloc", HeapOverflow::realloc);
        image.wrap::<Free>("free", HeapOverflow::free);
        image.wrap::<UsableSize>("malloc_usable_size", HeapOverflow::usable_size);
        if allocates || image.kind() == ImageKind::Interpreter {
            self.wide_readers.lock().push(image.to_arc());
        }
    }

    fn end(&self) {
        say(&format!("{} places of overflows", self.told.lock().len()));
    }
}
