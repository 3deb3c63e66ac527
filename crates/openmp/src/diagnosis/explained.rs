//! Which waits a sentence has explained by the work that they are for, so that no other sentence speaks
//! of the same loss.

use super::regions::Regions;
use super::seconds;
use crate::points::SynchronisationPoint;
use crate::recording::Process;

/// What is left of a wait is worth a sentence of its own from this part on.
const LEFT_TO_SAY: f64 = 0.3;

/// Explained waits of all threads together, in seconds, by region.
#[derive(Debug)]
pub(super) struct Explained(Vec<f64>);

impl Explained {
    pub(super) fn nothing(process: &Process) -> Explained {
        Explained(vec![0.0; process.constructs.len()])
    }

    /// A sentence explains so much of what threads wait in the region of a construct.
    pub(super) fn add(&mut self, regions: &Regions, construct: usize, seconds: f64) {
        if let Some(region) = regions.around(construct) {
            self.0[region] += seconds;
        }
    }

    /// The part of what threads wait at a point that no sentence explains; nothing if that is too
    /// little to speak of. What is explained in a region is a part of each wait there.
    pub(super) fn left_of(
        &self,
        process: &Process,
        regions: &Regions,
        point: &SynchronisationPoint,
    ) -> Option<f64> {
        let (mut all, mut left) = (0.0, 0.0);
        for (index, one) in process.constructs.iter().enumerate() {
            let is_there =
                one.kind == point.kind && one.location == point.location && one.name == point.name;
            let Some(region) = regions.around(index).filter(|_| is_there) else {
                continue;
            };
            let waited = seconds(Regions::waited_in_ns(one));
            let in_region = seconds(regions.waited_ns(region));
            let explained = self.0[region] / in_region.max(f64::MIN_POSITIVE);
            all += waited;
            left += waited * (1.0 - explained.min(1.0));
        }
        let part = if all > 0.0 { left / all } else { 1.0 };
        (part >= LEFT_TO_SAY).then_some(part)
    }
}
