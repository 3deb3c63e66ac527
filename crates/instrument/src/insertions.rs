//! What a tool has inserted into a superblock.
//!
//! Most tools insert a little at each instruction, so all of it lies in one list, in the order
//! of the places, and not in a list for each place.

use super::{Action, CallWhenOver, InsertionPoint};

/// All that is inserted into a superblock.
#[derive(Debug, Default)]
pub(crate) struct Inserted {
    actions: Vec<Action>,
    /// What is done where the superblock is reached, whichever version of it follows.
    reached: Vec<Action>,
    /// The instruction's number and the place of each.
    places: Vec<(u32, InsertionPoint)>,
    /// What is called when the system calls are over that instructions make.
    over: Vec<(u32, CallWhenOver)>,
    /// The instructions whose operand in memory is elsewhere.
    elsewhere: Vec<u32>,
    /// Where each instruction's are among the actions.
    ranges: Vec<Ranges>,
    /// Whether there is another action than to count.
    has_others: bool,
}

/// Where what is inserted around one instruction is among all: one place behind the other, in the
/// order of [`InsertionPoint`].
#[derive(Debug, Clone, Copy, Default)]
struct Ranges {
    start: u32,
    /// Where those end that are inserted at each point.
    ends: [u32; 3],
}

/// What is inserted around one instruction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Insertions<'a> {
    pub(crate) before: &'a [Action],
    pub(crate) after: &'a [Action],
    pub(crate) taken: &'a [Action],
}

impl<'a> Insertions<'a> {
    /// What is inserted behind the instruction, where it is taken or where it is not.
    pub(crate) fn inside(&self, taken: bool) -> &'a [Action] {
        if taken { self.taken } else { self.after }
    }
}

impl Inserted {
    /// Adds an action, behind those that are at its place already.
    pub(super) fn push(&mut self, number: usize, place: InsertionPoint, action: Action) {
        self.places.push((number as u32, place));
        self.has_others |= !matches!(action, Action::Count { .. });
        self.actions.push(action);
    }

    /// Adds what is done where the superblock is reached.
    pub(super) fn push_reached(&mut self, action: Action) {
        self.has_others = true;
        self.reached.push(action);
    }

    /// What is done where the superblock is reached.
    pub(crate) fn reached(&self) -> &[Action] {
        &self.reached
    }

    /// Adds a call, behind those that are made already when the instruction's system call is over.
    pub(super) fn push_over(&mut self, number: usize, call: CallWhenOver) {
        self.over.push((number as u32, call));
    }

    /// The operand in memory of an instruction is elsewhere.
    pub(super) fn push_elsewhere(&mut self, number: usize) {
        self.elsewhere.push(number as u32);
    }

    /// Whether it is.
    pub(super) fn is_elsewhere(&self, number: usize) -> bool {
        self.elsewhere.contains(&(number as u32))
    }

