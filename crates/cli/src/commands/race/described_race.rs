//! A race with the names of what it is about.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use unspool_analyses::races::{PartKind, Race, RacingAccess};
use unspool_report::DataPlace;

use super::heap_block::{DescribedBlock, DescribedStep};
use super::locks::DescribedUse;
use super::stacks::{Stack, Stacks};
use super::string_functions::may_read_beyond;

/// A race with names.
#[derive(Debug, Clone)]
pub(super) struct DescribedRace {
    pub(super) race: Race,
    /// Of the first access, and of the second.
    pub(super) stacks: [Stack; 2],
    pub(super) data: DataPlace,
    /// The block of the heap, if it is one that is known.
    pub(super) block: Option<DescribedBlock>,
    /// What of an OpenMP program each access belongs to.
    pub(super) parts: [Option<DescribedPart>; 2],
    /// The locks that the thread of each access held, if that is known.
    pub(super) locks: [Option<Vec<DescribedUse>>; 2],
}

/// What of an OpenMP program runs by itself.
#[derive(Debug, Clone)]
pub(super) struct DescribedPart {
    pub(super) kind: PartKind,
    /// Who has made it, and where.
    pub(super) made: DescribedStep,
}

impl DescribedPart {
    /// In few words.
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            PartKind::Region => "a parallel region",
            PartKind::Task => "a task",
            PartKind::Section => "a section",
        }
    }

    pub(super) fn as_json(&self) -> Value {
        json!({ "kind": self.kind, "made": self.made.as_json() })
    }
}

/// What makes two races the same: the instruction in the frame to look at, whether it writes, and the
/// system call, of each access.
type Sides = [(Option<u64>, bool, Option<u32>); 2];

impl DescribedRace {
    pub(super) fn new(race: &Race, stacks: &mut Stacks) -> DescribedRace {
        let mut stack = |access: &RacingAccess| stacks.stack(access.pc, access.context);
        let both = [stack(&race.first), stack(&race.second)];
        let block = race.block;
        let parts = race.parts.map(|part| {
            part.map(|part| DescribedPart {
                kind: part.kind,
                made: DescribedStep {
                    thread: part.made_by,
                    stack: stacks.of_request(part.made_at),
                },
            })
        });
        let locks = race.locks.each_ref().map(|held| {
            let held = held.as_ref()?.iter();
            Some(held.map(|lock| DescribedUse::new(*lock, stacks)).collect())
        });
        DescribedRace {
            stacks: both,
            data: stacks.places().data(race.address),
            parts,
            block: block.map(|block| DescribedBlock::new(block, race.address, stacks)),
            locks,
            race: race.clone(),
        }
    }

    /// Both accesses with their stacks.
    pub(super) fn sides(&self) -> [(&RacingAccess, &Stack); 2] {
        let [first, second] = &self.stacks;
        [(&self.race.first, first), (&self.race.second, second)]
    }

    /// Whether what one of them reads may lie behind the end of a string.
    pub(super) fn may_be_beyond_a_string(&self) -> bool {
        self.sides().into_iter().any(|(access, stack)| {
            let innermost = stack.frames.first();
            !access.writes
                && access.pc.is_some()
                && innermost.is_some_and(|frame| may_read_beyond(&frame.place, access.size))
        })
    }

    fn key(&self) -> Sides {
        let mut sides = self.sides().map(|(access, stack)| {
            let pc = stack.headline().map(|frame| frame.pc);
            (pc, access.writes, access.system_call)
        });
        sides.sort();
        sides
    }
}

/// Makes one of races that differ in nothing that is in their frames to look at: the first of them,
/// with the occurrences of all. Those of most occurrences come first.
pub(super) fn merged(races: Vec<DescribedRace>) -> Vec<DescribedRace> {
    let mut numbers: BTreeMap<Sides, usize> = BTreeMap::new();
    let mut all: Vec<DescribedRace> = Vec::new();
    for mut race in races {
        match numbers.get(&race.key()) {
            None => {
                numbers.insert(race.key(), all.len());
                all.push(race);
            }
            Some(&number) => {
                let same = &mut all[number];
                let occurrences = same.race.occurrences + race.race.occurrences;
                if race.race.time < same.race.time {
                    std::mem::swap(same, &mut race);
                }
                same.race.occurrences = occurrences;
            }
        }
    }
    all.sort_by_key(|race| (std::cmp::Reverse(race.race.occurrences), race.race.time));
    all
}
