//! Which share of a program's instructions access memory, estimated by samples: of each million
//! instructions that a thread executes, ten thousand are looked at.

use unspool_tool::{
    Controlled, Controller, Counter, RegionProgress, Superblock, Tool, Trigger, Version, run, say,
};

const SAMPLE: u64 = 10_000;
const BETWEEN: u64 = 990_000;

struct Samples {
    controller: Controller,
    executed: Counter,
    accessing: Counter,
}

impl Controlled for Samples {
    fn controller(&self) -> &Controller {
        &self.controller
    }

    fn progress(region: &mut RegionProgress) -> &mut RegionProgress {
        region
    }
}

impl Tool for Samples {
    type Thread = RegionProgress;

    fn instrument(&self, superblock: &Superblock<Self>) {
        if self.controller.version(superblock) == Version::Off {
            return;
        }
        for instruction in superblock.instructions() {
            instruction.before().count(self.executed, 1);
            if !instruction.memory_operands().is_empty() {
                instruction.before().count(self.accessing, 1);
            }
        }
    }

    fn forked(&self, region: &mut RegionProgress) {
        self.controller.forked::<Self>(region);
    }

    fn end(&self) {
        let [executed, accessing] = [self.executed, self.accessing].map(Counter::total);
        let share = accessing as f64 / executed.max(1) as f64 * 100.0;
        say(&format!(
            "{share:.1} % of {executed} instructions looked at"
        ));
    }
}

fn main() {
    let (begin, end) = (
        Trigger::instructions(BETWEEN),
        Trigger::instructions(SAMPLE),
    );
    run(Samples {
        controller: Controller::of_threads(begin, end),
        executed: Counter::new(),
        accessing: Counter::new(),
    })
}
