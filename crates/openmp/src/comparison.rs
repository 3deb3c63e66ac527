//! Two runs side by side: what a change, or more threads, brought.

mod growth;

use rustc_hash::FxHashMap;

pub use self::growth::Growth;

use crate::recording::Recording;
use crate::report::Report;

/// One line of a comparison: a place, and what was lost there in each run.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The synchronisation point.
    pub place: String,
    /// Waited there in the first run.
    pub before_ns: u64,
    /// Waited there in the second.
    pub after_ns: u64,
}

/// Two runs side by side.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The first run.
    pub before: Report,
    /// The second.
    pub after: Report,
    /// How many times faster the second is.
    pub speed_up: f64,
    /// What that is of what its threads allow.
    pub scaling_efficiency: f64,
    /// Places where waiting changed, what changed most first.
    pub changes: Vec<Change>,
    /// Regions whose work takes longer in the run that has more threads, what grew most first. Nothing
    /// where both have equally many.
    pub growth: Vec<Growth>,
}

impl Comparison {
    /// Compares two runs.
    #[must_use]
    pub fn new(before: &Recording, after: &Recording) -> Comparison {
        let before = Report::new(before, crate::Grouping::Construct);
        let after = Report::new(after, crate::Grouping::Construct);
        let (one, other) = (&before.characteristics, &after.characteristics);
        let speed_up = match other.execution_ns {
            0 => 1.0,
            time => one.execution_ns as f64 / time as f64,
        };
        let threads = other.processors as f64 / one.processors.max(1) as f64;
        let mut waits: FxHashMap<String, (u64, u64)> = FxHashMap::default();
        for (report, is_after) in [(&before, false), (&after, true)] {
            for point in report.processes.iter().flat_map(|process| &process.points) {
                // Addresses of criticals and locks differ between runs.
                let place = format!("{} at {}", point.kind.word(), point.location.short());
                let waited = waits.entry(place).or_default();
                let which = if is_after {
                    &mut waited.1
                } else {
                    &mut waited.0
                };
                *which = which.saturating_add(point.wait_ns);
            }
        }
        let mut changes: Vec<Change> = waits
            .into_iter()
            .map(|(place, (before_ns, after_ns))| Change {
                place,
                before_ns,
                after_ns,
            })
            .collect();
        let size = |change: &Change| change.before_ns.abs_diff(change.after_ns);
        changes.sort_by(|one, other| {
            size(other)
                .cmp(&size(one))
                .then(one.place.cmp(&other.place))
        });
        let (fewer, more) = match one.processors <= other.processors {
            true => (&before, &after),
            false => (&after, &before),
        };
        Comparison {
            growth: growth::of(fewer, more),
            speed_up,
            scaling_efficiency: if threads > 0.0 {
                speed_up / threads
            } else {
                speed_up
            },
            changes,
            before,
            after,
        }
    }
}
