//! Whether regions that numbers of instructions bound are as long as the tool is told: what is counted
//! between a beginning and an end, in the version of the code that is executed there, must be the
//! difference of what is told at both, and each must be bounded in the superblock in which it is due.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Controlled, Controller, Counter, RegionChange, RegionProgress, Superblock, Tool, Trigger,
    Version, arguments, say,
};

/// A region may begin or end so many instructions late, and is never early.
const LATE: u64 = 63;

/// The tool.
pub(crate) struct CountedRegions {
    controller: Controller,
    /// How many instructions there are between regions, and in them.
    lengths: [u64; 2],
    /// In which version what should be in regions is counted: in the other one as a control.
    counted: Version,
    executed: Counter,
    regions: AtomicU64,
    late: AtomicU64,
    wrong: AtomicU64,
}

/// What a thread has been told last.
#[derive(Default)]
pub(crate) struct Told {
    progress: RegionProgress,
    at: u64,
    counted: u64,
}

impl CountedRegions {
    pub(crate) fn new() -> CountedRegions {
        let word = |number: usize| arguments().get(number)?.to_str();
        let length = |number| {
            let length = word(number).and_then(|word| word.parse().ok());
            length.expect("a number of instructions")
        };
        let lengths = [length(1), length(2)];
        let [begin, end] = lengths.map(Trigger::instructions);
        CountedRegions {
            controller: Controller::of_threads(begin, end),
            lengths,
            counted: match word(3) {
                Some("elsewhere") => Version::Off,
                _ => Version::On,
            },
            executed: Counter::new(),
            regions: AtomicU64::new(0),
            late: AtomicU64::new(0),
            wrong: AtomicU64::new(0),
        }
    }

    /// Looks at what has passed since the last change. Returns how much has been counted meanwhile, and
    /// how much should have been.
    fn changes(&self, told: &mut Told, change: &RegionChange) -> (u64, u64) {
        let at = change.instructions.expect("instructions are counted");
        let counted = self.executed.of_this_thread();
        let passed = at - told.at;
        let wanted = self.lengths[usize::from(!change.is_begin)];
        let is_in_time = (wanted..=wanted + LATE).contains(&passed);
        self.late
            .fetch_add(u64::from(!is_in_time), Ordering::Relaxed);
        let result = (counted - told.counted, passed);
        (told.at, told.counted) = (at, counted);
        result
    }

    fn note(&self, fits: bool) {
        self.wrong.fetch_add(u64::from(!fits), Ordering::Relaxed);
    }
}

impl Controlled for CountedRegions {
    fn controller(&self) -> &Controller {
        &self.controller
    }

    fn progress(told: &mut Told) -> &mut RegionProgress {
        &mut told.progress
    }

    fn region_begins(&self, told: &mut Told, change: &RegionChange) {
        let (counted, _) = self.changes(told, change);
        self.note(counted == 0);
    }

    fn region_ends(&self, told: &mut Told, change: &RegionChange) {
        let (counted, passed) = self.changes(told, change);
        self.note(counted == passed);
        self.regions.fetch_add(1, Ordering::Relaxed);
    }
}

impl Tool for CountedRegions {
    type Thread = Told;

    fn instrument(&self, superblock: &Superblock<Self>) {
        if self.controller.version(superblock) == self.counted {
            for instruction in superblock.instructions() {
                instruction.before().count(self.executed, 1);
            }
        }
    }

    fn forked(&self, told: &mut Told) {
        (told.at, told.counted) = (0, 0);
        self.controller.forked::<Self>(told);
    }

    fn end(&self) {
        let [regions, late, wrong] =
            [&self.regions, &self.late, &self.wrong].map(|it| it.load(Ordering::Relaxed));
        let is_many = if regions >= 100 { "many" } else { "few" };
        let wrong = if wrong == 0 {
            "none wrong"
        } else {
            "some wrong"
        };
        say(&format!("{is_many} regions, {late} late, {wrong}"));
    }
}
