//! Which region each construct is in, how long threads wait in it for each other's work, and what less
//! of that would save.

pub(super) mod nested;

use unspool_openmp_record::ConstructKind;

use super::seconds;
use crate::characteristics::LossClass;
use crate::recording::{Construct, Process};

/// The regions of a process.
#[derive(Debug)]
pub(super) struct Regions {
    /// The innermost region of each construct; of a region, itself.
    innermost: Vec<Option<usize>>,
    /// How long threads waited for each other's work, by region; elsewhere 0.
    waited_ns: Vec<u64>,
    /// For regions, how much earlier they, or those around them, can end if nobody waits in them.
    saves_at_most: Vec<f64>,
}

impl Regions {
    pub(super) fn new(process: &Process) -> Regions {
        let count = process.constructs.len();
        let mut regions = Regions {
            innermost: Vec::with_capacity(count),
            waited_ns: vec![0; count],
            saves_at_most: vec![0.0; count],
        };
        for (index, one) in process.constructs.iter().enumerate() {
            let around = match one.kind {
                ConstructKind::Parallel => Some(index),
                // A construct stands behind the one that encloses it.
                _ => one.parent.and_then(|parent| regions.innermost[parent]),
            };
            regions.innermost.push(around);
            if let Some(region) = around {
                let waited = &mut regions.waited_ns[region];
                *waited = waited.saturating_add(Regions::waited_in_ns(one));
            }
        }
        for index in 0..count {
            regions.saves_at_most[index] = regions.alone(process, index);
        }
        nested::bound(process, &mut regions);
        regions
    }

    /// How much earlier a region itself can end if nobody waits in it, in seconds.
    fn alone(&self, process: &Process, region: usize) -> f64 {
        seconds(self.waited_ns[region]) / process.constructs[region].team.max(1) as f64
    }

    /// How much earlier a region, or one around it, can end if nobody waits in it, in seconds.
    pub(super) fn saves_at_most(&self, region: usize) -> f64 {
        self.saves_at_most[region]
    }

    /// The innermost region of a construct; of a region, itself.
    pub(super) fn around(&self, index: usize) -> Option<usize> {
        self.innermost[index]
    }

    /// How many threads the innermost region of a construct has; one outside of regions.
    pub(super) fn team(&self, process: &Process, index: usize) -> f64 {
        let team = self
            .around(index)
            .map(|region| process.constructs[region].team);
        team.unwrap_or(1).max(1) as f64
    }

    /// How long threads waited for each other's work in a region.
    pub(super) fn waited_ns(&self, region: usize) -> u64 {
        self.waited_ns[region]
    }

    /// How long threads waited in this construct itself until others had done their work.
    pub(super) fn waited_in_ns(one: &Construct) -> u64 {
        let is_for_work = |class: Option<LossClass>| {
            matches!(
                class,
                Some(LossClass::Desynchronisation | LossClass::Barrier | LossClass::Tasks)
            )
        };
        let (own, at_end) = LossClass::of_waits(one);
        let waits = one.shares.iter().map(|share| {
            let own = if is_for_work(own) { share.own_ns } else { 0 };
            let at_end = if is_for_work(at_end) {
                share.wait_ns
            } else {
                0
            };
            own.saturating_add(at_end)
        });
        waits.fold(0, u64::saturating_add)
    }

    /// The barrier of the source at which threads wait longest in a region, if they wait nowhere
    /// longer.
    pub(super) fn barrier_of<'a>(
        &'a self,
        process: &'a Process,
        region: usize,
    ) -> Option<&'a Construct> {
        let all = self.constructs_of(process, region);
        let longest = all.max_by_key(|one| Regions::waited_in_ns(one))?;
        (longest.kind == ConstructKind::Barrier).then_some(longest)
    }

    /// The constructs whose innermost region this is.
    pub(super) fn constructs_of<'a>(
        &'a self,
        process: &'a Process,
        region: usize,
    ) -> impl Iterator<Item = &'a Construct> {
        let all = process.constructs.iter().zip(&self.innermost);
        all.filter(move |(_, around)| **around == Some(region))
            .map(|(one, _)| one)
    }
}
