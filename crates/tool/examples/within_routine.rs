//! How many memory operands a program's instructions have in one of its routines, and in what that
//! calls.

use unspool_tool::{Counter, Image, Superblock, Switch, Tool, Version, arguments, run, say};

struct WithinRoutine {
    name: String,
    is_within: Switch,
    operands: Counter,
}

impl WithinRoutine {
    fn begins(&self, depth: &mut u32) {
        *depth += 1;
        self.is_within.set(true);
    }

    fn is_over(&self, depth: &mut u32) {
        *depth -= 1;
        self.is_within.set(*depth != 0);
    }
}

impl Tool for WithinRoutine {
    type Thread = u32;

    fn image_load(&self, image: &Image<Self>) {
        for routine in image.routines_named(&self.name) {
            routine.entry().call(WithinRoutine::begins, ());
            routine.exit().call(WithinRoutine::is_over, ());
            routine.unwind().call(WithinRoutine::is_over, ());
        }
    }

    fn instrument(&self, superblock: &Superblock<Self>) {
        if superblock.version(self.is_within) == Version::Off {
            return;
        }
        for instruction in superblock.instructions() {
            let operands = instruction.memory_operands().len() as u32;
            if operands != 0 {
                instruction.before().count(self.operands, operands);
            }
        }
    }

    fn end(&self) {
        say(&format!("{} memory operands", self.operands.total()));
    }
}

fn main() {
    let name = arguments().first().and_then(|word| word.to_str());
    run(WithinRoutine {
        name: name.expect("the name of a routine").to_owned(),
        is_within: Switch::new(),
        operands: Counter::new(),
    })
}
