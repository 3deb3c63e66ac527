//! How far a thread, or all of them together, are with regions: a pure machine.

use super::Controller;
use super::trigger::Sides;

/// That a region has begun or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegionChange {
    /// Whether it has begun.
    pub is_begin: bool,
    /// Which region it is: 1 for the first one, of the thread or of the process.
    pub number: u64,
}

/// How far a thread is, or all of them together.
#[derive(Debug, Default)]
pub(super) struct Progress {
    is_within: bool,
    /// How often what comes next has been passed.
    passed: u64,
    /// How many regions have begun.
    begun: u64,
}

impl Progress {
    /// A place is passed that bounds regions. Returns whether one begins or ends by that: one of
    /// both, even if the place bounds them on both sides.
    pub(super) fn pass(&mut self, sides: Sides, controller: &Controller) -> Option<RegionChange> {
        let (awaited, wanted) = match self.is_within {
            false => (Sides::BEGIN, controller.begin.count),
            true => (Sides::END, controller.end.count),
        };
        let is_over = controller.once && self.begun != 0 && !self.is_within;
        if is_over || !sides.has(awaited) {
            return None;
        }
        self.passed += 1;
        (self.passed >= wanted).then(|| self.turn())
    }

    fn turn(&mut self) -> RegionChange {
        self.passed = 0;
        self.is_within = !self.is_within;
        self.begun += u64::from(self.is_within);
        RegionChange {
            is_begin: self.is_within,
            number: self.begun,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Controller, Trigger};
    use super::{Progress, Sides};

    /// What becomes of a thread that passes these places: `b` a beginning, `e` an end, `x` both.
    fn changes(controller: &Controller, places: &str) -> String {
        let mut progress = Progress::default();
        let side = |place| match place {
            'b' => Sides::BEGIN,
            'e' => Sides::END,
            _ => Sides::BEGIN.and(Sides::END),
        };
        let told = places
            .chars()
            .map(|place| progress.pass(side(place), controller));
        let told = told.map(|change| match change {
            None => "-".to_owned(),
            Some(change) if change.is_begin => format!("[{}", change.number),
            Some(change) => format!("{}]", change.number),
        });
        told.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn regions_begin_and_end_where_they_are_bounded() {
        let (begin, end) = (Trigger::entry("begin"), Trigger::entry("end"));
        let plain = Controller::of_threads(begin.clone(), end.clone());
        assert_eq!(changes(&plain, "ebbeeb"), "- [1 - 1] - [2");
        let counted = Controller::of_threads(begin.clone().nth(2), end.clone().nth(3));
        assert_eq!(changes(&counted, "bebeeebb"), "- - [1 - - 1] - [2");
        let once = Controller::of_threads(begin, end).once();
        assert_eq!(changes(&once, "bebe"), "[1 1] - -");
    }

    #[test]
    fn a_place_on_both_sides_bounds_one_at_a_time() {
        let both = Trigger::entry("step");
        let between = Controller::of_threads(both.clone().nth(2), both);
        assert_eq!(changes(&between, "xxxxxx"), "- [1 1] - [2 2]");
    }
}