    /// The instructions of which it is.
    pub(crate) fn all_elsewhere(&self) -> impl Iterator<Item = usize> + '_ {
        self.elsewhere.iter().map(|&number| number as usize)
    }

    /// Whether the value of an operand of an instruction is wanted, before
    /// [`Inserted::find_places`] is called.
    pub(super) fn wants_memory_values(&self, number: usize) -> bool {
        let mut all = self.places.iter().zip(&self.actions);
        all.any(|((at, _), action)| *at as usize == number && action.memory_values() != 0)
    }

    /// Makes it as new, except for the room that its parts have.
    pub(super) fn clear(&mut self) {
        self.actions.clear();
        self.reached.clear();
        self.places.clear();
        self.over.clear();
        self.elsewhere.clear();
        self.ranges.clear();
        self.has_others = false;
    }

    /// Finds out what is inserted around each of `count` instructions: nothing is added from now on.
    pub(crate) fn find_places(&mut self, count: usize) {
        self.sort();
        self.ranges.resize(count, Ranges::default());
        for (end, &(number, point)) in (1..).zip(&self.places) {
            self.ranges[number as usize].ends[point as usize] = end;
        }
        let mut last = 0;
        for ranges in &mut self.ranges {
            ranges.start = last;
            for end in &mut ranges.ends {
                // Where nothing is inserted, nothing ended.
                last = last.max(*end);
                *end = last;
            }
        }
    }

    /// All actions.
    pub(crate) fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// The same; none, where all of them are to count.
    pub(crate) fn others(&self) -> &[Action] {
        match self.has_others {
            true => &self.actions,
            false => &[],
        }
    }

    /// Whether functions are called at more places than one.
    pub(crate) fn has_several_calls(&self) -> bool {
        self.others()
            .iter()
            .filter(|it| it.calls())
            .nth(1)
            .is_some()
    }

    /// Those around an instruction. [`Inserted::find_places`] must have been called.
    pub(crate) fn actions_around(&self, number: usize) -> &[Action] {
        let Ranges { start, ends } = self.ranges[number];
        &self.actions[start as usize..ends[2] as usize]
    }

    /// Puts all into the order of the places.
    fn sort(&mut self) {
        self.over.sort_by_key(|(number, _)| *number);
        if self.places.is_sorted() {
            return;
        }
        let places = std::mem::take(&mut self.places).into_iter();
        let mut all: Vec<_> = places.zip(self.actions.drain(..)).collect();
        all.sort_by_key(|(place, _)| *place);
        (self.places, self.actions) = all.into_iter().unzip();
    }

    /// What is inserted around an instruction. [`Inserted::find_places`] must have been called.
    #[inline]
    pub(crate) fn around(&self, number: usize) -> Insertions<'_> {
        let Ranges { start, ends } = self.ranges[number];
        let [before, after, _] = ends.map(|end| (end - start) as usize);
        let (here, taken) = self.actions_around(number).split_at(after);
        let (before, after) = here.split_at(before);
        Insertions {
            before,
            after,
            taken,
        }
    }

    /// The same; nothing, where all that is inserted anywhere is to count.
    #[inline]
    pub(crate) fn others_around(&self, number: usize) -> Insertions<'_> {
        match self.has_others {
            true => self.around(number),
            false => Insertions::default(),
        }
    }

    /// What is called when the system call is over that an instruction makes.
    pub(crate) fn over(&self, number: usize) -> &[(u32, CallWhenOver)] {
        let start = self.over.partition_point(|(at, _)| (*at as usize) < number);
        let length = self.over[start..]
            .iter()
            .take_while(|(at, _)| *at as usize == number);
        &self.over[start..][..length.count()]
    }

    /// The instruction is left out: there is nothing behind it.
    pub(crate) fn forget_behind(&mut self, number: usize) {
        let ends = &mut self.ranges[number].ends;
        *ends = [ends[0]; 3];
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Action, InsertionPoint, Replacement};
    use super::Inserted;

    fn action(target: u64) -> Action {
        Action::Replace(Replacement::Jump(target))
    }

    fn targets(actions: &[Action]) -> Vec<u64> {
        let target = |action: &Action| match action {
            Action::Replace(Replacement::Jump(target)) => *target,
            _ => unreachable!("nothing else is inserted here"),
        };
        actions.iter().map(target).collect()
    }

    #[test]
    fn each_place_has_what_was_inserted_there_in_that_order() {
        let order = [
            (2, InsertionPoint::Taken, 1),
            (0, InsertionPoint::Before, 2),
            (2, InsertionPoint::Before, 3),
            (0, InsertionPoint::After, 4),
            (2, InsertionPoint::Before, 5),
            (0, InsertionPoint::Before, 6),
        ];
        let mut inserted = Inserted::default();
        for (number, place, target) in order {
            inserted.push(number, place, action(target));
        }
        inserted.find_places(4);
        let found: Vec<_> = (0..4)
            .map(|number| inserted.around(number))
            .map(|at| [at.before, at.after, at.taken].map(targets))
            .collect();
        let nothing = [vec![], vec![], vec![]];
        let expected = [
            [vec![2, 6], vec![4], vec![]],
            nothing.clone(),
            [vec![3, 5], vec![], vec![1]],
            nothing,
        ];
        assert_eq!(found, expected);
    }
}
