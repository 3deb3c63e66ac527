//! Whether regions begin and end where they are bounded: of the guest `functions/regions` it is known
//! how many instructions of two functions are in them.
//!
//! Counted are those of `step` in regions, those of `other` in regions, and those of `step` elsewhere.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Annotation, Controlled, Controller, Counter, Image, ImageKind, RegionChange, RegionProgress,
    Superblock, ThreadInfo, Tool, Trigger, Version, arguments, say,
};

use unspool_tool::lock::Mutex;

/// The tool.
pub(crate) struct Regions {
    controller: Controller,
    step: Mutex<Range<u64>>,
    other: Mutex<Range<u64>>,
    inside: Counter,
    others_inside: Counter,
    missed: Counter,
    all: [AtomicU64; 3],
}

/// What a thread has been told.
#[derive(Default)]
pub(crate) struct Told {
    progress: RegionProgress,
    begun: u64,
    ended: u64,
    wrong: u64,
}

/// The calling thread says this.
fn marked(said: Annotation) -> Trigger {
    Trigger::annotation(said)
}

/// It names itself with this number.
fn registered(number: i64) -> Trigger {
    let name = "phase".to_owned();
    Trigger::annotation(Annotation::Thread { number, name })
}

impl Regions {
    pub(crate) fn new() -> Regions {
        let word = |number: usize| arguments().get(number)?.to_str();
        let (entry, exit) = (Trigger::entry("step"), Trigger::exit("step"));
        let controller = match word(1).unwrap_or_default() {
            "each" => Controller::of_threads(entry, exit),
            "some" => Controller::of_threads(entry.nth(3), exit.nth(2)),
            "once" => Controller::of_threads(entry.nth(10), exit.nth(5)).once(),
            "between" => Controller::of_threads(entry.clone(), entry),
            "address" => {
                let address = word(2).and_then(|word| u64::from_str_radix(word, 16).ok());
                let address = address.expect("an address, in hexadecimal digits");
                Controller::of_threads(Trigger::address(address), exit)
            }
            "named" => {
                let [begin, end] = [2, 3].map(|number| word(number).expect("two names"));
                Controller::of_threads(Trigger::entry(begin), Trigger::exit(end))
            }
            "marked" => Controller::of_threads(
                marked(Annotation::RegionStart),
                marked(Annotation::RegionEnd),
            ),
            "marked-twice" => Controller::of_threads(
                marked(Annotation::RegionStart).nth(2),
                marked(Annotation::RegionEnd),
            ),
            "registered" => Controller::of_process(registered(1), registered(2)),
            "together" => {
                Controller::of_process(Trigger::entry("begin_all"), Trigger::entry("end_all"))
            }
            other => panic!("there are no regions `{other}`"),
        };
        Regions {
            controller,
            step: Mutex::default(),
            other: Mutex::default(),
            inside: Counter::new(),
            others_inside: Counter::new(),
            missed: Counter::new(),
            all: Default::default(),
        }
    }
}

impl Controlled for Regions {
    fn controller(&self) -> &Controller {
        &self.controller
    }

    fn progress(told: &mut Told) -> &mut RegionProgress {
        &mut told.progress
    }

    fn region_begins(&self, told: &mut Told, change: &RegionChange) {
        told.begun += 1;
        let fits = change.is_begin && change.number == told.begun && self.controller.is_within();
        told.wrong += u64::from(!fits);
    }

    fn region_ends(&self, told: &mut Told, change: &RegionChange) {
        told.ended += 1;
        let fits = !change.is_begin && change.number == told.ended && !self.controller.is_within();
        told.wrong += u64::from(!fits);
    }
}

impl Tool for Regions {
    type Thread = Told;

    fn image_load(&self, image: &Image<Self>) {
        // Libraries have routines of these names, too.
        if image.kind() == ImageKind::Program {
            for (name, range) in [("step", &self.step), ("other", &self.other)] {
                for routine in image.routines_named(name) {
                    *range.lock() = routine.address()..routine.end();
                }
            }
        }
        self.controller.image_load(image);
    }

    fn instrument(&self, superblock: &Superblock<Self>) {
        let version = self.controller.version(superblock);
        let (step, other) = (self.step.lock().clone(), self.other.lock().clone());
        for instruction in superblock.instructions() {
            let (at, before) = (instruction.address(), instruction.before());
            match version {
                Version::On if step.contains(&at) => before.count(self.inside, 1),
                Version::On if other.contains(&at) => before.count(self.others_inside, 1),
                Version::Off if step.contains(&at) => before.count(self.missed, 1),
                _ => {}
            }
        }
    }

    fn annotation(&self, told: &mut Told, said: &Annotation) {
        self.controller.annotation(self, told, said);
    }

    fn thread_end(&self, _: &ThreadInfo, told: Told) {
        for (sum, value) in self.all.iter().zip([told.begun, told.ended, told.wrong]) {
            sum.fetch_add(value, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        let [begun, ended, wrong] =
            std::array::from_fn(|number| self.all[number].load(Ordering::Relaxed));
        let [inside, others, missed] =
            [self.inside, self.others_inside, self.missed].map(Counter::total);
        say(&format!(
            "regions: {inside} inside, {others} of others, {missed} missed, {begun} begun, {ended} ended, {wrong} wrong"
        ));
    }
}
