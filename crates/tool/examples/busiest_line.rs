//! Finds the line of memory that a program accesses most often.

use std::collections::HashMap;
use std::sync::Mutex;

use unspool_tool::{Address, Superblock, ThreadInfo, Tool, effective_address, say};

#[derive(Default)]
struct BusiestLine {
    all: Mutex<HashMap<u64, u64>>,
}

impl BusiestLine {
    // ANCHOR: accessed
    fn accessed(&self, lines: &mut HashMap<u64, u64>, at: Address) {
        *lines.entry(at.0 / 64).or_default() += 1;
    }
    // ANCHOR_END: accessed
}

impl Tool for BusiestLine {
    // ANCHOR: thread
    /// Accesses by line. Each thread has a map of its own, so that none waits for another.
    type Thread = HashMap<u64, u64>;
    // ANCHOR_END: thread

    // ANCHOR: instrument
    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            for operand in instruction.memory_operands() {
                if let Some(address) = effective_address(operand) {
                    instruction.before().call(BusiestLine::accessed, (address,));
                }
            }
        }
    }
    // ANCHOR_END: instrument

    // ANCHOR: thread_end
    fn thread_end(&self, _: &ThreadInfo, lines: HashMap<u64, u64>) {
        let mut all = self.all.lock().expect("no thread panics with it");
        for (line, count) in lines {
            *all.entry(line).or_default() += count;
        }
    }
    // ANCHOR_END: thread_end

    fn end(&self) {
        let all = self.all.lock().expect("no thread panics with it");
        let accesses: u64 = all.values().sum();
        if let Some((line, count)) = all.iter().max_by_key(|&(line, count)| (count, line)) {
            let line = Address(line * 64);
            say(&format!(
                "{count} of {accesses} accesses are to the line at {line}"
            ));
        }
    }
}

fn main() {
    unspool_tool::run(BusiestLine::default())
}
