//! Regions within regions. What is saved in one helps only as far as its thread is the one that others
//! wait for in the region around it.

use rustc_hash::FxHashMap;
use unspool_openmp_record::ConstructKind;

use super::{Regions, seconds};
use crate::diagnosis::Finding;
use crate::location::Location;
use crate::recording::{Construct, Process, Share};

/// Bounds what can be saved in regions within regions.
pub(super) fn bound(process: &Process, regions: &mut Regions) {
    // Those around others stand before them.
    for (index, one) in process.constructs.iter().enumerate() {
        let Some((thread, outer)) = forked(process, regions, one) else {
            continue;
        };
        let alone = regions.saves_at_most[index];
        // The others may have a region at the same place, in which as much is saved by the same change.
        let mut without: FxHashMap<usize, f64> = FxHashMap::default();
        for (same, there) in within(process, regions, outer) {
            if let Some(other) = there.forked_by.filter(|_| there.location == one.location) {
                *without.entry(other).or_default() += regions.alone(process, same);
            }
        }
        let shares = || process.constructs[outer].shares.iter();
        let Some(own) = shares().find(|share| share.thread == thread) else {
            continue;
        };
        let others = shares().filter(|share| share.thread != thread);
        let saved = |share: &Share| without.get(&share.thread).copied().unwrap_or(0.0);
        let next = others.map(|share| seconds(share.total_ns) - saved(share));
        let next = next.max_by(f64::total_cmp).unwrap_or(0.0);
        let ahead = (seconds(own.total_ns) - next).max(0.0);
        // What ends the outer one earlier may not end the one around that.
        regions.saves_at_most[index] = alone.min(ahead);
    }
}

/// The thread that forks a region within a region, and the region around it.
fn forked(process: &Process, regions: &Regions, one: &Construct) -> Option<(usize, usize)> {
    let outer = regions.innermost[one.parent?]?;
    let is_shared = process.constructs[outer].team > 1;
    one.forked_by
        .filter(|_| is_shared)
        .map(|thread| (thread, outer))
}

/// The regions that threads of a region fork.
fn within<'a>(
    process: &'a Process,
    regions: &'a Regions,
    outer: usize,
) -> impl Iterator<Item = (usize, &'a Construct)> {
    let all = process.constructs.iter().enumerate();
    all.filter(move |(_, one)| {
        one.forked_by.is_some()
            && one.parent.and_then(|parent| regions.innermost[parent]) == Some(outer)
    })
}

/// A region in which threads wait for others because the regions that those fork take longer.
pub(in crate::diagnosis) fn uneven(
    process: &Process,
    regions: &Regions,
    outer: usize,
) -> Option<Finding> {
    let region = &process.constructs[outer];
    if region.kind != ConstructKind::Parallel || region.team < 2 {
        return None;
    }
    let mut took: Vec<(usize, u64)> = Vec::new();
    for (_, one) in within(process, regions, outer) {
        let forking = |share: &Share| {
            let parts = [
                share.startup_ns,
                share.total_ns,
                share.wait_ns,
                share.processor_wait_ns,
            ];
            parts.into_iter().fold(0, u64::saturating_add)
        };
        let forked = one.shares.iter().filter(|share| share.forked).map(forking);
        let (Some(thread), sum) = (one.forked_by, forked.fold(0, u64::saturating_add)) else {
            continue;
        };
        match took.iter_mut().find(|(known, _)| *known == thread) {
            Some((_, known)) => *known = known.saturating_add(sum),
            None => took.push((thread, sum)),
        }
    }
    let &(thread, most) = took.iter().max_by_key(|(_, sum)| *sum)?;
    let all: f64 = took.iter().map(|(_, sum)| seconds(*sum)).sum();
    let mean = all / region.team as f64;
    let saved = (seconds(most) - mean).min(regions.saves_at_most(outer));
    let sentence = format!(
        "threads of the region at {} fork regions of their own that take unequally long: those of \
         thread {thread} {:.3} s, the mean {mean:.3} s; dividing what those do more evenly may save up \
         to {saved:.3} s",
        region.location.short(),
        seconds(most),
    );
    Some((saved, sentence))
}

/// Findings of which one of each kind and place is said: the same regions that several threads fork.
#[derive(Debug, Default)]
pub(in crate::diagnosis) struct Instances<'a>(Vec<Instance<'a>>);

#[derive(Debug)]
struct Instance<'a> {
    kind: usize,
    location: &'a Location,
    thread: usize,
    count: usize,
    finding: Finding,
}

impl<'a> Instances<'a> {
    /// Keeps a finding about a construct of a region that a thread forks within another.
    pub(in crate::diagnosis) fn add(
        &mut self,
        kind: usize,
        location: &'a Location,
        thread: usize,
        finding: Finding,
    ) {
        let same = |one: &&mut Instance<'_>| one.kind == kind && one.location == location;
        match self.0.iter_mut().find(same) {
            Some(known) => {
                known.count += 1;
                if finding.0 > known.finding.0 {
                    (known.thread, known.finding) = (thread, finding);
                }
            }
            None => self.0.push(Instance {
                kind,
                location,
                thread,
                count: 1,
                finding,
            }),
        }
    }

    /// What is said of them.
    pub(in crate::diagnosis) fn findings(self) -> impl Iterator<Item = Finding> {
        self.0.into_iter().map(|one| {
            let (saved, sentence) = one.finding;
            let others = match one.count {
                1 => String::new(),
                count => format!(", and is the worst of those of {count} threads"),
            };
            let thread = one.thread;
            (
                saved,
                format!("{sentence} (in the region that thread {thread} forks{others})"),
            )
        })
    }
}
