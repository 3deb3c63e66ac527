//! Which blocks of the heap are there, and what has allocated and freed each?
//!
//! The events must have the calls and returns of the functions of [`functions`]. Where one of them
//! works by another (`operator new` by `malloc`), the outermost one counts: its caller is who wanted
//! the block. A call that never returns (an exception has left it) is known by the calls that led to
//! the next one, which do not lead through it.

mod operation;

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use unspool_events::{Event, FunctionId, Span, ThreadEvent, ThreadId, TracedFunction};

pub use operation::functions;
pub(crate) use operation::{Operation, operation_of};

use crate::call_paths::{CallPaths, ContextId};

/// A block of the heap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapBlock {
    /// Its first byte.
    pub address: u64,
    /// How many bytes were asked for.
    pub size: u64,
    /// By whom, and where.
    pub allocated: HeapStep,
    /// Who has freed it, and where, if it was.
    pub freed: Option<HeapStep>,
}

/// Somebody has allocated or freed a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapStep {
    /// The thread.
    pub thread: u32,
    /// The calls that led there, that of the function that allocates or frees first.
    pub context: ContextId,
    /// When it was called.
    pub time: u64,
}

/// All blocks.
#[derive(Debug)]
pub(crate) struct Heap {
    functions: FxHashMap<FunctionId, Operation>,
    /// The calls that have not returned, the outermost first.
    calls: FxHashMap<ThreadId, Vec<Call>>,
    /// By their addresses; no two have a byte in common. Those that were freed stay until their memory
    /// is given out again.
    blocks: BTreeMap<u64, Block>,
    /// Those that the answer may be about: what becomes of them is noted here, too.
    told: Vec<HeapBlock>,
    most_blocks: usize,
    /// How often all blocks were forgotten, for want of memory.
    pub(crate) forgotten: u64,
}

/// The number of a block that the answer may be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockId(u32);

#[derive(Debug)]
struct Block {
    facts: HeapBlock,
    told: Option<BlockId>,
}

/// A call that has not returned.
#[derive(Debug, Clone, Copy)]
struct Call {
    function: FunctionId,
    stack_pointer: u64,
    operation: Operation,
    arguments: [u64; 3],
    step: HeapStep,
}

/// What a block takes, with its place among the others and room to grow.
const BLOCK_BYTES: usize = 2 * size_of::<(u64, Block)>();

impl Heap {
    /// Nothing is known yet. What is kept of blocks takes no more than so many bytes.
    pub(crate) fn new(most_bytes: usize) -> Heap {
        Heap {
            functions: FxHashMap::default(),
            calls: FxHashMap::default(),
            blocks: BTreeMap::new(),
            told: Vec::new(),
            most_blocks: (most_bytes / BLOCK_BYTES).min(u32::MAX as usize),
            forgotten: 0,
        }
    }

    /// A function whose calls may come.
    pub(crate) fn function(&mut self, function: &TracedFunction) {
        if let Some(operation) = operation_of(&function.name) {
            self.functions.insert(function.id, operation);
        }
    }

    /// Whether the calls of functions that allocate are among the events.
    pub(crate) fn saw_functions(&self) -> bool {
        !self.functions.is_empty()
    }

    /// Something has happened in a thread.
    pub(crate) fn event(&mut self, id: ThreadId, time: u64, event: &Event, paths: &CallPaths) {
        match event {
            Event::Span(Span::FunctionCall {
                function,
                stack_pointer,
                arguments,
            }) => {
                if let Some(&operation) = self.functions.get(function) {
                    let call = Call {
                        function: *function,
                        stack_pointer: *stack_pointer,
                        operation,
                        arguments: *arguments,
                        step: HeapStep {
                            thread: id.0,
                            context: paths.context(id),
                            time,
                        },
                    };
                    self.begins(id, call, paths);
                }
            }
            Event::Span(Span::FunctionReturn {
                function,
                stack_pointer,
                value,
                stored,
            }) => {
                let Some(calls) = self.calls.get_mut(&id) else {
                    return;
                };
                let is_it = |call: &Call| {
                    call.function == *function && call.stack_pointer == *stack_pointer
                };
                if let Some(found) = calls.iter().rposition(is_it) {
                    let call = calls[found];
                    calls.truncate(found);
                    if found == 0 {
                        self.ends(&call, *value, *stored);
                    }
                }
            }
            Event::Thread(ThreadEvent::End) => _ = self.calls.remove(&id),
            _ => {}
        }
    }

