//! Where counters are added to.
//!
//! Counting is commutative and nothing looks at a counter between two instructions, so what
//! the instructions of a path count is added at one place. That place may come before the
//! instructions themselves: if one of them faults, what was added too much is taken back (see
//! [`FragmentCounts`](crate::fragments::FragmentCounts)).

use smallvec::SmallVec;

use crate::counters::CounterPlace;
use crate::fragments::Due;
use crate::{Action, Amounts, Counter, Inserted, Insertions};
use unspool_engine::translate::superblock::{BranchDirection, Item};

/// What a fragment counts, and where it adds.
#[derive(Default)]
pub(super) struct Tally {
    /// What instructions count on the path that stays inside, in their order.
    pub(super) due: SmallVec<[Due; 1]>,
    /// Before which instruction is added, and what.
    pub(super) added: (u32, Amounts),
    /// What is added where the path that stays inside ends.
    pub(super) at_end: Amounts,
}

impl Tally {
    /// Decides where to add. `ends_in_transfer`: the last instruction itself
    /// decides where control goes.
    pub(super) fn new(items: &[Item], inserted: &Inserted, ends_in_transfer: bool) -> Tally {
        let counts = |action: &Action| matches!(action, Action::Count { .. });
        if !inserted.actions().iter().any(counts) {
            return Tally::default();
        }
        let mut tally = Tally::default();
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
        let all = tally.counted_before(u32::MAX);
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
            let Action::Count { counter, amount } = *action else {
                continue;
            };
            match self.due.last_mut() {
                Some(last)
                    if (last.counter, last.amount) == (counter, amount)
                        && last.first + last.length == number =>
                {
                    last.length += 1;
                }
                _ => self.due.push(Due {
                    first: number,
                    length: 1,
                    counter,
                    amount,
                }),
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

    /// What the instructions before one count.
    fn counted_before(&self, number: u32) -> Amounts {
        let mut amounts = Amounts::new();
        for due in self.due.iter().take_while(|due| due.first < number) {
            let (counter, amount) = due.before(number);
            accumulate(&mut amounts, counter, amount);
        }
        amounts
    }

    /// What to add where a conditional branch leaves the superblock.
    pub(super) fn aside(&self, number: usize, item: &Item, insertions: &Insertions) -> Amounts {
        let mut amounts = self.counted_before(number as u32);
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
        amounts.retain(|&mut (_, amount)| amount != 0);
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
pub(super) fn additions(amounts: &[(Counter, i64)]) -> SmallVec<[(i32, i64); 1]> {
    let slot = |(place, amount): (CounterPlace, i64)| (place.slot(), amount);
    crate::together(amounts).into_iter().map(slot).collect()
}
