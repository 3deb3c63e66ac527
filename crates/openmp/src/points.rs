//! Synchronisation points: the places in the source at which threads wait for each other.

use rustc_hash::FxHashMap;
use unspool_openmp_record::ConstructKind;

use crate::characteristics::LossClass;
use crate::location::Location;
use crate::recording::Process;

/// A place at which threads wait for each other, in all contexts.
#[derive(Debug, Clone, PartialEq)]
pub struct SynchronisationPoint {
    /// What it is.
    pub kind: ConstructKind,
    /// Which critical or lock, or the MPI function.
    pub name: Option<String>,
    /// Where it is.
    pub location: Location,
    /// The calls that led there first, the innermost first.
    pub call_path: Vec<Location>,
    /// Why waiting there is a loss.
    pub class: LossClass,
    /// How often threads came there.
    pub count: u64,
    /// How long they waited.
    pub wait_ns: u64,
    /// The longest wait.
    pub longest_wait_ns: u64,
    /// How long it took them to go on when they came last, and had nobody to wait for.
    pub last_wait_ns: u64,
    /// How long they were in its block.
    pub block_ns: u64,
    /// Waits by thread: the thread, its passages, its wait, how often it was the last.
    pub threads: Vec<(usize, u64, u64, u64)>,
    /// The part of the critical path that ends here.
    pub critical_path_ns: u64,
}

impl SynchronisationPoint {
    /// The mean wait.
    #[must_use]
    pub fn average_wait_ns(&self) -> u64 {
        self.wait_ns / self.count.max(1)
    }
}

/// All points of a process, those that cost most first.
pub(crate) fn of_process(process: &Process) -> Vec<SynchronisationPoint> {
    let mut points: Vec<SynchronisationPoint> = Vec::new();
    let mut known: FxHashMap<(ConstructKind, &Location, Option<&str>), usize> =
        FxHashMap::default();
    for one in &process.constructs {
        let (own_class, wait_class) = LossClass::of_waits(one);
        let Some(class) = own_class.or(wait_class) else {
            continue;
        };
        let key = (one.kind, &one.location, one.name.as_deref());
        let index = *known.entry(key).or_insert_with(|| {
            points.push(SynchronisationPoint {
                kind: one.kind,
                name: one.name.clone(),
                location: one.location.clone(),
                call_path: one.call_path.clone(),
                class,
                count: 0,
                wait_ns: 0,
                longest_wait_ns: 0,
                last_wait_ns: 0,
                block_ns: 0,
                threads: Vec::new(),
                critical_path_ns: 0,
            });
            points.len() - 1
        });
        let point = &mut points[index];
        for share in &one.shares {
            let (wait, longest) = match own_class {
                Some(_) => (share.own_ns, share.longest_own_ns),
                None => (share.wait_ns, share.longest_wait_ns),
            };
            point.count += share.count;
            point.wait_ns = point.wait_ns.saturating_add(wait);
            point.last_wait_ns = point.last_wait_ns.saturating_add(share.last_wait_ns);
            // Of a wait, what lacked a processor is not the construct's.
            point.longest_wait_ns = point.longest_wait_ns.max(longest.min(wait));
            point.critical_path_ns = point.critical_path_ns.saturating_add(share.path_ns);
            if own_class.is_none() && one.kind != ConstructKind::Parallel {
                point.block_ns = point
                    .block_ns
                    .saturating_add(share.total_ns - share.wait_ns.min(share.total_ns));
            }
            let known = point
                .threads
                .iter_mut()
                .find(|(thread, ..)| *thread == share.thread);
            match known {
                Some((_, count, waited, last)) => {
                    *count += share.count;
                    *waited = waited.saturating_add(wait);
                    *last += share.last_arrivals;
                }
                None => point
                    .threads
                    .push((share.thread, share.count, wait, share.last_arrivals)),
            }
        }
    }
    for point in &mut points {
        point.threads.sort_by_key(|(thread, ..)| *thread);
    }
    points.retain(|point| point.count > 0);
    points.sort_by_key(|point| std::cmp::Reverse(point.wait_ns));
    points
}
