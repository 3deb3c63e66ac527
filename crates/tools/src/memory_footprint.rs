//! Tells how many bytes of memory a program reads and writes, and how many different pages and
//! lines of the cache they are in.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use unspool_tool::{
    AccessKind, Address, Constant, Shape, ThreadInfo, Tool, Trace, effective_address, say,
};

const LINE: u64 = 64;
const PAGE: u64 = 4096;

/// Adds up accesses. Of repeated string instructions, and of operands of which a mask says which
/// elements are accessed, it sees the first element only; gathers and scatters it leaves out.
#[derive(Default)]
pub struct MemoryFootprint {
    all: Mutex<Footprint>,
}

/// What a thread has accessed.
#[derive(Default)]
pub struct Footprint {
    read: u64,
    written: u64,
    lines: HashSet<u64>,
    last_line: Option<u64>,
}

impl MemoryFootprint {
    fn accessed(&self, thread: &mut Footprint, at: Address, size: u32, is_write: bool) {
        let bytes = if is_write {
            &mut thread.written
        } else {
            &mut thread.read
        };
        *bytes += u64::from(size);
        let last = at.0.wrapping_add(u64::from(size).saturating_sub(1));
        for line in at.0 / LINE..=last / LINE {
            if thread.last_line != Some(line) {
                thread.last_line = Some(line);
                thread.lines.insert(line);
            }
        }
    }
}

impl Tool for MemoryFootprint {
    type Thread = Footprint;

    fn instrument(&self, trace: &Trace<Self>) {
        for instruction in trace.instructions() {
            for operand in instruction.memory_operands() {
                let Some(address) = effective_address(operand) else {
                    continue;
                };
                let size = match operand.shape {
                    Shape::Plain | Shape::Repeat { .. } => operand.size,
                    _ => operand.size.min(8),
                };
                let arguments = (
                    address,
                    Constant(size),
                    Constant(operand.kind == AccessKind::Write),
                );
                instruction
                    .before()
                    .call(MemoryFootprint::accessed, arguments);
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, thread: Footprint) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.read += thread.read;
        all.written += thread.written;
        all.lines.extend(thread.lines);
    }

    fn forked(&self, thread: &mut Footprint) {
        *thread = Footprint::default();
        *self.all.lock().unwrap_or_else(PoisonError::into_inner) = Footprint::default();
    }

    fn end(&self) {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let pages: HashSet<u64> = all.lines.iter().map(|line| line / (PAGE / LINE)).collect();
        say(&format!(
            "{} bytes read, {} written, in {} lines on {} pages",
            all.read,
            all.written,
            all.lines.len(),
            pages.len()
        ));
    }
}
