//! The block of the heap that a race is about, with the names of where it was allocated and freed.

use serde_json::{Value, json};
use unspool_analyses::HeapBlock;
use unspool_analyses::heap::HeapStep;

use super::stacks::{Stack, Stacks};

/// A block of the heap, with names.
#[derive(Debug, Clone)]
pub(super) struct DescribedBlock {
    block: HeapBlock,
    /// Where in it the byte is that the race is about.
    offset: u64,
    pub(super) allocated: DescribedStep,
    pub(super) freed: Option<DescribedStep>,
}

/// Who has allocated or freed it, and where.
#[derive(Debug, Clone)]
pub(super) struct DescribedStep {
    pub(super) thread: u32,
    pub(super) stack: Stack,
}

impl DescribedBlock {
    /// The block that has the byte at an address.
    pub(super) fn new(block: HeapBlock, address: u64, stacks: &mut Stacks<'_>) -> DescribedBlock {
        let mut step = |step: HeapStep| DescribedStep {
            thread: step.thread,
            stack: stacks.of_request(step.context),
        };
        DescribedBlock {
            offset: address - block.address,
            allocated: step(block.allocated),
            freed: block.freed.map(step),
            block,
        }
    }

    /// In few words.
    pub(super) fn name(&self) -> String {
        let (size, offset) = (self.block.size, self.offset);
        let plural = if size == 1 { "" } else { "s" };
        match offset {
            0 => format!("heap block of {size} byte{plural}"),
            _ => format!("heap block of {size} byte{plural}+{offset}"),
        }
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "address": self.block.address,
            "size": self.block.size,
            "offset": self.offset,
            "allocated": self.allocated.as_json(),
            "freed": self.freed.as_ref().map(DescribedStep::as_json),
        })
    }
}

impl DescribedStep {
    pub(super) fn as_json(&self) -> Value {
        let place = self.stack.headline().map(|frame| &frame.place);
        json!({
            "thread": self.thread,
            "module": place.and_then(|place| place.module.clone()),
            "function": place.and_then(|place| place.function.clone()),
            "line": place.and_then(|place| place.line.clone()),
            "stack": self.stack.as_json(),
        })
    }
}
