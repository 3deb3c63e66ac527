//! Races with the names of what they are about.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use unspool_analyses::races::{Atomicity, Origin, Race, RacingThread, Site};
use unspool_analyses::{RaceCheck, RaceReport};
use unspool_binary::LeftOpen;
use unspool_events::{Problem, TraceHeader};
use unspool_report::Places;

use super::coverage::DescribedCoverage;
use super::described_race::{DescribedPart, DescribedRace, merged};
use super::heap_block::DescribedBlock;
use super::locks::{DescribedLocks, DescribedUse};
use super::mending::Mending;
use super::stacks::{Stack, Stacks};
use super::suppressions::Suppressions;
use super::system_call_names::system_call_name;
use crate::failure::Failure;

/// The version of the JSON form.
const SCHEMA_VERSION: u32 = 5;

/// What was found, with names.
#[derive(Debug)]
pub(super) struct Described {
    /// The races that are told.
    pub(super) races: Vec<DescribedRace>,
    /// Those that are none if plain moves are atomic of which nothing is known, or if a string had
    /// ended before what was read.
    pub(super) possible: Vec<DescribedRace>,
    /// Those that missing records may explain.
    pub(super) uncertain: Vec<DescribedRace>,
    /// Those that another order of the same events shows.
    pub(super) predicted: Vec<DescribedRace>,
    /// Places at which threads took the same lock one behind the other.
    pub(super) coverage: DescribedCoverage,
    /// What was found about locks.
    pub(super) locks: DescribedLocks,
    /// Whether debugging information of a version that cannot say what is atomic is why a race is only
    /// possible.
    pub(super) cannot_tell_atomics: bool,
    /// How many were left out for each reason, which is a line of the suppressions.
    pub(super) suppressed: Vec<(String, usize)>,
    /// What was found, without names.
    pub(super) report: RaceReport,
    /// Where threads were created, by their numbers.
    pub(super) creations: BTreeMap<u32, Stack>,
    /// Whether all records could be read.
    pub(super) is_whole: bool,
}

impl Described {
    pub(super) fn new(
        check: &RaceCheck,
        problems: &[Problem],
        header: &TraceHeader,
        suppressions: &Suppressions,
        is_whole: bool,
    ) -> Described {
        let mut places = Places::new(check.modules().iter().cloned(), header.start_unix_ns);
        let report = check.report(problems, |sites, address| {
            atomicity(&mut places, sites, address)
        });
        let mut described = Described {
            races: Vec::new(),
            possible: Vec::new(),
            uncertain: Vec::new(),
            predicted: Vec::new(),
            coverage: DescribedCoverage::default(),
            locks: DescribedLocks::default(),
            cannot_tell_atomics: false,
            suppressed: Vec::new(),
            is_whole,
            report: RaceReport::default(),
            creations: BTreeMap::new(),
        };
        let mut stacks = Stacks::new(check, &mut places);
        let mut left_out = BTreeMap::new();
        let mut wanted = |races: &[Race]| {
            let races = races
                .iter()
                .map(|race| DescribedRace::new(race, &mut stacks));
            let wanted = races.filter(|race| match suppressions.reason(race) {
                None => true,
                Some(reason) => {
                    *left_out.entry(reason.to_owned()).or_default() += 1;
                    false
                }
            });
            wanted.collect::<Vec<_>>()
        };
        let mut races = wanted(&report.races);
        let mut possible = wanted(&report.possible);
        described.uncertain = merged(wanted(&report.uncertain));
        let mut predicted = wanted(&report.predicted);
        predicted.retain(|race| !race.may_be_beyond_a_string());
        described.predicted = merged(predicted);
        possible.extend(races.extract_if(.., |race| race.may_be_beyond_a_string()));
        described.races = merged(races);
        described.possible = merged(possible);
        let created = report.threads.iter().filter(|it| it.parent.is_some());
        described.creations = created
            .map(|it| (it.thread, stacks.stack(None, it.created)))
            .collect();
        let locks = check.locks(problems);
        described.coverage = DescribedCoverage::new(&locks, &mut stacks);
        described.locks = DescribedLocks::new(locks, &mut stacks);
        described.suppressed = left_out.into_iter().collect();
        described.cannot_tell_atomics = report.possible.iter().any(|race| {
            let sides = [race.first.pc, race.second.pc].into_iter().flatten();
            let left_open = sides.map(|pc| places.left_open_by(pc));
            left_open.flatten().any(|it| it == LeftOpen::Everything)
        });
        described.report = report;
        described
    }

