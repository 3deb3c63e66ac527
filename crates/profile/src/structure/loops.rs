//! The loops of a graph of blocks, nested, also those that are entered at several places.
//!
//! A loop is a strongly connected part of the graph; without what leads to its entries, the strongly
//! connected parts of it are the loops within. Source: B. Steensgaard, "Sequentializing Program
//! Dependence Graphs for Irreducible Programs", Microsoft Research, 1993; parts are found as by R. Tarjan,
//! "Depth-First Search and Linear Graph Algorithms", 1972.

use super::control_flow::Block;

/// Loops that are deeper are not told apart: only code that is no compiler's has them.
const MOST_DEPTH: usize = 64;

/// A loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Its blocks, with those of loops within.
    pub(super) blocks: Vec<usize>,
    /// Where it is entered.
    pub(super) header: usize,
    /// The place of the loop around it in the list.
    pub(super) parent: Option<usize>,
    /// Whether it is entered at several places.
    pub(super) is_irreducible: bool,
}

/// All loops, outer ones before those within.
pub(super) fn find(blocks: &[Block]) -> Vec<Found> {
    let mut predecessors = vec![Vec::new(); blocks.len()];
    for (place, block) in blocks.iter().enumerate() {
        block
            .successors
            .iter()
            .for_each(|&to| predecessors[to].push(place));
    }
    let mut found: Vec<Found> = Vec::new();
    // Which blocks are looked at; and which are not led to any more.
    let mut part = vec![0_usize; blocks.len()];
    let mut is_cut = vec![false; blocks.len()];
    let mut waiting = vec![((0..blocks.len()).collect::<Vec<_>>(), None, 0)];
    let mut parts = 0;
    while let Some((members, parent, depth)) = waiting.pop() {
        parts += 1;
        members.iter().for_each(|&member| part[member] = parts);
        let leads = |from: usize| {
            let successors = blocks[from].successors.iter().copied();
            successors.filter(|&to| part[to] == parts && !is_cut[to])
        };
        let mut inner = Vec::new();
        for component in components(&members, blocks.len(), &leads) {
            let is_loop = component.len() > 1 || leads(component[0]).any(|to| to == component[0]);
            if is_loop {
                inner.push(component);
            }
        }
        for mut component in inner {
            component.sort_unstable();
            let is_within = |block: &usize| component.binary_search(block).is_ok();
            let is_entry =
                |&block: &usize| block == 0 || !predecessors[block].iter().all(is_within);
            let mut entries: Vec<usize> = component.iter().copied().filter(is_entry).collect();
            if entries.is_empty() {
                // Nothing that is known leads there.
                entries.push(component[0]);
            }
            entries.iter().for_each(|&entry| is_cut[entry] = true);
            let number = found.len();
            found.push(Found {
                blocks: component.clone(),
                header: entries[0],
                parent,
                is_irreducible: entries.len() > 1,
            });
            if depth < MOST_DEPTH {
                waiting.push((component, Some(number), depth + 1));
            }
        }
    }
    found
}

/// The strongly connected parts of some blocks.
fn components<I: Iterator<Item = usize>>(
    members: &[usize],
    count: usize,
    leads: &impl Fn(usize) -> I,
) -> Vec<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut order = vec![UNSEEN; count];
    let mut lowest = vec![UNSEEN; count];
    let mut is_open = vec![false; count];
    let (mut next, mut open, mut all) = (0, Vec::new(), Vec::new());
    for &root in members {
        if order[root] != UNSEEN {
            continue;
        }
        let mut path: Vec<(usize, I)> = Vec::new();
        let mut entered = Some(root);
        loop {
            if let Some(block) = entered.take() {
                (order[block], lowest[block]) = (next, next);
                next += 1;
                is_open[block] = true;
                open.push(block);
                path.push((block, leads(block)));
            }
            let Some((block, successors)) = path.last_mut() else {
                break;
            };
            let block = *block;
            match successors.next() {
                Some(to) if order[to] == UNSEEN => entered = Some(to),
                Some(to) if is_open[to] => lowest[block] = lowest[block].min(order[to]),
                Some(_) => {}
                None => {
                    path.pop();
                    if let Some((before, _)) = path.last() {
                        lowest[*before] = lowest[*before].min(lowest[block]);
                    }
                    if lowest[block] == order[block] {
                        let first = open.iter().rposition(|&it| it == block).unwrap_or(0);
                        let component = open.split_off(first);
                        component.iter().for_each(|&member| is_open[member] = false);
                        all.push(component);
                    }
                }
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{Block, find};

    fn loops(successors: &[&[usize]]) -> Vec<(Vec<usize>, usize, Option<usize>, bool)> {
        let block = |(place, successors): (usize, &&[usize])| Block {
            range: place as u64..place as u64 + 1,
            last: place as u64,
            successors: successors.to_vec(),
        };
        let blocks: Vec<Block> = successors.iter().enumerate().map(block).collect();
        let all = find(&blocks).into_iter();
        all.map(|it| (it.blocks, it.header, it.parent, it.is_irreducible))
            .collect()
    }

    #[test]
    fn what_leads_nowhere_back_is_no_loop() {
        assert!(loops(&[&[1, 2], &[3], &[3], &[]]).is_empty());
        assert!(loops(&[]).is_empty());
    }

    #[test]
    fn loops_within_loops_and_beside_one_another() {
        let found = loops(&[&[1], &[2, 5], &[2, 3], &[3, 1], &[4], &[4]]);
        let expected = [
            (vec![4], 4, None, false),
            (vec![1, 2, 3], 1, None, false),
            (vec![3], 3, Some(1), false),
            (vec![2], 2, Some(1), false),
        ];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for one in &expected {
            let is_there = found.iter().any(|it| {
                let parents = [it.2, one.2].map(|parent| parent.is_some());
                (&it.0, it.1, it.3) == (&one.0, one.1, one.3) && parents[0] == parents[1]
            });
            assert!(is_there, "{one:?} in {found:?}");
        }
    }

    /// A jump into the middle makes a second entry; the function's start is one, too.
    #[test]
    fn entries_are_counted() {
        assert_eq!(loops(&[&[1, 2], &[2], &[1]]), [(vec![1, 2], 1, None, true)]);
        assert_eq!(loops(&[&[1], &[0]]), [(vec![0, 1], 0, None, false)]);
    }

    /// Code of nobody's: each block leads to all.
    #[test]
    fn the_deepest_nest_ends() {
        let all: Vec<usize> = (0..200).collect();
        let found = loops(&vec![&all[..]; 200]);
        assert_eq!(found[0].0.len(), 200);
    }
}
