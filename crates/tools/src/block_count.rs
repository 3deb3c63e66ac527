//! Counts the basic blocks that a program executes, and names the most frequent ones.

use std::collections::BTreeMap;

use unspool_tool::lock::Mutex;
use unspool_tool::{Counter, Superblock, Tool, say};

/// Blocks that are named.
const NAMED: usize = 10;

/// Counts blocks by their addresses.
#[derive(Default)]
pub struct BlockCount {
    blocks: Mutex<BTreeMap<u64, Counter>>,
}

impl Tool for BlockCount {
    type Thread = ();

    fn instrument(&self, superblock: &Superblock<Self>) {
        let mut blocks = self.blocks.lock();
        for block in superblock.blocks() {
            let counter = blocks.entry(block.address()).or_insert_with(Counter::new);
            block.before().count(*counter, 1);
        }
    }

    fn end(&self) {
        let blocks = self.blocks.lock();
        let mut counts: Vec<(u64, u64)> = blocks
            .iter()
            .map(|(&address, counter)| (counter.total(), address))
            .collect();
        counts.sort_unstable_by(|left, right| right.cmp(left));
        let executed: u64 = counts.iter().map(|(count, _)| count).sum();
        let mut text = format!("{executed} blocks, at {} addresses", counts.len());
        for (count, address) in counts.iter().take(NAMED) {
            text.push_str(&format!("\n{count:>16}  {address:#x}"));
        }
        say(&text);
    }
}
