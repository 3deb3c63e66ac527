//! Work that takes longer when more threads do it.

use rustc_hash::FxHashMap;

use crate::report::Report;

/// A region whose work takes longer in the run with more threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Growth {
    /// The region.
    pub place: String,
    /// What its threads worked, all together, in the run with fewer threads.
    pub fewer_ns: u64,
    /// What they worked in the other.
    pub more_ns: u64,
}

/// Growth that is told: more than a quarter, because two runs of the same program on a machine that
/// others use differ by a good part of that anyway, and so much that it would be felt.
const LEAST_SHARE: f64 = 0.25;
const LEAST_NS: u64 = 500_000;

/// The work of each region, and how often it was passed, by place.
fn regions(report: &Report) -> FxHashMap<&str, (u64, u64)> {
    let mut regions: FxHashMap<&str, (u64, u64)> = FxHashMap::default();
    for process in &report.processes {
        // Regions within others are parts of them.
        for one in process.intervals.iter().filter(|one| one.level == 0) {
            let (count, work) = regions.entry(&one.name).or_default();
            *count += one.count;
            *work = work.saturating_add(one.characteristics.productive_ns());
        }
    }
    regions
}

/// Compares the work of regions that both runs passed equally often; what grew most first.
pub(super) fn of(fewer: &Report, more: &Report) -> Vec<Growth> {
    if fewer.characteristics.processors >= more.characteristics.processors {
        return Vec::new();
    }
    let with_more = regions(more);
    let grown = regions(fewer)
        .into_iter()
        .filter_map(|(place, (count, fewer_ns))| {
            let &(count_with_more, more_ns) = with_more.get(place)?;
            let growth = more_ns.saturating_sub(fewer_ns);
            let is_told = growth >= LEAST_NS && growth as f64 >= fewer_ns as f64 * LEAST_SHARE;
            (count == count_with_more && is_told).then(|| Growth {
                place: place.to_owned(),
                fewer_ns,
                more_ns,
            })
        });
    let mut grown: Vec<Growth> = grown.collect();
    let size = |one: &Growth| std::cmp::Reverse(one.more_ns - one.fewer_ns);
    grown.sort_by(|one, other| {
        size(one)
            .cmp(&size(other))
            .then(one.place.cmp(&other.place))
    });
    grown
}
