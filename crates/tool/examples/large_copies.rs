//! Tells where a program copies or fills a lot of memory by one repeated string instruction.

use std::collections::BTreeMap;
use std::sync::Mutex;

use unspool_tool::{
    AccessKind, Address, InstructionPointer, Superblock, Tool, access_size, effective_address, say,
};

#[derive(Default)]
struct LargeCopies {
    /// How often, and how many bytes, by the instruction's address.
    all: Mutex<BTreeMap<Address, (u64, u64)>>,
}

impl LargeCopies {
    // ANCHOR: test
    fn is_large(&self, _: &mut (), bytes: u64) -> bool {
        bytes >= 4096
    }
    // ANCHOR_END: test

    fn copies(&self, _: &mut (), at: Address, _to: Address, bytes: u64) {
        let mut all = self.all.lock().expect("no thread panics with it");
        let (count, sum) = all.entry(at).or_default();
        *count += 1;
        *sum += bytes;
    }
}

impl Tool for LargeCopies {
    type Thread = ();

    // ANCHOR: instrument
    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            if !instruction.decoded().has_rep_prefix() {
                continue;
            }
            for operand in instruction.memory_operands() {
                if operand.kind != AccessKind::Write {
                    continue;
                }
                if let (Some(to), Some(size)) = (effective_address(operand), access_size(operand)) {
                    instruction.before().call_if(
                        LargeCopies::is_large,
                        (size,),
                        LargeCopies::copies,
                        (InstructionPointer, to, size),
                    );
                }
            }
        }
    }
    // ANCHOR_END: instrument

    fn end(&self) {
        let all = self.all.lock().expect("no thread panics with it");
        for (at, (count, bytes)) in all.iter() {
            say(&format!("{at}: {count} times, {bytes} bytes"));
        }
    }
}

fn main() {
    unspool_tool::run(LargeCopies::default())
}
