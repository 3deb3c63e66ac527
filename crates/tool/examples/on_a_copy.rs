//! Has the routine `work` do what it does with a copy of the memory that it is given, so that the
//! program's own stays as it is.

use unspool_tool::{
    Address, FunctionArgument, Image, ImageKind, Superblock, Tool, effective_address, read_memory,
};

const SIZE: usize = 4096;

/// What a thread works on.
struct Work {
    /// The program's memory; 0 outside of the routine.
    original: u64,
    copy: Box<[u8; SIZE]>,
}

impl Default for Work {
    fn default() -> Work {
        Work {
            original: 0,
            copy: Box::new([0; SIZE]),
        }
    }
}

struct OnACopy;

impl OnACopy {
    fn begins(&self, work: &mut Work, original: u64) {
        let length = read_memory(Address(original), &mut work.copy[..]);
        work.original = if length == SIZE { original } else { 0 };
    }

    fn is_over(&self, work: &mut Work) {
        work.original = 0;
    }

    // ANCHOR: place
    fn place(&self, work: &mut Work, at: Address) -> Address {
        let within = at.0.wrapping_sub(work.original);
        if work.original == 0 || within >= SIZE as u64 {
            return at;
        }
        Address(work.copy.as_mut_ptr() as u64 + within)
    }
    // ANCHOR_END: place
}

impl Tool for OnACopy {
    type Thread = Work;

    fn image_load(&self, image: &Image<Self>) {
        for routine in image.routines_named("work") {
            let memory = FunctionArgument::<u64, 0>::new();
            routine.entry().call(OnACopy::begins, (memory,));
            routine.exit().call(OnACopy::is_over, ());
            routine.unwind().call(OnACopy::is_over, ());
        }
    }

    // ANCHOR: instrument
    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            let image = instruction.image();
            if image.is_none_or(|image| image.kind() != ImageKind::Program) {
                continue;
            }
            let mut operands = instruction.memory_operands().iter();
            let operand = operands.find(|it| instruction.fixed_operand(it).is_none());
            if let Some((operand, at)) = operand.and_then(|it| Some((it, effective_address(it)?))) {
                instruction.rewrite_memory_operand(operand, OnACopy::place, (at,));
            }
        }
    }
    // ANCHOR_END: instrument
}

fn main() {
    unspool_tool::run(OnACopy)
}
