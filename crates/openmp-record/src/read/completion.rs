//! What follows from all blocks together: the end of the process, the order of constructs, and
//! what of damaged ones still makes sense.

use super::OpenFrame;
use crate::process::{ClockKind, Construct, ProcessRecord};

impl ProcessRecord {
    /// Moves the end of a process that could not say when it ended.
    pub(super) fn extend_to(&mut self, end_ns: Option<u64>) {
        let Some(end_ns) = end_ns.filter(|end| *end > self.last_ns) else {
            return;
        };
        let more_ns = end_ns - self.last_ns;
        let more = match (self.clock, self.duration_ns()) {
            (ClockKind::Monotonic, _) | (_, 0) => more_ns,
            (ClockKind::Processor, duration) => {
                let ticks = self.last_ticks.saturating_sub(self.start_ticks);
                (more_ns as f64 * (ticks as f64 / duration as f64)) as u64
            }
        };
        self.last_ns = end_ns;
        self.last_ticks = self.last_ticks.saturating_add(more);
    }

    /// Puts constructs in the order of their numbers, each of which there is once.
    pub(super) fn put_in_order(&mut self) {
        self.constructs.sort_by_key(|one| one.number);
        let count = self.constructs.len();
        self.constructs.dedup_by_key(|one| one.number);
        let twice = count - self.constructs.len();
        if twice > 0 {
            self.damaged("constructs", format!("{twice} have the number of another"));
        }
    }

    /// Leaves, at the last moment, what a thread had not left.
    pub(super) fn close(&mut self, frames: &[OpenFrame]) {
        let end = self.last_ticks;
        let mut unknown = 0;
        let mut inner = 0;
        for open in frames.iter().rev() {
            let total = end.saturating_sub(open.begin);
            let elsewhere = open
                .nested
                .saturating_add(open.waited)
                .saturating_add(inner);
            inner = total;
            let found = self
                .constructs
                .binary_search_by_key(&open.construct, |one| one.number);
            let Ok(index) = found else {
                unknown += 1;
                continue;
            };
            let own = total.saturating_sub(elsewhere);
            let one = &mut self.constructs[index];
            one.count = one.count.saturating_add(1);
            one.total = one.total.saturating_add(total);
            one.own = one.own.saturating_add(own);
            one.longest = one.longest.max(total);
            one.own_longest = one.own_longest.max(own);
        }
        if unknown > 0 {
            self.damaged(
                "threads",
                format!("{unknown} open constructs are not described"),
            );
        }
    }

    /// The construct with this number.
    #[must_use]
    pub fn find(&self, number: u64) -> Option<&Construct> {
        let index = self
            .constructs
            .binary_search_by_key(&number, |one| one.number);
        index.ok().map(|index| &self.constructs[index])
    }

    /// Lets constructs whose parent is damaged stand alone; breaks circles of parents.
    pub(super) fn drop_orphans(&mut self) {
        let mut orphans = Vec::new();
        for (index, one) in self.constructs.iter().enumerate() {
            // A parent is made before its children of the same thread, so that its number is
            // the smaller one: no circle can pass this.
            let sound = one
                .parent
                .is_none_or(|parent| parent < one.number && self.find(parent).is_some());
            if !sound {
                orphans.push(index);
            }
        }
        if !orphans.is_empty() {
            self.damaged(
                "constructs",
                format!("{} have no sound parent", orphans.len()),
            );
        }
        for index in orphans {
            self.constructs[index].parent = None;
        }
    }
}
