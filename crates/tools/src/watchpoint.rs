//! Tells each write to a range of memory: by which thread, and where in the program.
//!
//! The tool's arguments are the address of the first byte and the number of bytes. An instruction
//! that faults at the write is told too, each time that it is tried.

use std::ops::Range;

use unspool_tool::{
    AccessKind, Accesses, Address, InstructionPointer, Shape, Superblock, ThreadInfo, Tool,
    accesses, arguments, effective_address, image_at, say,
};

/// Watches a range.
pub struct Watchpoint {
    range: Range<u64>,
}

/// A number as people write it.
fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

impl Watchpoint {
    /// With the range that the tool's arguments name. Ends the process with a message if they
    /// name none.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "it depends on the arguments")]
    pub fn new() -> Watchpoint {
        let words: Option<Vec<u64>> = arguments()
            .iter()
            .map(|word| word.to_str().and_then(number))
            .collect();
        let range = match words.as_deref() {
            Some(&[start, bytes]) => start.checked_add(bytes).map(|end| start..end),
            _ => None,
        };
        let Some(range) = range else {
            say("error: watchpoint needs an address and a number of bytes\n\
                 help: unspool tool run -a 0x10004030 -a 8 watchpoint -- PROGRAM");
            std::process::exit(125)
        };
        Watchpoint { range }
    }

    fn tell(&self, thread: &mut u32, pc: Address, to: Address) {
        let image = image_at(pc.0);
        let routine = image
            .as_ref()
            .and_then(|image| Some(image.routine_at(pc.0)?.name()))
            .unwrap_or_else(|| "?".to_owned());
        let line = image.as_ref().and_then(|image| image.source_line(pc.0));
        let line = line.map_or_else(|| pc.to_string(), |line| line.to_string());
        say(&format!(
            "thread {thread} writes at {to} in {routine} ({line})"
        ));
    }

    fn tell_several(&self, thread: &mut u32, pc: Address, accesses: Accesses) {
        for (at, bytes) in accesses.to_vec() {
            if at.0 < self.range.end && self.range.start < at.0.saturating_add(bytes) {
                self.tell(thread, pc, at);
            }
        }
    }
}

impl Tool for Watchpoint {
    /// The thread's number.
    type Thread = u32;

    fn thread_start(&self, thread: &ThreadInfo, number: &mut u32) {
        *number = thread.number;
    }

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            let operands = instruction.memory_operands().iter();
            for operand in operands.filter(|operand| operand.kind == AccessKind::Write) {
                let place = instruction.before();
                match (operand.shape, effective_address(operand)) {
                    (Shape::Plain, Some(address)) => place.call_if_within(
                        (address, operand.size.into()),
                        self.range.clone(),
                        Watchpoint::tell,
                        (InstructionPointer, address),
                    ),
                    _ => {
                        let found = (InstructionPointer, accesses(operand));
                        place.call(Watchpoint::tell_several, found);
                    }
                }
            }
        }
    }
}
