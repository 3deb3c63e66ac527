//! How many instructions of the program's routine `step` are executed where the user wants them looked at
//! (`--control`), which the tool itself knows nothing of.

use std::ops::Range;

use unspool_tool::lock::Mutex;
use unspool_tool::{Counter, Image, ImageKind, Superblock, Tool, say};

/// The tool.
pub(crate) struct Part {
    step: Mutex<Range<u64>>,
    executed: Counter,
}

impl Part {
    pub(crate) fn new() -> Part {
        Part {
            step: Mutex::default(),
            executed: Counter::new(),
        }
    }

    fn keep(&self, kept: &mut Vec<u64>) {
        kept.push(0);
    }
}

impl Tool for Part {
    /// What is kept for a thread has its place, whatever is kept beside it.
    type Thread = Vec<u64>;

    fn image_load(&self, image: &Image<Self>) {
        if image.kind() == ImageKind::Program {
            for routine in image.routines_named("step") {
                *self.step.lock() = routine.address()..routine.end();
                routine.exit().call(Part::keep, ());
            }
        }
    }

    fn instrument(&self, superblock: &Superblock<Self>) {
        let step = self.step.lock().clone();
        for instruction in superblock.instructions() {
            if step.contains(&instruction.address()) {
                instruction.before().count(self.executed, 1);
            }
        }
    }

    fn thread_end(&self, _: &unspool_tool::ThreadInfo, kept: Vec<u64>) {
        if kept.iter().any(|word| *word != 0) {
            say("what was kept for a thread is not there any more");
        }
    }

    fn end(&self) {
        say(&format!("part: {}", self.executed.total()));
    }
}
