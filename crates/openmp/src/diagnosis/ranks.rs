//! Ranks of an MPI job that come late where all of them meet.

use super::{Finding, seconds};
use crate::characteristics::LossClass;
use crate::points::SynchronisationPoint;

/// What a rank does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rank<'report> {
    /// Its number.
    pub(crate) rank: u64,
    /// How long its threads worked.
    pub(crate) productive_ns: u64,
    /// Where it waited.
    pub(crate) points: &'report [SynchronisationPoint],
}

/// A call of MPI that all ranks make equally often, and in which one of them waits less than the others
/// do: they wait for it. Added up over all passages, so that a rank that is late each time shows, and
/// one that is late by turns does not.
pub(crate) fn late(ranks: &[Rank<'_>]) -> Vec<Finding> {
    let Some((first, others)) = ranks.split_first() else {
        return Vec::new();
    };
    let calls = first
        .points
        .iter()
        .filter(|point| point.class == LossClass::Communication);
    let findings = calls.filter_map(|point| {
        let same = |rank: &Rank<'_>| {
            let is_same = |other: &&SynchronisationPoint| {
                other.name == point.name
                    && other.location == point.location
                    && other.count == point.count
            };
            rank.points.iter().find(is_same).map(|found| found.wait_ns)
        };
        let mut waits = vec![(point.wait_ns, *first)];
        for rank in others {
            waits.push((same(rank)?, *rank));
        }
        of_waits(point, &waits)
    });
    findings.collect()
}

fn of_waits(point: &SynchronisationPoint, waits: &[(u64, Rank<'_>)]) -> Option<Finding> {
    let (least, late) = waits.iter().min_by_key(|(wait, _)| *wait)?;
    let most = waits.iter().map(|(wait, _)| *wait).max()?;
    let others = waits.len().checked_sub(1).filter(|others| *others > 0)? as f64;
    let sum: f64 = waits.iter().map(|(wait, _)| seconds(*wait)).sum();
    // If all did as much before, all would wait as long as the one does now that comes last.
    let saved = sum / waits.len() as f64 - seconds(*least);
    let work: f64 = waits
        .iter()
        .map(|(_, rank)| seconds(rank.productive_ns))
        .sum();
    let own = seconds(late.productive_ns);
    let sentence = format!(
        "rank {} comes late to {} at {}: the others wait there for up to {:.3} s, it waits {:.3} s; in the \
         whole run its threads work {own:.3} s, those of another rank {:.3} s on average; an even \
         division of what precedes the call may save up to {saved:.3} s",
        late.rank,
        point.name.as_deref().unwrap_or("the call of MPI"),
        point.location.short(),
        seconds(most),
        seconds(*least),
        (work - own) / others,
    );
    Some((saved, sentence))
}

#[cfg(test)]
mod tests {
    use unspool_openmp_record::ConstructKind;

    use super::*;
    use crate::location::Location;

    fn point(name: &str, wait_ms: u64, count: u64) -> SynchronisationPoint {
        SynchronisationPoint {
            kind: ConstructKind::Mpi,
            name: Some(name.to_owned()),
            location: Location {
                file: Some("a.c".to_owned()),
                line: Some(7),
                ..Location::default()
            },
            call_path: Vec::new(),
            class: LossClass::Communication,
            count,
            wait_ns: wait_ms * 1_000_000,
            longest_wait_ns: 0,
            last_wait_ns: 0,
            block_ns: 0,
            threads: Vec::new(),
            critical_path_ns: 0,
        }
    }

    fn late_at(points: &[Vec<SynchronisationPoint>]) -> Vec<Finding> {
        let ranks = points.iter().zip(0..).map(|(points, rank)| Rank {
            rank,
            productive_ns: (rank + 1) * 100_000_000,
            points,
        });
        late(&ranks.collect::<Vec<_>>())
    }

    #[test]
    fn the_rank_that_waits_least_is_the_late_one() {
        let waits = [300, 200, 10].map(|wait| vec![point("MPI_Barrier", wait, 5)]);
        let found = late_at(&waits);
        assert_eq!(found.len(), 1);
        assert!((found[0].0 - 0.16).abs() < 1e-9, "{found:?}");
        let sentence = "rank 2 comes late to MPI_Barrier at a.c:7: the others wait there for up to 0.300 s, \
                        it waits 0.010 s; in the whole run its threads work 0.300 s, those of another rank \
                        0.150 s on average";
        assert!(found[0].1.starts_with(sentence), "{found:?}");
    }

    #[test]
    fn only_calls_that_all_ranks_make_tell() {
        // One rank sends and the other receives; one calls more often; MPI starts; there is one rank.
        let send = [
            vec![point("MPI_Send", 0, 5)],
            vec![point("MPI_Recv", 300, 5)],
        ];
        assert_eq!(late_at(&send), []);
        let counts = [
            vec![point("MPI_Bcast", 0, 5)],
            vec![point("MPI_Bcast", 300, 6)],
        ];
        assert_eq!(late_at(&counts), []);
        let starts = [300, 0].map(|wait| {
            let mut start = point("MPI_Init", wait, 1);
            start.class = LossClass::Launch;
            vec![start]
        });
        assert_eq!(late_at(&starts), []);
        assert_eq!(late_at(&[vec![point("MPI_Barrier", 300, 5)]]), []);
        // And nobody is late where all wait as long.
        let even = [200, 200].map(|wait| vec![point("MPI_Barrier", wait, 5)]);
        assert!(late_at(&even)[0].0 < 1e-9);
    }
}
