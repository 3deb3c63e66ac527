//! How many instructions all threads execute in the regions that the program marks by `unspool.h`.

use unspool_tool::{
    Annotation, Controlled, Controller, Counter, RegionProgress, Superblock, Tool, Trigger,
    Version, run, say,
};

struct MarkedRegions {
    controller: Controller,
    executed: Counter,
}

impl Controlled for MarkedRegions {
    fn controller(&self) -> &Controller {
        &self.controller
    }

    fn progress(region: &mut RegionProgress) -> &mut RegionProgress {
        region
    }
}

impl Tool for MarkedRegions {
    type Thread = RegionProgress;

    fn annotation(&self, region: &mut RegionProgress, said: &Annotation) {
        self.controller.annotation(self, region, said);
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
    let begin = Trigger::annotation(Annotation::RegionStart);
    let end = Trigger::annotation(Annotation::RegionEnd);
    run(MarkedRegions {
        controller: Controller::of_process(begin, end),
        executed: Counter::new(),
    })
}
