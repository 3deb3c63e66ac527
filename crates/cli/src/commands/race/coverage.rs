//! In which orders threads took locks one behind the other, with names.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use unspool_analyses::LockReport;
use unspool_analyses::locks::LockUse;

use super::locks::DescribedUse;
use super::stacks::Stacks;

/// Pairs of places at which different threads took the same lock directly one behind the other.
#[derive(Debug, Default)]
pub(super) struct DescribedCoverage {
    /// Those seen in one order only first, and of these the most frequent ones.
    pairs: Vec<PairOfPlaces>,
    /// How often such places were left out.
    pub(super) beyond: u64,
    saw_functions: bool,
}

/// Two places, and how often each came before the other.
#[derive(Debug)]
struct PairOfPlaces {
    first: DescribedUse,
    second: DescribedUse,
    first_before_second: u64,
    second_before_first: u64,
}

/// What tells a place from others: the instruction in the frame to look at, and the lock.
type Place = (Option<u64>, String);

impl DescribedCoverage {
    pub(super) fn new(report: &LockReport, stacks: &mut Stacks<'_>) -> DescribedCoverage {
        let mut pairs: BTreeMap<(Place, Place), PairOfPlaces> = BTreeMap::new();
        for succession in &report.successions {
            let mut described = |taken: LockUse| DescribedUse::new(taken, stacks);
            let (first, second) = (described(succession.first), described(succession.second));
            let (one, other) = (place(&first), place(&second));
            // What comes behind itself has no other order.
            if one == other {
                continue;
            }
            if let Some(known) = pairs.get_mut(&(other.clone(), one.clone())) {
                known.second_before_first += succession.times;
                continue;
            }
            let known = pairs.entry((one, other)).or_insert(PairOfPlaces {
                first,
                second,
                first_before_second: 0,
                second_before_first: 0,
            });
            known.first_before_second += succession.times;
        }
        let mut pairs: Vec<PairOfPlaces> = pairs.into_values().collect();
        pairs.sort_by_key(|it| (it.is_covered(), std::cmp::Reverse(it.first_before_second)));
        DescribedCoverage {
            pairs,
            beyond: report.successions_beyond,
            saw_functions: report.saw_functions,
        }
    }

    /// For people.
    pub(super) fn text(&self, show: usize) -> String {
        if !self.saw_functions {
            return "\norders of locks are not known: no function that locks was found by its name, or \
                    the trace was recorded without them (--record with --coverage)\n"
                .to_owned();
        }
        let once: Vec<_> = self.pairs.iter().filter(|it| !it.is_covered()).collect();
        let mut text = format!(
            "\npairs of places that took a lock one behind the other in different threads: {}, of which \
             in one order only: {}\n",
            self.pairs.len(),
            once.len()
        );
        for pair in once.iter().take(show) {
            text += &pair.text();
        }
        if once.len() > show {
            text += &format!("\nand {} more (--show)\n", once.len() - show);
        }
        if self.beyond > 0 {
            text += &format!("{} times such places were left out\n", self.beyond);
        }
        text
    }

    pub(super) fn as_json(&self) -> Vec<Value> {
        self.pairs.iter().map(PairOfPlaces::as_json).collect()
    }
}

impl PairOfPlaces {
    /// Whether both orders were seen.
    fn is_covered(&self) -> bool {
        self.second_before_first > 0
    }

    fn text(&self) -> String {
        let place = |taken: &DescribedUse| {
            let frame = taken.stack.headline();
            let shared = if taken.is_shared { " (to read)" } else { "" };
            frame.map_or("?".to_owned(), |frame| frame.text()) + shared
        };
        let times = match self.first_before_second {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        format!(
            "\n- {}: {times}, and never the other way round\n     first in {}\n     then in {}\n",
            self.first.name(),
            place(&self.first),
            place(&self.second)
        )
    }

    fn as_json(&self) -> Value {
        json!({
            "first": self.first.as_json(),
            "second": self.second.as_json(),
            "first_before_second": self.first_before_second,
            "second_before_first": self.second_before_first,
        })
    }
}

fn place(taken: &DescribedUse) -> Place {
    let pc = taken.stack.headline().map(|frame| frame.pc);
    (pc, taken.name().to_owned())
}
