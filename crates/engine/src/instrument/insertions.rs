//! What a tool has inserted into a superblock.
//!
//! Most tools insert a little at each instruction, so all of it lies in one list, in the order
//! of the places, and not in a list for each place.

use super::{Action, CallWhenOver, InsertionPoint};

/// All that is inserted into a superblock.
#[derive(Debug, Default)]
pub(crate) struct Inserted {
    actions: Vec<Action>,
    /// The instruction's number and the place of each.
    places: Vec<(u32, InsertionPoint)>,
    /// What is called when the system calls are over that instructions make.
    over: Vec<(u32, CallWhenOver)>,
}

/// What is inserted around one instruction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Insertions<'a> {
    pub(crate) before: &'a [Action],
    pub(crate) after: &'a [Action],
    pub(crate) taken: &'a [Action],
    /// When the system call that it makes is over.
    pub(crate) over: &'a [(u32, CallWhenOver)],
}

impl Insertions<'_> {
    /// How many actions there are.
    pub(crate) fn count(&self) -> usize {
        self.before.len() + self.after.len() + self.taken.len()
    }
}

impl Inserted {
    /// Adds an action, behind those that are at its place already.
    pub(super) fn push(&mut self, number: usize, place: InsertionPoint, action: Action) {
        self.places.push((number as u32, place));
        self.actions.push(action);
    }

    /// Adds a call, behind those that are made already when the instruction's system call is over.
    pub(super) fn push_over(&mut self, number: usize, call: CallWhenOver) {
        self.over.push((number as u32, call));
    }

    /// Makes it as new, except for the room that its parts have.
    pub(super) fn clear(&mut self) {
        self.actions.clear();
        self.places.clear();
        self.over.clear();
    }

    /// Puts all into the order of the places.
    pub(crate) fn sort(&mut self) {
        self.over.sort_by_key(|(number, _)| *number);
        if self.places.is_sorted() {
            return;
        }
        let places = std::mem::take(&mut self.places).into_iter();
        let mut all: Vec<_> = places.zip(self.actions.drain(..)).collect();
        all.sort_by_key(|(place, _)| *place);
        (self.places, self.actions) = all.into_iter().unzip();
    }

    /// What is inserted around each of `count` instructions. [`Inserted::sort`] must have been
    /// called.
    pub(crate) fn by_instruction(&self, count: usize) -> Vec<Insertions<'_>> {
        let mut all = vec![Insertions::default(); count];
        let mut actions = self.actions.as_slice();
        for alike in self.places.chunk_by(PartialEq::eq) {
            let (number, place) = alike[0];
            let (here, rest) = actions.split_at(alike.len());
            actions = rest;
            let insertions = &mut all[number as usize];
            match place {
                InsertionPoint::Before => insertions.before = here,
                InsertionPoint::After => insertions.after = here,
                InsertionPoint::Taken => insertions.taken = here,
            }
        }
        for alike in self.over.chunk_by(|left, right| left.0 == right.0) {
            all[alike[0].0 as usize].over = alike;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Action, InsertionPoint, Replacement};
    use super::{Inserted, Insertions};

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
        inserted.sort();
        let found = inserted.by_instruction(4);
        let found: Vec<_> = found
            .iter()
            .map(|at: &Insertions| [at.before, at.after, at.taken].map(targets))
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
