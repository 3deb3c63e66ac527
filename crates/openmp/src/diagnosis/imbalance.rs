//! Work that is divided unevenly: by the same thread doing more each time, or by another one
//! each time, and what smaller pieces would save.

#[cfg(test)]
mod tests;

use unspool_openmp_record::ConstructKind;

use super::regions::Regions;
use super::{Finding, seconds};
use crate::characteristics::LossClass;
use crate::points::SynchronisationPoint;
use crate::recording::{Process, Schedule, Share};

/// What it costs a thread to fetch a piece of a loop, in nanoseconds, where the loop's own pieces do
/// not tell: measured with LLVM's runtime and two threads that do nothing else. GNU's takes a
/// fiftieth of it.
const PIECE_NS: f64 = 1000.0;

/// A construct in which one thread does more than the others.
pub(super) fn of_work(process: &Process, regions: &Regions, index: usize) -> Option<Finding> {
    let one = &process.constructs[index];
    let what = match one.kind {
        ConstructKind::Loop | ConstructKind::Sections | ConstructKind::Distribute => {
            one.kind.word()
        }
        ConstructKind::Divided => "work divided among threads",
        _ => return None,
    };
    let region = regions.around(index)?;
    let team = process.constructs[region].team;
    if team < 2 {
        return None;
    }
    let waited = regions.saves_at_most(region);
    let work = Work::of(&one.shares, one.schedule, team, waited)?;
    let (saved, advice) = match (one.kind, work.iterations) {
        (ConstructKind::Loop, Some(iterations)) => work.advice(iterations),
        (kind, _) => (work.excess(), work.advice_without_count(kind)),
    };
    let waits = regions.barrier_of(process, region).map(|barrier| {
        format!(
            ", for whom others wait at the barrier at {}",
            barrier.location.short()
        )
    });
    let waits = waits.unwrap_or_default();
    let sentence = format!(
        "the {what} at {} {} imbalanced: thread {} does {:.0} % of the work of {team} threads{waits}; {advice}",
        one.location.short(),
        if one.kind == ConstructKind::Sections {
            "are"
        } else {
            "is"
        },
        work.thread,
        work.part() * 100.0,
    );
    Some((saved, sentence))
}

/// Work that a team shares, in all its passages together. Times are seconds.
#[derive(Debug, Clone, PartialEq)]
struct Work {
    team: u64,
    /// How long each thread waited on average, in the whole region, for the work of others; in a region
    /// within a region, no more than the outer one would end earlier.
    waited: f64,
    /// The thread that does most.
    thread: usize,
    most: f64,
    sum: f64,
    passages: f64,
    /// The iterations of one passage.
    iterations: Option<f64>,
    schedule: Option<Schedule>,
    /// How many iterations the pieces have that the runtime hands out, on average, if it is asked.
    piece: Option<f64>,
    /// How long it takes to fetch a piece.
    fetch: f64,
}

impl Work {
    fn of(shares: &[Share], schedule: Option<Schedule>, team: u64, waited: f64) -> Option<Work> {
        let most = shares.iter().max_by_key(|share| share.own_ns)?;
        let sum: f64 = shares.iter().map(|share| share.own_ns as f64).sum();
        let passages = shares.iter().map(|share| share.count).max().unwrap_or(0);
        // Every thread counts all iterations of every passage.
        let counted = shares.iter().max_by_key(|share| share.iterations)?;
        let iterations = counted.iterations as f64 / counted.count.max(1) as f64;
        let fetches: u64 = shares.iter().map(|share| share.runtime_calls).sum();
        let fetching: u64 = shares.iter().map(|share| share.runtime_ns).sum();
        let fetch_ns = match fetches {
            0 => PIECE_NS,
            fetches => fetching as f64 / fetches as f64,
        };
        let piece = (fetches > 0).then(|| counted.iterations as f64 / fetches as f64);
        (sum > 0.0).then(|| Work {
            fetch: fetch_ns / 1e9,
            piece,
            schedule,
            team,
            waited,
            thread: most.thread,
            most: seconds(most.own_ns),
            sum: sum / 1e9,
            passages: passages as f64,
            iterations: (iterations >= 1.0).then_some(iterations),
        })
    }

    /// How much longer the thread that does most takes than if all did the same. Where others
    /// do something else meanwhile, only what they wait can be saved.
    fn excess(&self) -> f64 {
        (self.most - self.sum / self.team as f64).min(self.waited)
    }

    /// The part of all work that one thread does.
    fn part(&self) -> f64 {
        self.most / self.sum
    }

    /// What to do where nobody knows how many pieces there could be.
    fn advice_without_count(&self, kind: ConstructKind) -> String {
        let saved = format!("would save up to {:.3} s", self.excess());
        let unknown = "the runtime is not told how many iterations there are, so that the size \
                       of a piece cannot be computed";
        match kind {
            ConstructKind::Sections => format!("more sections of a more equal size {saved}"),
            ConstructKind::Loop => {
                format!("smaller pieces, as schedule(dynamic) has them, {saved} ({unknown})")
            }
            _ => format!(
                "an even division, such as a loop with schedule(dynamic), {saved} ({unknown})"
            ),
        }
    }

