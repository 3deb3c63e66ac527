//! Whether regions that time bounds begin and end, and never early: the guest `functions/timed` calls
//! `step` and asks `is_enough` until the tool has seen enough of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use unspool_tool::lock::OnceLock;
use unspool_tool::{
    Controlled, Controller, Counter, Image, RegionProgress, ReturnValueByReference, Superblock,
    ThreadInfo, Tool, Trigger, ValueMut, Version, arguments, say,
};

/// How many beginnings and ends are enough.
const ENOUGH: u32 = 8;

/// The tool.
pub(crate) struct TimedRegions {
    controller: Controller,
    /// How long it takes until a region begins, and until it ends.
    lengths: [Duration; 2],
    start: OnceLock<Instant>,
    /// How many threads have seen enough.
    satisfied: AtomicU64,
    early: AtomicU64,
    inside: Counter,
}

/// Whether a thread was in a region when it looked last, and how often that had changed. (Each looks
/// for itself: their switches are turned one after the other.)
#[derive(Default)]
pub(crate) struct Seen {
    region: RegionProgress,
    is_within: bool,
    changes: u32,
}

impl TimedRegions {
    pub(crate) fn new() -> TimedRegions {
        let length = |number: usize| {
            let word = arguments().get(number).and_then(|word| word.to_str());
            let milliseconds = word.and_then(|word| word.parse().ok());
            Duration::from_millis(milliseconds.expect("milliseconds"))
        };
        let lengths = [length(1), length(2)];
        let [begin, end] = lengths.map(Trigger::time);
        TimedRegions {
            controller: Controller::of_process(begin, end),
            lengths,
            start: OnceLock::new(),
            satisfied: AtomicU64::new(0),
            early: AtomicU64::new(0),
            inside: Counter::new(),
        }
    }

    /// `is_enough` returns: looks whether a region has begun or ended.
    fn look(&self, seen: &mut Seen, mut is_enough: ValueMut<u64>) {
        let is_within = self.controller.is_within();
        if seen.is_within != is_within {
            seen.is_within = is_within;
            seen.changes += 1;
            // One may have been missed, but never is one more seen than there have been.
            let [begin, end] = self.lengths;
            let soonest = begin * seen.changes.div_ceil(2) + end * (seen.changes / 2);
            let passed = self.start.get().map(Instant::elapsed);
            let is_early = passed.is_none_or(|passed| passed < soonest);
            self.early.fetch_add(u64::from(is_early), Ordering::Relaxed);
        }
        is_enough.set(u64::from(seen.changes >= ENOUGH));
    }
}

impl Controlled for TimedRegions {
    fn controller(&self) -> &Controller {
        &self.controller
    }

    fn progress(seen: &mut Seen) -> &mut RegionProgress {
        &mut seen.region
    }
}

impl Tool for TimedRegions {
    type Thread = Seen;

    fn thread_start(&self, _: &ThreadInfo, _: &mut Seen) {
        let _ = self.start.set(Instant::now());
        self.controller.thread_start();
    }

    fn thread_end(&self, _: &ThreadInfo, seen: Seen) {
        let is_enough = seen.changes >= ENOUGH;
        self.satisfied
            .fetch_add(u64::from(is_enough), Ordering::Relaxed);
    }

    fn forked(&self, seen: &mut Seen) {
        self.controller.forked::<Self>(seen);
    }

    fn image_load(&self, image: &Image<Self>) {
        for routine in image.routines_named("is_enough") {
            let result = (ReturnValueByReference::<u64>::new(),);
            routine.exit().call(TimedRegions::look, result);
        }
    }

    fn instrument(&self, superblock: &Superblock<Self>) {
        if self.controller.version(superblock) == Version::On {
            for instruction in superblock.instructions() {
                instruction.before().count(self.inside, 1);
            }
        }
    }

    fn end(&self) {
        let satisfied = self.satisfied.load(Ordering::Relaxed);
        let early = self.early.load(Ordering::Relaxed);
        let inside = match self.inside.total() {
            0 => "nothing",
            _ => "something",
        };
        say(&format!(
            "timed: {satisfied} have seen enough, {early} early, {inside} inside"
        ));
    }
}
