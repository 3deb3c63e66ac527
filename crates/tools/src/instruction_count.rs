//! Counts the instructions that a program executes: each once that completes, and a repeated
//! string instruction once, as the processor's own counter and a debugger's single steps do.

use unspool_tool::{Counter, Superblock, Tool, say};

/// Counts instructions.
pub struct InstructionCount {
    executed: Counter,
}

impl InstructionCount {
    /// Nothing counted yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a counter is a resource")]
    pub fn new() -> InstructionCount {
        InstructionCount {
            executed: Counter::new(),
        }
    }
}

impl Tool for InstructionCount {
    type Thread = ();

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            instruction.before().count(self.executed, 1);
        }
    }

    fn end(&self) {
        say(&format!("{} instructions", self.executed.total()));
    }
}
