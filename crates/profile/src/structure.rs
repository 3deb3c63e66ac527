//! The loops of functions, as their machine code has them, and where in the source they are.

mod cache;
mod code_file;
mod control_flow;
mod loops;
mod place;

use std::ops::Range;

use serde::{Deserialize, Serialize};
use unspool_binary::{SourceFrame, SourceLine};

pub(crate) use code_file::CodeFile;
use control_flow::Graph;
pub(crate) use place::Place;

/// A loop of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// Where it is entered, in the file; of several places the first.
    pub address: u64,
    /// Its line in the source: the first of that of its first instruction and of those that lead back
    /// there, which compilers give the line of the loop's condition.
    pub line: Option<SourceLine>,
    /// The place of the loop around it in the list, which is before its own.
    pub parent: Option<usize>,
    /// How many loops are around it in its function.
    pub depth: usize,
    /// Whether it is entered at several places.
    pub is_irreducible: bool,
}

/// A loop without its line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoopShape {
    address: u64,
    /// The instructions that lead back there.
    leads_back: Vec<u64>,
    parent: Option<usize>,
    depth: usize,
    is_irreducible: bool,
}

/// The loops of one function, as its machine code alone tells them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    loops: Vec<LoopShape>,
    /// Code, by address, and the innermost loop that it is in.
    code: Vec<(Range<u64>, usize)>,
}

/// The loops of one function.
#[derive(Debug, Default)]
pub(crate) struct FunctionLoops {
    pub(crate) loops: Vec<Loop>,
    /// Code, by address, and the innermost loop that it is in.
    code: Vec<(Range<u64>, usize)>,
}

impl Shape {
    /// That of the code from an address on. `comes_back`: whether the function at an address may.
    pub(crate) fn of((code, start): (&[u8], u64), comes_back: &dyn Fn(u64) -> bool) -> Shape {
        let graph = Graph::of(code, start, comes_back);
        let blocks = &graph.blocks;
        let found = loops::find(blocks);
        let mut innermost = vec![None; blocks.len()];
        let mut loops: Vec<LoopShape> = Vec::with_capacity(found.len());
        for (number, one) in found.iter().enumerate() {
            // Inner ones come later.
            for &block in &one.blocks {
                innermost[block] = Some(number);
            }
            let leads_back = one.blocks.iter().map(|&block| &blocks[block]);
            let leads_back = leads_back.filter(|block| block.successors.contains(&one.header));
            loops.push(LoopShape {
                address: blocks[one.header].range.start,
                leads_back: leads_back.map(|block| block.last).collect(),
                parent: one.parent,
                depth: one.parent.map_or(0, |parent| loops[parent].depth + 1),
                is_irreducible: one.is_irreducible,
            });
        }
        let blocks = graph.blocks.into_iter().zip(innermost);
        let code = blocks.filter_map(|(block, innermost)| Some((block.range, innermost?)));
        Shape {
            loops,
            code: code.collect(),
        }
    }
}

impl FunctionLoops {
    /// Those of a shape, with their lines. `frames`: the functions at an address, the innermost first.
    pub(crate) fn new(shape: &Shape, frames: &dyn Fn(u64) -> Vec<SourceFrame>) -> FunctionLoops {
        let loops = shape.loops.iter().map(|one| Loop {
            address: one.address,
            line: line(one, frames),
            parent: one.parent,
            depth: one.depth,
            is_irreducible: one.is_irreducible,
        });
        FunctionLoops {
            loops: loops.collect(),
            code: shape.code.clone(),
        }
    }

    /// The innermost loop that an address is in.
    pub(crate) fn at(&self, address: u64) -> Option<usize> {
        let behind = self
            .code
            .partition_point(|(range, _)| range.start <= address);
        let (range, innermost) = self.code.get(behind.checked_sub(1)?)?;
        range.contains(&address).then_some(*innermost)
    }
}

/// Where the first instruction is and those that lead back there, in the innermost function that has
/// all of them in its code, inlined or not.
fn line(one: &LoopShape, frames: &dyn Fn(u64) -> Vec<SourceFrame>) -> Option<SourceLine> {
    let outermost_first = |address| {
        let mut frames = frames(address);
        frames.reverse();
        frames
    };
    let first = outermost_first(one.address);
    let leads_back = one.leads_back.iter().copied();
    let others: Vec<_> = leads_back.map(outermost_first).collect();
    let in_common = |other: &Vec<SourceFrame>| {
        let pairs = first.iter().zip(other);
        pairs
            .take_while(|(one, other)| one.function == other.function)
            .count()
    };
    let depth = others.iter().map(in_common).min()?.checked_sub(1)?;
    let all = [&first].into_iter().chain(&others);
    let places = all.filter_map(|frames| frames.get(depth)?.line.as_ref());
    let mut places: Vec<&SourceLine> = places.filter(|line| line.line > 0).collect();
    let file = places.first()?.file.clone();
    places.retain(|line| line.file == file);
    places.into_iter().min_by_key(|line| line.line).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `xor eax, eax`, then two nested loops that end in conditional jumps, and `ret`.
    #[test]
    fn nested_loops_have_their_code() {
        let code = [
            0x31, 0xc0, // 1000: xor eax, eax
            0x31, 0xc9, // 1002: xor ecx, ecx
            0xff, 0xc1, // 1004: inc ecx
            0x39, 0xd1, // 1006: cmp ecx, edx
            0x75, 0xfa, // 1008: jne 1004
            0xff, 0xc0, // 100a: inc eax
            0x39, 0xd0, // 100c: cmp eax, edx
            0x75, 0xf2, // 100e: jne 1002
            0xc3, // 1010: ret
        ];
        let shape = Shape::of((&code, 0x1000), &|_| true);
        let found = FunctionLoops::new(&shape, &|_| Vec::new());
        let shape = |one: &Loop| (one.address, one.parent, one.depth, one.is_irreducible);
        let shapes: Vec<_> = found.loops.iter().map(shape).collect();
        assert_eq!(
            shapes,
            [(0x1002, None, 0, false), (0x1004, Some(0), 1, false)]
        );
        let at = |address| found.at(address);
        assert_eq!([at(0x1000), at(0x1010)], [None, None]);
        assert_eq!([at(0x1002), at(0x100a), at(0x100e)], [Some(0); 3]);
        assert_eq!([at(0x1004), at(0x1009)], [Some(1); 2]);
    }
}