    /// Which chunk to hand out, and what it saves.
    fn advice(&self, iterations: f64) -> (f64, String) {
        let team = self.team as f64;
        let pieces = Pieces {
            iterations,
            // How long an iteration takes where they take longest.
            each: self.most / self.passages * team / iterations,
            fetch: self.fetch,
            team,
        };
        let chunk = pieces.best_chunk();
        let saved = self.excess() - pieces.lost(chunk) * self.passages;
        let given = format!(
            "from {iterations:.0} iterations of {} in a passage, by {} threads",
            Duration(pieces.each),
            self.team
        );
        if saved <= 0.1 * self.excess() {
            let advice = format!(
                "no other schedule is sure to save much: single iterations take too long; dividing \
                 them may save up to {:.3} s ({given})",
                self.excess()
            );
            return (self.excess(), advice);
        }
        let is_dynamic = self.schedule == Some(Schedule::Dynamic);
        // A power of two is as good as what lies between it and the next one.
        let piece = self
            .piece
            .filter(|piece| is_dynamic && *piece < chunk * 2.0);
        if let Some(piece) = piece {
            let advice = format!(
                "it is handed out in pieces of {piece:.0} as threads need them already, so that a few \
                 iterations must take much longer than the others: starting with those, or dividing \
                 them, may save up to {:.3} s ({given})",
                self.excess()
            );
            return (self.excess(), advice);
        }
        let condition = match (self.schedule, self.piece) {
            (Some(Schedule::Dynamic), Some(piece)) => {
                format!("; the pieces have {piece:.0} now")
            }
            (Some(_), _) => ", unless a few iterations take most of the time".to_owned(),
            (None, _) => "; if that is the schedule already, iterations differ much, and the \
                          longest should come first"
                .to_owned(),
        };
        let advice =
            format!("schedule(dynamic,{chunk}) may save about {saved:.3} s ({given}){condition}");
        (saved, advice)
    }
}

/// A loop whose threads fetch pieces of it as they need them, in one passage. Times are seconds.
///
/// The last to finish does so at most one piece later than the others would, less its part of what
/// they could have taken off it (Graham, 1969); and each piece has to be fetched. With pieces of c of
/// N iterations that take t in the thread that does most, T threads lose c t (1 - 1/T) + h N / (c T),
/// which is least at c = sqrt(h N / (t (T - 1))).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pieces {
    /// N.
    pub(super) iterations: f64,
    /// t.
    pub(super) each: f64,
    /// h.
    pub(super) fetch: f64,
    /// T.
    pub(super) team: f64,
}

impl Pieces {
    /// The power of two nearest to the chunk with which least is lost.
    pub(super) fn best_chunk(&self) -> f64 {
        let best = (self.fetch * self.iterations / (self.each * (self.team - 1.0))).sqrt();
        best.clamp(1.0, (self.iterations / self.team).max(1.0))
            .log2()
            .round()
            .exp2()
    }

    /// What is lost with a chunk.
    pub(super) fn lost(&self, chunk: f64) -> f64 {
        chunk * self.each * (1.0 - 1.0 / self.team)
            + self.fetch * self.iterations / (chunk * self.team)
    }
}

/// Seconds, in the unit that shows them best.
pub(super) struct Duration(pub(super) f64);

impl std::fmt::Display for Duration {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            seconds if seconds >= 1.0 => write!(formatter, "{seconds:.3} s"),
            seconds if seconds >= 1e-3 => write!(formatter, "{:.3} ms", seconds * 1e3),
            seconds if seconds >= 1e-6 => write!(formatter, "{:.3} \u{b5}s", seconds * 1e6),
            seconds => write!(formatter, "{:.1} ns", seconds * 1e9),
        }
    }
}

/// A place at which another thread comes last each time: added up, all do as much, and all
/// wait.
///
/// A thread that always comes last waits only as long as it takes to go on then. What even
/// the thread that waits least waits beyond that is due to passages in which others were
/// last. Only the part of the waits counts that no other sentence explains.
pub(super) fn that_alternates(point: &SynchronisationPoint, left: f64) -> Option<Finding> {
    if !matches!(
        point.class,
        LossClass::Desynchronisation | LossClass::Barrier
    ) || point.threads.len() < 2
    {
        return None;
    }
    let least = point.threads.iter().map(|(_, _, wait, _)| *wait).min()?;
    let saved = seconds(least.saturating_sub(point.last_wait_ns)) * left;
    let passages: u64 = point.threads.iter().map(|(.., last)| last).sum();
    let mut last: Vec<(u64, usize)> = point
        .threads
        .iter()
        .map(|(thread, _, _, last)| (*last, *thread))
        .filter(|(last, _)| *last > 0)
        .collect();
    last.sort_by_key(|(last, thread)| (std::cmp::Reverse(*last), *thread));
    if last.len() < 2 {
        return None;
    }
    let who: Vec<String> = last
        .iter()
        .take(3)
        .map(|(last, thread)| format!("thread {thread} in {last}"))
        .collect();
    let more = if last.len() > 3 { ", \u{2026}" } else { "" };
    let sentence = format!(
        "the work before the {} at {} is divided unevenly in each passage, though not in sum: \
         which thread comes last changes (of {passages} passages, {}{more}); an even division \
         of each would save up to {saved:.3} s",
        point.kind.word(),
        point.location.short(),
        who.join(", "),
    );
    Some((saved, sentence))
}
