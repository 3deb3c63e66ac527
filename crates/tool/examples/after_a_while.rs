//! How many instructions a program executes in the second that follows its first tenth: what servers do
//! when they have started. Arguments: other numbers of milliseconds.

use std::time::Duration;

use unspool_tool::{
    Controlled, Controller, Counter, RegionProgress, Superblock, ThreadInfo, Tool, Trigger,
    Version, arguments, run, say,
};

struct AfterAWhile {
    controller: Controller,
    executed: Counter,
}

impl Controlled for AfterAWhile {
    fn controller(&self) -> &Controller {
        &self.controller
    }

    fn progress(region: &mut RegionProgress) -> &mut RegionProgress {
        region
    }
}

impl Tool for AfterAWhile {
    type Thread = RegionProgress;

    fn thread_start(&self, _: &ThreadInfo, _: &mut RegionProgress) {
        self.controller.thread_start();
    }

    fn forked(&self, region: &mut RegionProgress) {
        self.controller.forked::<Self>(region);
    }

    fn instrument(&self, superblock: &Superblock<Self>) {
        if self.controller.version(superblock) == Version::On {
            for instruction in superblock.instructions() {
                instruction.before().count(self.executed, 1);
            }
        }
    }

    fn end(&self) {
        say(&format!("{} instructions", self.executed.total()));
    }
}

fn main() {
    let milliseconds = |number: usize| arguments().get(number)?.to_str()?.parse().ok();
    let begin = Duration::from_millis(milliseconds(0).unwrap_or(100));
    let end = Duration::from_millis(milliseconds(1).unwrap_or(1000));
    run(AfterAWhile {
        controller: Controller::of_process(Trigger::time(begin), Trigger::time(end)).once(),
        executed: Counter::new(),
    })
}
