//! Which passages of several threads belong together, and who made whom go on.

use unspool_openmp_record::ConstructKind;

use crate::recording::{Process, Span};

/// Something that a thread did had another one begin or go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrow<'a> {
    pub(super) name: &'static str,
    /// A thread, and when.
    pub(super) from: (usize, u64),
    pub(super) to: (usize, u64),
    /// The passage of the one that it leads to.
    pub(super) reason: &'a Span,
}

/// All arrows of a process. Where regions lie within regions, several teams may pass a construct at
/// once, and it is not known whom each passage belongs to: there are none.
pub(super) fn arrows(process: &Process) -> Vec<Arrow<'_>> {
    let mut of_constructs: Vec<Vec<&Span>> = vec![Vec::new(); process.constructs.len()];
    for span in &process.spans {
        if let Some(spans) = of_constructs.get_mut(span.construct) {
            spans.push(span);
        }
    }
    let mut arrows = Vec::new();
    for (construct, mut spans) in of_constructs.into_iter().enumerate() {
        if regions_around(process, construct) > 1 {
            continue;
        }
        spans.sort_by_key(|span| (span.begin_ns, span.thread));
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

/// How many regions a construct is in, itself included.
fn regions_around(process: &Process, construct: usize) -> usize {
    let constructs = &process.constructs;
    let mut regions = 0;
    let mut next = Some(construct);
    // Parents have smaller numbers.
    while let Some(one) = next.and_then(|place| constructs.get(place)) {
        regions += usize::from(one.kind == ConstructKind::Parallel);
        next = one
            .parent
            .filter(|parent| next.is_some_and(|it| *parent < it));
    }
    regions
}

/// From who forks a region to those who begin in it.
fn forks<'a>(process: &Process, construct: usize, spans: &[&'a Span], arrows: &mut Vec<Arrow<'a>>) {
    let shares = &process.constructs[construct].shares;
    let forker = shares.iter().find(|share| share.forked);
    let Some(forker) = forker.map(|share| share.thread) else {
        return;
    };
    let mut forked: Option<&Span> = None;
    for span in spans {
        if span.thread == forker {
            forked = Some(span);
        } else if let Some(region) = forked
            && span.begin_ns <= region.end_ns
        {
            arrows.push(Arrow {
                name: "fork",
                from: (forker, region.begin_ns),
                to: (span.thread, span.begin_ns),
                reason: span,
            });
        }
    }
}

/// From who comes last to a barrier to those who have waited for it.
fn releases<'a>(spans: &[&'a Span], arrows: &mut Vec<Arrow<'a>>) {
    let mut rest = spans;
    while let [first, ..] = rest {
        // All who pass a barrier together are there when the last one comes.
        let mut ends_ns = first.end_ns;
        let mut together = 1;
        for span in &rest[1..] {
            let is_again = rest[..together].iter().any(|it| it.thread == span.thread);
            if span.begin_ns > ends_ns || is_again {
                break;
            }
            ends_ns = ends_ns.min(span.end_ns);
            together += 1;
        }
        let (passage, after) = rest.split_at(together);
        let last = passage[together - 1];
        for span in &passage[..together - 1] {
            arrows.push(Arrow {
                name: "released",
                from: (last.thread, last.begin_ns),
                to: (span.thread, span.end_ns),
                reason: span,
            });
        }
        rest = after;
    }
}