    /// A thread of the run.
    pub(super) fn thread(&self, number: u32) -> Option<&RacingThread> {
        let mut threads = self.report.threads.iter();
        threads.find(|thread| thread.thread == number)
    }

    pub(super) fn as_json(&self) -> Result<String, Failure> {
        let all = |races: &[DescribedRace]| races.iter().map(as_json).collect::<Vec<Value>>();
        let suppressed = self.suppressed.iter();
        let suppressed = suppressed.map(|(line, races)| json!({"line": line, "races": races}));
        let threads = self.report.threads.iter().map(|thread| {
            let mut value = serde_json::to_value(thread)?;
            let creation = self.creations.get(&thread.thread);
            value["creation_stack"] = creation.map_or(Value::Null, Stack::as_json);
            Ok(value)
        });
        let threads = threads.collect::<Result<Vec<Value>, serde_json::Error>>()?;
        let value = json!({
            "schema": "unspool-races",
            "version": SCHEMA_VERSION,
            "races": all(&self.races),
            "possible": all(&self.possible),
            "uncertain": all(&self.uncertain),
            "predicted": all(&self.predicted),
            "not_predicted": self.report.unpredicted,
            "deadlocks": self.locks.deadlocks_as_json(),
            "misuse": self.locks.misuse_as_json(),
            "lock_orders": self.coverage.as_json(),
            "lock_orders_beyond": self.coverage.beyond,
            "locks_looked_at": self.locks.were_looked_at(),
            "heap_looked_at": self.report.saw_heap,
            "blocks_forgotten": self.report.blocks_forgotten,
            "suppressed": suppressed.collect::<Vec<Value>>(),
            "threads": threads,
            "accesses_checked": self.report.accesses_checked,
            "occurrences_beyond": self.report.beyond,
            "calls_missing": self.report.calls_missing,
            "forgotten": self.report.forgotten,
            "begun_anew": self.report.begun_anew,
            "trace_is_whole": self.is_whole,
        });
        Ok(serde_json::to_string_pretty(&value)? + "\n")
    }
}

fn as_json(race: &DescribedRace) -> Value {
    let access = |number: usize| {
        let (access, stack) = race.sides()[number];
        let held = &race.locks[number];
        let held = held
            .as_ref()
            .map(|held| held.iter().map(DescribedUse::as_json));
        let place = stack.headline().map(|frame| &frame.place);
        json!({
            "thread": access.thread,
            "writes": access.writes,
            "size": access.size,
            "pc": access.pc,
            "system_call": access.system_call.map(system_call_name),
            "module": place.and_then(|place| place.module.clone()),
            "function": place.and_then(|place| place.function.clone()),
            "line": place.and_then(|place| place.line.clone()),
            "stack": stack.as_json(),
            "locks_held": held.map(Iterator::collect::<Vec<Value>>),
            "part": race.parts[number].as_ref().map(DescribedPart::as_json),
        })
    };
    let mended_by = race.mended_by();
    json!({
        "first": access(0),
        "second": access(1),
        "address": race.race.address,
        "bytes": race.race.bytes,
        "object": race.data,
        "block": race.block.as_ref().map(DescribedBlock::as_json),
        "mended_by": mended_by.iter().map(Mending::as_json).collect::<Vec<_>>(),
        "occurrences": race.race.occurrences,
        "time": race.race.time,
    })
}

/// What the source says, as far as it is known, of two accesses to an address.
fn atomicity(places: &mut Places, sites: [Site; 2], address: u64) -> Atomicity {
    let data = places.data(address);
    let (mut is_atomic, mut is_plain) = (data.is_atomic, false);
    for site in sites {
        let Origin::Instruction(pc) = site.origin else {
            continue;
        };
        let code = places.code(pc);
        is_atomic |= code.is_atomic;
        // What is known of one of them is enough.
        if !is_plain && code.line.is_some() {
            let left_open = places.left_open_by(pc);
            let (size, is_variable) = (site.size.into(), data.variable.is_some());
            is_plain = !left_open.is_some_and(|it| it.allows(size, is_variable));
        }
    }
    match (is_atomic, is_plain) {
        (true, _) => Atomicity::Atomic,
        (false, true) => Atomicity::Plain,
        (false, false) => Atomicity::Unknown,
    }
}
