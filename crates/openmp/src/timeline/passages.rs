//! Which passages of several threads belong together, and who made whom go on.

use std::collections::BTreeMap;

use unspool_openmp_record::ConstructKind;

use crate::recording::{Process, Span};

/// Something that a thread did had another one begin or go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrow {
    pub(super) name: &'static str,
    /// A thread, and when.
    pub(super) from: (usize, u64),
    pub(super) to: (usize, u64),
    /// The place of the passage that it leads to among those of the process.
    pub(super) reason: usize,
}

/// A passage, and its place among those of the process.
type Placed<'a> = (usize, &'a Span);

/// All arrows of a process. Where regions lie within regions and a recording does not tell apart who
/// forks them, several teams may pass a construct at once, and it is not known whom each passage
/// belongs to: there are none.
pub(super) fn arrows(process: &Process) -> Vec<Arrow> {
    let mut of_constructs: Vec<Vec<Placed>> = vec![Vec::new(); process.constructs.len()];
    for placed in process.spans.iter().enumerate() {
        if let Some(spans) = of_constructs.get_mut(placed.1.construct) {
            spans.push(placed);
        }
    }
    let mut arrows = Vec::new();
    for (construct, mut spans) in of_constructs.into_iter().enumerate() {
        if !is_of_one_team(process, construct) {
            continue;
        }
        spans.sort_by_key(|(_, span)| (span.begin_ns, span.thread));
        match process.constructs[construct].kind {
            ConstructKind::Parallel => forks(process, construct, &spans, &mut arrows),
            ConstructKind::Barrier | ConstructKind::ImplicitBarrier => {
                releases(&spans, &mut arrows);
            }
            _ => {}
        }
    }
    arrows
}

/// Whether one team at a time passes a construct: in an outermost region, and in one of which it is
/// known that one thread forks it.
fn is_of_one_team(process: &Process, construct: usize) -> bool {
    let constructs = &process.constructs;
    // Parents have smaller numbers.
    let around = |&one: &usize| constructs[one].parent.filter(|&parent| parent < one);
    let mut regions = std::iter::successors(Some(construct), around)
        .filter(|&one| constructs[one].kind == ConstructKind::Parallel);
    let innermost = regions.next();
    regions.next().is_none() || innermost.is_some_and(|one| constructs[one].forked_by.is_some())
}

/// From who forks a region to those who begin in it.
fn forks(process: &Process, construct: usize, spans: &[Placed], arrows: &mut Vec<Arrow>) {
    let shares = &process.constructs[construct].shares;
    let forker = shares.iter().find(|share| share.forked);
    let Some(forker) = forker.map(|share| share.thread) else {
        return;
    };
    let mut of_threads: BTreeMap<usize, Vec<Placed>> = BTreeMap::new();
    for placed in spans {
        of_threads.entry(placed.1.thread).or_default().push(*placed);
    }
    let Some(own) = of_threads.remove(&forker) else {
        return;
    };
    // Each passage of the region has one of each thread. A thread that was in some of them only cannot
    // be told to which its passages belong.
    of_threads.retain(|_, others| others.len() == own.len());
    for (number, (_, region)) in own.iter().enumerate() {
        let together = || of_threads.values().map(|others| others[number]);
        // Who forks may begin its own part later than another thread.
        let begins = together().map(|(_, span)| span.begin_ns);
        let forked_ns = begins.chain([region.begin_ns]).min();
        for (place, span) in together() {
            arrows.push(Arrow {
                name: "fork",
                from: (forker, forked_ns.unwrap_or(region.begin_ns)),
                to: (span.thread, span.begin_ns),
                reason: place,
            });
        }
    }
}

/// From who comes last to a barrier to those who have waited for it.
fn releases(spans: &[Placed], arrows: &mut Vec<Arrow>) {
    let mut rest = spans;
    while let [(_, first), ..] = rest {
        // All who pass a barrier together are there when the last one comes.
        let mut ends_ns = first.end_ns;
        let mut together = 1;
        for (_, span) in &rest[1..] {
            let mut before = rest[..together].iter();
            let is_again = before.any(|(_, it)| it.thread == span.thread);
            if span.begin_ns > ends_ns || is_again {
                break;
            }
            ends_ns = ends_ns.min(span.end_ns);
            together += 1;
        }
        let (passage, after) = rest.split_at(together);
        let (_, last) = passage[together - 1];
        for &(place, span) in &passage[..together - 1] {
            arrows.push(Arrow {
                name: "released",
                from: (last.thread, last.begin_ns),
                to: (span.thread, span.end_ns),
                reason: place,
            });
        }
        rest = after;
    }
}
