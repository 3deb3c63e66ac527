//! How many threads work at the same time.
//!
//! Sums of each thread do not tell: it takes the single passages. A thread works while it is in a
//! parallel region and does not wait there; where no thread is in a region, the one that executes the
//! serial part does, unless it waits in MPI. A thread that has arrived at the end of a region within a
//! region counts as working until the inner one's others have arrived, too.

use unspool_openmp_record::ConstructKind;

use crate::characteristics::LossClass;
use crate::recording::Process;

/// What a thread's state changes by.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// The thread is in one more region, or in one less.
    Region(i32),
    /// The thread is in one more wait, or in one less.
    Wait(i32),
}

/// For how long how many threads worked at once: at index n, n of them. Nothing if no single
/// passages were recorded.
pub(crate) fn levels(process: &Process) -> Option<Vec<u64>> {
    if process.spans.is_empty() {
        return None;
    }
    let mut changes = changes(process);
    changes.sort_unstable_by_key(|(at, ..)| *at);
    let mut states = vec![(0_i32, 0_i32); process.threads];
    let mut levels = vec![0_u64; process.threads.max(1) + 1];
    let (mut in_regions, mut working, mut waiting_outside) = (0_i32, 0_usize, 0_i32);
    let mut last = 0;
    for (at, thread, change) in changes {
        let at = at.min(process.duration_ns);
        let serial = usize::from(in_regions == 0 && waiting_outside == 0);
        if let Some(level) = levels.get_mut(working.max(serial)) {
            *level += at.saturating_sub(last);
        }
        last = last.max(at);
        let Some(state) = states.get_mut(thread) else {
            continue;
        };
        let before = *state;
        match change {
            Change::Region(by) => {
                state.0 += by;
                in_regions += by;
            }
            Change::Wait(by) => state.1 += by,
        }
        let works = |(regions, waits): (i32, i32)| regions > 0 && waits <= 0;
        let waits_outside = |(regions, waits): (i32, i32)| regions <= 0 && waits > 0;
        working = working + usize::from(works(*state)) - usize::from(works(before));
        waiting_outside += i32::from(waits_outside(*state)) - i32::from(waits_outside(before));
    }
    let serial = usize::from(in_regions == 0 && waiting_outside == 0);
    levels[working.max(serial).min(process.threads)] += process.duration_ns.saturating_sub(last);
    Some(levels)
}

/// Where threads enter and leave regions and waits: when, which thread, and what changes.
fn changes(process: &Process) -> Vec<(u64, usize, Change)> {
    let mut changes = Vec::with_capacity(2 * process.spans.len());
    for span in &process.spans {
        let Some(one) = process.constructs.get(span.construct) else {
            continue;
        };
        let (end, thread) = (span.end_ns.max(span.begin_ns), span.thread);
        let mut push = |begin, end, change: fn(i32) -> Change| {
            changes.push((begin, thread, change(1)));
            changes.push((end, thread, change(-1)));
        };
        if one.kind == ConstructKind::Parallel {
            push(span.begin_ns, end, Change::Region);
            continue;
        }
        match LossClass::of_waits(one) {
            (Some(_), _) => push(span.begin_ns, end, Change::Wait),
            (None, Some(_)) if span.wait_ns > 0 => {
                let waited = span.begin_ns.saturating_add(span.wait_ns).min(end);
                push(span.begin_ns, waited, Change::Wait);
            }
            _ => {}
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Construct, Span};

    /// A process of two threads with one region and a barrier in it.
    fn process(spans: &[(usize, usize, u64, u64)]) -> Process {
        let construct = |kind, parent| Construct {
            kind,
            parent,
            name: None,
            location: crate::Location::default(),
            call_path: Vec::new(),
            forked_by: None,
            team: 2,
            schedule: None,
            shares: Vec::new(),
        };
        let spans = spans.iter();
        Process {
            duration_ns: 100,
            threads: 2,
            constructs: vec![
                construct(ConstructKind::Serial, None),
                construct(ConstructKind::Parallel, Some(0)),
                construct(ConstructKind::Barrier, Some(1)),
                construct(ConstructKind::Mpi, Some(0)),
            ],
            spans: spans
                .map(|&(construct, thread, begin_ns, end_ns)| Span {
                    construct,
                    thread,
                    begin_ns,
                    end_ns,
                    wait_ns: 0,
                })
                .collect(),
            ..Process::default()
        }
    }

    #[test]
    fn work_of_each_number_of_threads_is_added_up() {
        // Serial to 10 and from 60; both work to 20, then thread 0 waits for the other at a barrier to
        // 30; both go on to 50, thread 1 alone to 60.
        let spans = [
            (2, 0, 20, 30),
            (1, 0, 10, 50),
            (2, 1, 30, 30),
            (1, 1, 10, 60),
            (0, 0, 0, 100),
        ];
        assert_eq!(levels(&process(&spans)), Some(vec![0, 70, 30]));
    }

    #[test]
    fn nobody_works_while_the_only_thread_waits_for_others() {
        let spans = [(3, 0, 40, 70), (0, 0, 0, 100)];
        assert_eq!(levels(&process(&spans)), Some(vec![30, 70, 0]));
        assert_eq!(levels(&process(&[])), None);
    }

    #[test]
    fn a_damaged_recording_gives_no_more_than_its_time() {
        let spans = [
            (1, 7, 0, 50),
            (1, 0, 90, 10),
            (9, 0, 0, u64::MAX),
            (1, 1, 10, u64::MAX),
        ];
        let levels = levels(&process(&spans)).unwrap_or_default();
        assert_eq!(levels.iter().sum::<u64>(), 100, "{levels:?}");
    }
}
