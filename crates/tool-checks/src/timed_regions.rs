//! When regions that time bounds begin and end: the guest `functions/timed` calls `step` and asks
//! `is_enough` until the tool has seen enough of them.

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
    /// How much of the time that it takes at least had passed at a beginning or an end, in percent: the
    /// least of all.
    least: AtomicU64,
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
            least: AtomicU64::new(u64::MAX),
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
            let passed = self.start.get().map_or(Duration::ZERO, Instant::elapsed);
            let percent = passed.as_micros() * 100 / soonest.as_micros();
            self.least.fetch_min(percent as u64, Ordering::Relaxed);
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
        let least = match self.least.load(Ordering::Relaxed) {
            u64::MAX => "never".to_owned(),
            percent => format!("from {percent} % of the time on"),
        };
        let inside = match self.inside.total() {
            0 => "nothing",
            _ => "something",
        };
        say(&format!(
            "timed: {satisfied} have seen enough, {least}, {inside} inside"
        ));
    }
}
