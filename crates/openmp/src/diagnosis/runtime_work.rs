//! Where the runtime itself works instead of the program: handing out iterations one by one,
//! creating tasks that are shorter than that takes.

#[cfg(test)]
mod tests;

use unspool_openmp_record::ConstructKind;

use super::imbalance::{Duration, Pieces};
use super::regions::Regions;
use super::{Finding, seconds};
use crate::recording::{Construct, Process, Share};

/// What is to be handed out should take so many times longer than handing it out.
const WORTH_HANDING_OUT: f64 = 10.0;

/// The loops and the kinds of tasks at which the runtime works, each place once.
pub(super) fn findings(process: &Process, regions: &Regions) -> Vec<Finding> {
    let mut places: Vec<Place> = Vec::new();
    for (index, one) in process.constructs.iter().enumerate() {
        if !matches!(one.kind, ConstructKind::Loop | ConstructKind::TaskCreation) {
            continue;
        }
        let Some(region) = regions.around(index) else {
            continue;
        };
        let team = process.constructs[region].team.max(1);
        let is_it = |place: &&mut Place| {
            place.one.kind == one.kind && place.one.location == one.location && place.team == team
        };
        match places.iter_mut().find(is_it) {
            Some(place) => place.add(one),
            None => {
                let mut place = Place::new(one, team);
                place.add(one);
                places.push(place);
            }
        }
    }
    let finding = |place: &Place| match place.one.kind {
        ConstructKind::Loop => of_loop(place),
        _ => {
            let created = |task: &&Construct| {
                task.kind == ConstructKind::Task && task.location == place.one.location
            };
            of_tasks(place, process.constructs.iter().filter(created))
        }
    };
    places.iter().filter_map(finding).collect()
}

/// What the runtime handed out at a place of the source, in all contexts, to all threads.
#[derive(Debug)]
struct Place<'process> {
    /// One of the constructs there.
    one: &'process Construct,
    team: u64,
    /// Pieces of a loop, or tasks.
    count: u64,
    took_ns: u64,
    /// How long the program worked there itself.
    own_ns: u64,
    passages: u64,
    /// Of all passages; 0 where they are not known.
    iterations: u64,
}

impl Place<'_> {
    fn new(one: &Construct, team: u64) -> Place<'_> {
        Place {
            one,
            team,
            count: 0,
            took_ns: 0,
            own_ns: 0,
            passages: 0,
            iterations: 0,
        }
    }

    fn add(&mut self, one: &Construct) {
        for share in &one.shares {
            self.count = self.count.saturating_add(share.runtime_calls);
            self.took_ns = self.took_ns.saturating_add(share.runtime_ns);
            self.own_ns = self.own_ns.saturating_add(share.own_ns);
        }
        // Every thread counts all passages and all iterations of each.
        let most = |what: fn(&Share) -> u64| one.shares.iter().map(what).max().unwrap_or(0);
        self.passages = self.passages.saturating_add(most(|share| share.count));
        self.iterations = self
            .iterations
            .saturating_add(most(|share| share.iterations));
    }

    /// How long handing out one took, in seconds.
    fn each(&self) -> f64 {
        seconds(self.took_ns) / self.count.max(1) as f64
    }
}

fn of_loop(place: &Place) -> Option<Finding> {
    let team = place.team as f64;
    let took = seconds(place.took_ns);
    if place.count == 0 || place.took_ns == 0 {
        return None;
    }
    let said = format!(
        "handing out the loop at {} takes {took:.3} s of all threads' time",
        place.one.location.short()
    );
    let piece = Duration(place.each());
    if place.iterations == 0 || team < 2.0 {
        let saved = took / team;
        let sentence = format!(
            "{said}: {} pieces, {piece} each; larger pieces may save up to {saved:.3} s",
            place.count
        );
        return Some((saved, sentence));
    }
    let all = place.iterations as f64;
    let passages = place.passages.max(1) as f64;
    let better = Pieces {
        iterations: all / passages,
        each: seconds(place.own_ns) / all,
        fetch: place.each(),
        team,
    };
    let now = all / place.count as f64;
    let chunk = better.best_chunk();
    let saved = took / team - better.lost(chunk) * passages;
    // Where pieces are as large as they should be, the runtime has nothing else to hand out.
    if chunk < 2.0 * now || saved < 0.1 * took / team {
        return None;
    }
    let sentence = format!(
        "{said}: {} pieces of about {now:.0} of {all:.0} iterations; an iteration takes {}, fetching a \
         piece {piece}; schedule(dynamic,{chunk}) may save about {saved:.3} s, and schedule(static) \
         no less if all iterations take equally long; a piece is worth fetching from about {} on",
        place.count,
        Duration(better.each),
        Duration(WORTH_HANDING_OUT * place.each()),
    );
    Some((saved, sentence))
}

fn of_tasks<'process>(
    place: &Place,
    tasks: impl Iterator<Item = &'process Construct>,
) -> Option<Finding> {
    let shares = tasks.flat_map(|task| &task.shares);
    let (count, own_ns) = shares.fold((0_u64, 0_u64), |(count, own_ns), share| {
        (
            count.saturating_add(share.count),
            own_ns.saturating_add(share.own_ns),
        )
    });
    let each = seconds(own_ns) / count.max(1) as f64;
    if place.took_ns == 0 || each > WORTH_HANDING_OUT * place.each() {
        return None;
    }
    let took = seconds(place.took_ns);
    let saved = took / place.team as f64;
    let sentence = format!(
        "creating the {} tasks at {} takes {took:.3} s of all threads' time, {} each, and a task works \
         for {}: a task is worth creating from about {} on; fewer, larger ones (a cut-off by if or \
         final, or a taskloop with a grainsize) may save up to {saved:.3} s",
        place.count,
        place.one.location.short(),
        Duration(place.each()),
        Duration(each),
        Duration(WORTH_HANDING_OUT * place.each()),
    );
    Some((saved, sentence))
}
