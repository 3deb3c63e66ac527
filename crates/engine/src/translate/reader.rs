//! Reading program code for translation.

use std::ops::Range;

use unspool_instructions::decode::{Instruction, decode};
use unspool_kernel::guarded;

use super::Source;
use crate::served_memory;

/// Bytes that are looked at to decode an instruction.
pub(crate) const WINDOW: usize = 16;
/// Bytes that are read at a time.
const CHUNK: usize = 256;
/// The same where only a few instructions are looked at: each line of code that is read for nothing
/// is one more that comes from memory.
const SHORT_CHUNK: usize = 64;
const PAGE: u64 = 4096;

/// Reads instruction after instruction of code that the program may execute.
pub(crate) struct CodeReader<'a> {
    source: &'a Source<'a>,
    /// Where code may be fetched for certain.
    fetchable: Range<u64>,
    /// Where the bytes in `chunk` come from.
    held: Range<u64>,
    chunk: [u8; CHUNK],
    /// How many bytes of it are used.
    step: usize,
}

impl<'a> CodeReader<'a> {
    pub(crate) fn new(source: &'a Source<'a>) -> CodeReader<'a> {
        CodeReader {
            source,
            fetchable: 0..0,
            held: 0..0,
            chunk: [0; CHUNK],
            step: CHUNK,
        }
    }

    /// From now on, a few instructions are read here and there.
    pub(crate) fn jump_about(&mut self) {
        self.step = SHORT_CHUNK;
    }

    /// The instruction at an address, with the bytes there. `None`: it cannot be fetched, or
    /// its bytes make no instruction.
    pub(crate) fn instruction(&mut self, pc: u64) -> Option<(Instruction, [u8; WINDOW])> {
        if !self.holds(pc, WINDOW) {
            self.fill(pc);
        }
        let (at, end) = (pc - self.held.start, self.held.end - self.held.start);
        let held = &self.chunk[at as usize..end as usize];
        let instruction = decode(held, pc).ok()?;
        let mut window = [0; WINDOW];
        match held.first_chunk::<WINDOW>() {
            // The usual case, with a length that the compiler knows.
            Some(bytes) => window = *bytes,
            None => window[..held.len()].copy_from_slice(held),
        }
        Some((instruction, window))
    }

    fn holds(&self, pc: u64, length: usize) -> bool {
        self.held.start <= pc && pc.saturating_add(length as u64) <= self.held.end
    }

    fn fill(&mut self, pc: u64) {
        let known =
            self.fetchable.start <= pc && pc.saturating_add(WINDOW as u64) <= self.fetchable.end;
        if !known {
            // Look again: the next mapping may continue the code.
            self.fetchable = pc..pc + self.source.fetchable(pc);
        }
        let fetchable = self.fetchable.end - pc;
        // An instruction may reach into the next page, but that may lie beyond its file's end.
        let in_page = PAGE - pc % PAGE;
        let lengths = if in_page < WINDOW as u64 {
            [WINDOW as u64, in_page]
        } else {
            [in_page.min(self.step as u64), 0]
        };
        self.held = pc..pc;
        for length in lengths {
            let length = length.min(fetchable);
            if length != 0
                && served_memory::is_there(self.source.regions, pc, length)
                && guarded::read(pc, &mut self.chunk[..length as usize])
            {
                self.held.end = pc + length;
                return;
            }
        }
    }
}
