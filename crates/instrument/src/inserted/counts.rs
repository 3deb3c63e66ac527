//! Where counters are added to.
//!
//! Counting is commutative and nothing looks at a counter between two instructions, so what
//! the instructions of a path count is added at one place. That place may come before the
//! instructions themselves: if one of them faults, what was added too much is taken back (see
//! [`FragmentCounts`](crate::fragments::FragmentCounts)).

use crate::{Action, Amounts, Counter, Inserted, Insertions};
use unspool_engine::translate::superblock::{BranchDirection, Item};

/// What a fragment counts, and where it adds.
#[derive(Default)]
pub(super) struct Tally {
    /// What instructions count on the path that stays inside: their numbers, in order.
    pub(super) due: Vec<(u32, Counter, i64)>,
    /// Before which instruction is added, and what.
    pub(super) added: (u32, Amounts),
    /// What is added where the path that stays inside ends.
    pub(super) at_end: Amounts,
    /// What instructions count that are behind the place that was asked for last, and how many
    /// of `due` are in it.
    passed: (Amounts, usize),
}

impl Tally {
    /// Decides where to add. `ends_in_transfer`: the last instruction itself
    /// decides where control goes.
    pub(super) fn new(items: &[Item], inserted: &Inserted, ends_in_transfer: bool) -> Tally {
        let counts = |action: &&Action| matches!(action, Action::Count { .. });
        let count = inserted.actions().iter().filter(counts).count();
        if count == 0 {
            return Tally::default();
        }
        let mut tally = Tally {
            due: Vec::with_capacity(count),
            ..Tally::default()
        };
        let mut first_choice = 0;
        for (number, item) in (0_u32..).zip(items) {
            let insertions = inserted.around(number as usize);
            tally.count(number, insertions.before);
            tally.count(number, insertions.inside(inside_is_taken(item)));
            if item.side_exit().is_some() {
                first_choice = number as usize + 1;
            }
        }
        if tally.due.is_empty() {
            return tally;
        }
        let mut all = Vec::new();
        for &(_, counter, amount) in &tally.due {
            accumulate(&mut all, counter, amount);
        }
        let choices = items.iter().enumerate().skip(first_choice).rev();
        let place = choices
            .filter(|(_, item)| !item.flags_live)
            .map(|(number, _)| number)
            .next();
        match place {
            None if !ends_in_transfer => tally.at_end = all,
            place => tally.added = (place.unwrap_or(items.len() - 1) as u32, all),
        }
        tally
    }

    fn count(&mut self, number: u32, actions: &[Action]) {
        for action in actions {
            if let Action::Count { counter, amount } = *action {
                self.due.push((number, counter, i64::from(amount)));
            }
        }
    }

    /// What to add before an instruction.
    pub(super) fn before(&self, number: usize) -> &[(Counter, i64)] {
        match &self.added {
            (at, amounts) if *at as usize == number => amounts,
            _ => &[],
        }
    }

    /// What to add where a conditional branch leaves the superblock. To be asked of one branch
    /// after the other.
    pub(super) fn aside(&mut self, number: usize, item: &Item, insertions: &Insertions) -> Amounts {
        let (passed, count) = &mut self.passed;
        let before = |due: &&(u32, Counter, i64)| (due.0 as usize) < number;
        for &(_, counter, amount) in self.due[*count..].iter().take_while(before) {
            accumulate(passed, counter, amount);
            *count += 1;
        }
        let mut amounts = passed.clone();
        let outside = insertions.inside(!inside_is_taken(item));
        for action in insertions.before.iter().chain(outside) {
            if let Action::Count { counter, amount } = *action {
                accumulate(&mut amounts, counter, i64::from(amount));
            }
        }
        if self.added.0 as usize <= number {
            for &(counter, amount) in &self.added.1 {
                accumulate(&mut amounts, counter, -amount);
            }
        }
        amounts.retain(|&(_, amount)| amount != 0);
        amounts
    }
}

/// Whether the path that stays in the superblock goes on at the instruction's target, or
/// leaves it there for good.
pub(super) fn inside_is_taken(item: &Item) -> bool {
    item.direction == BranchDirection::Target
        || item.side_exit().is_none()
            && !item.left_out
            && !unspool_engine::translate::superblock::runs_on(item.layout.kind)
}

fn accumulate(amounts: &mut Amounts, counter: Counter, amount: i64) {
    match amounts.iter_mut().find(|(known, _)| *known == counter) {
        Some((_, sum)) => *sum += amount,
        None => amounts.push((counter, amount)),
    }
}

/// The additions of some amounts, by slot.
pub(super) fn additions(amounts: &[(Counter, i64)]) -> Vec<(i32, i64)> {
    let slot = |(counter, amount): (Counter, i64)| (counter.place().slot(), amount);
    let amounts = crate::together(amounts);
    amounts.into_iter().map(slot).collect()
}
