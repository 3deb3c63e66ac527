//! How far a thread, or all of them together, are with regions: a pure machine.

use super::Rules;
use super::trigger::{Event, Sides, Trigger};

/// That a region has begun or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RegionChange {
    /// Whether it has begun.
    pub is_begin: bool,
    /// Which region it is: 1 for the first one, of the thread or of the process.
    pub number: u64,
    /// How many instructions the thread has executed until then, if a number of them bounds regions
    /// ([`Trigger::instructions`]).
    pub instructions: Option<u64>,
}

/// How far a thread is, or all of them together.
#[derive(Debug, Default)]
pub(super) struct Progress {
    is_within: bool,
    /// How often what comes next has been passed.
    passed: u64,
    /// How many regions have begun.
    begun: u64,
    /// How many instructions had been executed when the last one began or ended.
    since: u64,
}

impl Progress {
    /// A place is passed that bounds regions, behind so many instructions, if they are counted. Returns
    /// whether one begins or ends by that: one of both, even if the place bounds them on both sides.
    pub(super) fn pass(
        &mut self,
        (sides, executed): (Sides, Option<u64>),
        rules: &Rules,
    ) -> Option<RegionChange> {
        let (side, trigger) = self.awaited(rules)?;
        if !sides.has(side) {
            return None;
        }
        self.passed += 1;
        (self.passed >= trigger.count).then(|| self.turn(executed))
    }

    /// The thread has executed so many instructions. Returns whether a region begins or ends by that.
    pub(super) fn count(&mut self, executed: u64, rules: &Rules) -> Option<RegionChange> {
        (executed >= self.due(rules)).then(|| self.turn(Some(executed)))
    }

    /// Instructions are counted from zero again.
    pub(super) fn begin_anew(&mut self) {
        self.since = 0;
    }

    /// At how many instructions of the thread a region begins or ends; the highest number if none does.
    pub(super) fn due(&self, rules: &Rules) -> u64 {
        match self.awaited(rules) {
            Some((_, trigger)) if trigger.event == Event::Instruction => {
                self.since.saturating_add(trigger.count)
            }
            _ => u64::MAX,
        }
    }

    /// What bounds a region next, and on which side; `None` if nothing does any more.
    pub(super) fn awaited<'a>(&self, rules: &'a Rules) -> Option<(Sides, &'a Trigger)> {
        let is_over = rules.once && self.begun != 0;
        match self.is_within {
            true => Some((Sides::END, &rules.end)),
            false if is_over => None,
            false => Some((Sides::BEGIN, &rules.begin)),
        }
    }

    pub(super) fn turn(&mut self, executed: Option<u64>) -> RegionChange {
        self.since = executed.unwrap_or(self.since);
        self.passed = 0;
        self.is_within = !self.is_within;
        self.begun += u64::from(self.is_within);
        RegionChange {
            is_begin: self.is_within,
            number: self.begun,
            instructions: executed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Controller, Rules, Trigger};
    use super::{Progress, Sides};

    /// What becomes of a thread that passes these places: `b` a beginning, `e` an end, `x` both.
    fn changes(rules: &Rules, places: &str) -> String {
        let mut progress = Progress::default();
        let side = |place| match place {
            'b' => Sides::BEGIN,
            'e' => Sides::END,
            _ => Sides::BEGIN.and(Sides::END),
        };
        let told = places
            .chars()
            .map(|place| progress.pass((side(place), None), rules));
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
        assert_eq!(changes(&plain.rules, "ebbeeb"), "- [1 - 1] - [2");
        let counted = Controller::of_threads(begin.clone().nth(2), end.clone().nth(3));
        assert_eq!(changes(&counted.rules, "bebeeebb"), "- - [1 - - 1] - [2");
        let once = Controller::of_threads(begin, end).once();
        assert_eq!(changes(&once.rules, "bebe"), "[1 1] - -");
    }

    #[test]
    fn instructions_are_counted_from_the_last_change() {
        let (begin, end) = (Trigger::instructions(100), Trigger::instructions(50));
        let controller = Controller::of_threads(begin, end);
        let mut progress = Progress::default();
        let mut told = Vec::new();
        for executed in (0..=300).step_by(30) {
            let change = progress.count(executed, &controller.rules);
            told.extend(
                change.map(|change| (change.is_begin, executed, progress.due(&controller.rules))),
            );
        }
        let expected = [(true, 120, 170), (false, 180, 280), (true, 300, 350)];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_routine_may_end_what_a_number_begins() {
        let controller = Controller::of_threads(Trigger::instructions(100), Trigger::exit("end"));
        let mut progress = Progress::default();
        assert_eq!(
            progress.pass((Sides::END, Some(10)), &controller.rules),
            None
        );
        assert!(progress.count(100, &controller.rules).is_some());
        assert_eq!(progress.due(&controller.rules), u64::MAX);
        let change = progress.pass((Sides::END, Some(130)), &controller.rules);
        assert_eq!(change.and_then(|change| change.instructions), Some(130));
        assert_eq!(progress.due(&controller.rules), 230);
    }

    #[test]
    fn a_place_on_both_sides_bounds_one_at_a_time() {
        let both = Trigger::entry("step");
        let between = Controller::of_threads(both.clone().nth(2), both);
        assert_eq!(changes(&between.rules, "xxxxxx"), "- [1 1] - [2 2]");
    }
}
