//! Counts how often a program reads and writes memory.

use unspool_tool::{AccessKind, Counter, Superblock, Tool, say};

struct ReadsAndWrites {
    reads: Counter,
    writes: Counter,
}

impl Tool for ReadsAndWrites {
    type Thread = ();

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            for operand in instruction.memory_operands() {
                let counter = match operand.kind {
                    AccessKind::Read => self.reads,
                    AccessKind::Write => self.writes,
                };
                instruction.before().count(counter, 1);
            }
        }
    }

    fn end(&self) {
        let (reads, writes) = (self.reads.total(), self.writes.total());
        say(&format!("{reads} reads, {writes} writes"));
    }
}

fn main() {
    unspool_tool::run(ReadsAndWrites {
        reads: Counter::new(),
        writes: Counter::new(),
    })
}
