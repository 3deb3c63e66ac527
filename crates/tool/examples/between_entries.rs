//! How many memory operands a program's instructions have between the first and the second time, the
//! third and the fourth, and so on, that each thread enters a routine.

use unspool_tool::{
    Controlled, Controller, Counter, Image, RegionProgress, Superblock, Tool, Trigger, Version,
    arguments, run, say,
};

struct BetweenEntries {
    controller: Controller,
    operands: Counter,
}

impl Controlled for BetweenEntries {
    fn controller(&self) -> &Controller {
        &self.controller
    }

    fn progress(region: &mut RegionProgress) -> &mut RegionProgress {
        region
    }
}

impl Tool for BetweenEntries {
    type Thread = RegionProgress;

    fn image_load(&self, image: &Image<Self>) {
        self.controller.image_load(image);
    }

    fn instrument(&self, superblock: &Superblock<Self>) {
        if self.controller.version(superblock) == Version::Off {
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
    let entry = Trigger::entry(name.expect("the name of a routine"));
    run(BetweenEntries {
        controller: Controller::of_threads(entry.clone(), entry),
        operands: Counter::new(),
    })
}
