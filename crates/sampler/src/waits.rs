//! When threads had no processor, and where they were then.

use rustc_hash::FxHashMap;
use unspool_profile_record::{PathEnd, Sample, Wait};

use crate::part_of_run::PartOfRun;

/// A thread, by its process's number and its own.
type ThreadKey = (u32, u32);

/// The path of the innermost frame, if anything is known, and how it ends.
pub(crate) type Place = (Option<u32>, PathEnd);

/// A thread without a processor.
#[derive(Debug)]
struct Off {
    place: Place,
    /// How long the process had been in the part that is kept.
    kept_ns: u64,
    is_preempted: bool,
}

/// All threads that leave their processors.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// Where those are that are about to leave.
    leaving: FxHashMap<ThreadKey, Place>,
    off: FxHashMap<ThreadKey, Off>,
}

impl Waits {
    /// A thread is about to leave its processor.
    pub(crate) fn leaving(&mut self, thread: ThreadKey, place: Place) {
        self.leaving.insert(thread, place);
    }

    /// It has left. The kernel may have kept to itself where that was.
    pub(crate) fn left(
        &mut self,
        thread: ThreadKey,
        since_ns: u64,
        part: &mut PartOfRun,
        is_preempted: bool,
    ) {
        let place = self.leaving.remove(&thread);
        let off = Off {
            place: place.unwrap_or((None, PathEnd::NoStack)),
            kept_ns: part.until(thread.0, since_ns),
            is_preempted,
        };
        // Where it is off already, what was told between was lost: when it came back is not known.
        self.off.insert(thread, off);
    }

    /// It has a processor again: gives the wait, as far as that is in the time that is kept.
    pub(crate) fn entered(
        &mut self,
        thread: ThreadKey,
        time_ns: u64,
        part: &mut PartOfRun,
    ) -> Option<Wait> {
        self.off.remove(&thread)?.until(thread, time_ns, part)
    }

    /// The waits of all that have no processor yet when all is over.
    pub(crate) fn end(&mut self, time_ns: u64, part: &mut PartOfRun) -> Vec<Wait> {
        let mut off: Vec<_> = self.off.drain().collect();
        off.sort_by_key(|(thread, _)| *thread);
        let waits = off.into_iter();
        waits
            .filter_map(|(thread, off)| off.until(thread, time_ns, part))
            .collect()
    }
}

impl Off {
    fn until(self, (pid, tid): ThreadKey, time_ns: u64, part: &mut PartOfRun) -> Option<Wait> {
        let kept_ns = part.until(pid, time_ns);
        let (node, end) = self.place;
        let weight = kept_ns.checked_sub(self.kept_ns).filter(|&ns| ns > 0)?;
        Some(Wait {
            is_preempted: self.is_preempted,
            sample: Sample {
                pid,
                tid,
                time_ns: time_ns.min(part.end()),
                weight,
                node,
                end,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Place = (Some(3), PathEnd::Outermost);
    fn always() -> PartOfRun {
        PartOfRun::new(0..u64::MAX, false)
    }

    fn told(wait: &Wait) -> (u32, u64, u64, Option<u32>, bool) {
        let Sample {
            tid,
            time_ns,
            weight,
            node,
            ..
        } = wait.sample;
        (tid, time_ns, weight, node, wait.is_preempted)
    }

    #[test]
    fn a_wait_lasts_from_leaving_to_entering() {
        let mut waits = Waits::default();
        // A thread that begins has not left anything.
        assert_eq!(waits.entered((1, 1), 5, &mut always()), None);
        waits.leaving((1, 1), PLACE);
        waits.left((1, 1), 10, &mut always(), false);
        waits.leaving((1, 2), PLACE);
        waits.left((1, 2), 12, &mut always(), true);
        let second = waits.entered((1, 2), 13, &mut always()).unwrap();
        assert_eq!(told(&second), (2, 13, 1, Some(3), true));
        let first = waits.entered((1, 1), 30, &mut always()).unwrap();
        assert_eq!(told(&first), (1, 30, 20, Some(3), false));
        assert_eq!(waits.entered((1, 1), 40, &mut always()), None);
    }

    #[test]
    fn what_was_lost_is_no_wait() {
        let mut waits = Waits::default();
        waits.leaving((1, 1), PLACE);
        waits.left((1, 1), 10, &mut always(), false);
        // That it came back was lost, and where it was when it left again.
        waits.left((1, 1), 50, &mut always(), false);
        let wait = waits.entered((1, 1), 60, &mut always()).unwrap();
        assert_eq!(told(&wait), (1, 60, 10, None, false));
    }

    #[test]
    fn waits_are_cut_to_what_is_kept() {
        let mut waits = Waits::default();
        let mut part = PartOfRun::new(15..35, false);
        for tid in 1..=4 {
            waits.left((1, tid), 10 * u64::from(tid), &mut part, false);
        }
        let first = waits.entered((1, 1), 20, &mut part).unwrap();
        assert_eq!((told(&first).1, told(&first).2), (20, 5));
        let rest = waits.end(100, &mut part);
        let rest: Vec<_> = rest.iter().map(told).map(|it| (it.0, it.1, it.2)).collect();
        assert_eq!(rest, [(2, 35, 15), (3, 35, 5)]);
    }
}
