//! Repeated string instructions that are interrupted: of each one that completes, one beginning is
//! at its first repetition.
//!
//! With `spoilt`, all beginnings count.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{Counter, Superblock, ThreadInfo, Tool, first_repetition, say};

use crate::asked;

/// The tool.
pub(crate) struct Repetitions {
    completed: Counter,
    firsts: AtomicU64,
    others: AtomicU64,
}

/// How often a thread has begun one, and begun one again.
#[derive(Default)]
pub(crate) struct Begun {
    firsts: u64,
    others: u64,
}

impl Repetitions {
    pub(crate) fn new() -> Repetitions {
        Repetitions {
            completed: Counter::new(),
            firsts: AtomicU64::new(0),
            others: AtomicU64::new(0),
        }
    }

    fn begins(&self, begun: &mut Begun, is_first: bool, same: bool) {
        assert_eq!(is_first, same, "two arguments of a call");
        if is_first || asked("spoilt") {
            begun.firsts += 1;
        } else {
            begun.others += 1;
        }
    }
}

impl Tool for Repetitions {
    type Thread = Begun;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            if let Some(first) = first_repetition(&instruction) {
                let before = instruction.before();
                before.count(self.completed, 1);
                before.call(Repetitions::begins, (first, first));
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, begun: Begun) {
        self.firsts.fetch_add(begun.firsts, Ordering::Relaxed);
        self.others.fetch_add(begun.others, Ordering::Relaxed);
    }

    fn end(&self) {
        let completed = self.completed.total();
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (firsts, others) = (of(&self.firsts), of(&self.others));
        let agree = if completed == firsts { "" } else { "NOT " };
        let resumed = if others == 0 { "none" } else { "some" };
        say(&format!(
            "repetitions {agree}as completed, {resumed} resumed: {completed}, {firsts} begun, {others} begun again"
        ));
    }
}
