//! Races with the names of what they are about.

use serde_json::{Value, json};
use unspool_analyses::races::{Origin, Race, RacingAccess, RacingThread};
use unspool_analyses::{RaceCheck, RaceReport};
use unspool_events::{Problem, TraceHeader};
use unspool_report::{CodePlace, DataPlace, Places};

use super::suppressions::Suppressions;
use super::system_call_names::system_call_name;
use crate::failure::Failure;

/// The version of the JSON form.
const SCHEMA_VERSION: u32 = 1;

/// What was found, with names.
#[derive(Debug)]
pub(super) struct Described {
    /// The races that are told.
    pub(super) races: Vec<DescribedRace>,
    /// Those that are none if their accesses are atomic, of which nothing is known.
    pub(super) possible: Vec<DescribedRace>,
    /// Those that missing records may explain.
    pub(super) uncertain: Vec<DescribedRace>,
    /// How many were left out for each reason, which is a line of the suppressions.
    pub(super) suppressed: Vec<(String, usize)>,
    /// What was found, without names.
    pub(super) report: RaceReport,
    /// Whether all records could be read.
    pub(super) is_whole: bool,
}

/// A race with names.
#[derive(Debug)]
pub(super) struct DescribedRace {
    pub(super) race: Race,
    /// Where the first access is made, and the second.
    pub(super) places: [CodePlace; 2],
    pub(super) data: DataPlace,
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
        let report = check.report(problems, |origins, address| {
            let is_atomic = |origin| match origin {
                Origin::Instruction(pc) => places.code(pc).is_atomic,
                Origin::SystemCall(_) => false,
            };
            origins.into_iter().any(is_atomic) || places.data(address).is_atomic
        });
        let mut described = Described {
            races: Vec::new(),
            possible: Vec::new(),
            uncertain: Vec::new(),
            suppressed: Vec::new(),
            is_whole,
            report: RaceReport::default(),
        };
        for race in &report.races {
            let race = DescribedRace::new(race, &mut places);
            match suppressions.reason(&race) {
                None if race.is_certain() => described.races.push(race),
                None => described.possible.push(race),
                Some(reason) => described.count_suppressed(reason),
            }
        }
        for race in &report.uncertain {
            let race = DescribedRace::new(race, &mut places);
            if suppressions.reason(&race).is_none() {
                described.uncertain.push(race);
            }
        }
        described.report = report;
        described
    }

    fn count_suppressed(&mut self, reason: &str) {
        match self
            .suppressed
            .iter_mut()
            .find(|(known, _)| known == reason)
        {
            Some((_, count)) => *count += 1,
            None => self.suppressed.push((reason.to_owned(), 1)),
        }
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
        let value = json!({
            "schema": "unspool-races",
            "version": SCHEMA_VERSION,
            "races": all(&self.races),
            "possible": all(&self.possible),
            "uncertain": all(&self.uncertain),
            "suppressed": suppressed.collect::<Vec<Value>>(),
            "threads": serde_json::to_value(&self.report.threads)?,
            "accesses_checked": self.report.accesses_checked,
            "occurrences_beyond": self.report.beyond,
            "forgotten": self.report.forgotten,
            "trace_is_whole": self.is_whole,
        });
        Ok(serde_json::to_string_pretty(&value)? + "\n")
    }
}

fn as_json(race: &DescribedRace) -> Value {
    let access = |access: &RacingAccess, place: &CodePlace| {
        json!({
            "thread": access.thread,
            "writes": access.writes,
            "size": access.size,
            "pc": access.pc,
            "system_call": access.system_call.map(system_call_name),
            "module": place.module,
            "function": place.function,
            "line": place.line,
        })
    };
    json!({
        "first": access(&race.race.first, &race.places[0]),
        "second": access(&race.race.second, &race.places[1]),
        "address": race.race.address,
        "bytes": race.race.bytes,
        "object": race.data,
        "occurrences": race.race.occurrences,
        "time": race.race.time,
    })
}

impl DescribedRace {
    /// Whether the accesses cannot be atomic ones that were compiled to plain moves. The source says
    /// so, or one of them is none that a compiler would have made of an atomic: it is wider than
    /// eight bytes, not aligned, or made by the kernel.
    fn is_certain(&self) -> bool {
        let is_known = self.places.iter().any(|place| place.line.is_some());
        let accesses = [&self.race.first, &self.race.second];
        is_known
            || accesses.into_iter().any(|access| {
                let size = u64::from(access.size);
                access.pc.is_none()
                    || !size.is_power_of_two()
                    || size > 8
                    || self.race.address % size + u64::from(self.race.bytes) > size
            })
    }

    fn new(race: &Race, places: &mut Places) -> DescribedRace {
        let mut place = |access: &RacingAccess| match access.pc {
            Some(pc) => places.code(pc),
            None => CodePlace::default(),
        };
        DescribedRace {
            places: [place(&race.first), place(&race.second)],
            data: places.data(race.address),
            race: race.clone(),
        }
    }
}