    fn begins(&mut self, id: ThreadId, call: Call, paths: &CallPaths) {
        let calls = self.calls.entry(id).or_default();
        while calls
            .pop_if(|last| !last.may_have_led_to(&call, paths))
            .is_some()
        {}
        calls.push(call);
        if calls.len() == 1
            && let Some(address) = call.operation.frees(&call.arguments)
        {
            self.free(address, call.step);
        }
    }

    fn ends(&mut self, call: &Call, value: u64, stored: Option<u64>) {
        let Some(size) = call.operation.allocates(&call.arguments) else {
            return;
        };
        if let Some(address) = call.operation.result(value, stored) {
            self.add(address, size, call.step);
        } else if size != 0
            && let Some(address) = call.operation.frees(&call.arguments)
        {
            // There was no room for more: the block is what it was.
            self.keep(address, call.step);
        }
    }

    /// What was in a range of memory is there no more.
    pub(crate) fn forget(&mut self, address: u64, size: u64) {
        let before = self.blocks.range(..address).next_back();
        if let Some((&first, block)) = before
            && block.facts.has(address)
        {
            self.blocks.remove(&first);
        }
        let end = address.saturating_add(size.max(1));
        while let Some((&first, _)) = self.blocks.range(address..end).next() {
            self.blocks.remove(&first);
        }
    }

    /// There is a block where nothing is any more that was there.
    fn add(&mut self, address: u64, size: u64, allocated: HeapStep) {
        self.forget(address, size);
        self.make_room();
        let facts = HeapBlock {
            address,
            size,
            allocated,
            freed: None,
        };
        self.blocks.insert(address, Block { facts, told: None });
    }

    /// A block is freed. If it was already, that stays: a thread that ends gives back what it has kept
    /// of freed blocks, by the same function.
    fn free(&mut self, address: u64, step: HeapStep) {
        self.change(address, |freed| *freed = freed.or(Some(step)));
    }

    /// A block was not freed after all.
    fn keep(&mut self, address: u64, step: HeapStep) {
        self.change(address, |freed| {
            *freed = freed.filter(|known| *known != step)
        });
    }

    fn change(&mut self, address: u64, change: impl FnOnce(&mut Option<HeapStep>)) {
        if let Some(block) = self.blocks.get_mut(&address) {
            change(&mut block.facts.freed);
            if let Some(BlockId(number)) = block.told {
                self.told[number as usize].freed = block.facts.freed;
            }
        }
    }

    fn make_room(&mut self) {
        if self.blocks.len() < self.most_blocks {
            return;
        }
        self.blocks.retain(|_, block| block.facts.freed.is_none());
        if self.blocks.len() > self.most_blocks / 2 {
            self.blocks.clear();
            self.forgotten += 1;
        }
    }

    /// The block that has a byte, to be told of.
    pub(crate) fn tell(&mut self, address: u64) -> Option<BlockId> {
        let (_, block) = self.blocks.range_mut(..=address).next_back()?;
        if !block.facts.has(address) {
            return None;
        }
        if block.told.is_none() && self.told.len() < self.most_blocks {
            block.told = Some(BlockId(self.told.len() as u32));
            self.told.push(block.facts);
        }
        block.told
    }

    /// A block as it was at some time.
    pub(crate) fn block(&self, BlockId(number): BlockId, time: u64) -> HeapBlock {
        let block = self.told[number as usize];
        HeapBlock {
            freed: block.freed.filter(|step| step.time < time),
            ..block
        }
    }
}

impl HeapBlock {
    fn has(&self, address: u64) -> bool {
        address.wrapping_sub(self.address) < self.size
    }
}

impl Call {
    /// Whether another call may be made by what this one has called.
    fn may_have_led_to(&self, call: &Call, paths: &CallPaths) -> bool {
        let is_again = self.function == call.function && self.stack_pointer == call.stack_pointer;
        self.stack_pointer >= call.stack_pointer
            && !is_again
            && paths.leads_through(call.step.context, self.step.context)
    }
}

#[cfg(test)]
mod tests;
