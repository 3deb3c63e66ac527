//! The basic blocks of a function, and what leads from each to which.
//!
//! Where a jump through a table or a register leads is not looked for: it is taken to lead to each block
//! that nothing else leads to.

use std::collections::BTreeSet;
use std::ops::Range;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic};

/// Instructions that are executed one behind the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// Where they are.
    pub(super) range: Range<u64>,
    /// Where the last one is.
    pub(super) last: u64,
    /// The places of the blocks that may follow.
    pub(super) successors: Vec<usize>,
}

/// How a function is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leave {
    /// By a return, or in a way that cannot be followed.
    Unknown,
    /// By a jump to an address.
    To(u64),
}

/// The blocks of a function, in the order of their addresses.
pub(crate) struct Graph {
    pub(super) blocks: Vec<Block>,
    /// How it may be left behind each.
    leaves: Vec<Option<Leave>>,
}

impl Graph {
    /// That of the code from an address on. `comes_back`: whether the function at an address may.
    pub(crate) fn of(code: &[u8], start: u64, comes_back: &dyn Fn(u64) -> bool) -> Graph {
        let goes_on = |instruction: &Instruction| goes_on(instruction, comes_back);
        let decoder = Decoder::with_ip(64, code, start, DecoderOptions::NONE);
        let instructions: Vec<Instruction> = decoder.into_iter().collect();
        let within = start..start.saturating_add(code.len() as u64);
        let mut leaders = BTreeSet::from([start]);
        let mut is_padding = false;
        for instruction in &instructions {
            // What compilers fill gaps with belongs to no block, unless something leads there.
            if is_padding && !matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3) {
                leaders.insert(instruction.ip());
                is_padding = false;
            }
            if let Some(target) = target(instruction) {
                leaders.extend(within.contains(&target).then_some(target));
            }
            match instruction.flow_control() {
                FlowControl::ConditionalBranch => {
                    leaders.insert(instruction.next_ip());
                }
                _ if !goes_on(instruction) => is_padding = true,
                _ => {}
            }
        }
        let mut blocks: Vec<Block> = Vec::with_capacity(leaders.len());
        let mut ends: Vec<Instruction> = Vec::with_capacity(leaders.len());
        let mut is_open = false;
        for instruction in &instructions {
            let here = instruction.ip();
            if leaders.contains(&here) {
                blocks.push(Block {
                    range: here..here,
                    last: here,
                    successors: Vec::new(),
                });
                ends.push(*instruction);
                is_open = true;
            }
            if let (true, Some(block), Some(end)) = (is_open, blocks.last_mut(), ends.last_mut()) {
                block.range.end = instruction.next_ip();
                block.last = here;
                *end = *instruction;
                is_open = goes_on(instruction);
            }
        }
        let leaves = ends.iter().map(|end| leave(end, &within)).collect();
        let falls: Vec<bool> = ends.iter().map(goes_on).collect();
        link(&mut blocks, &ends, &falls);
        Graph { blocks, leaves }
    }

    /// How the function may be left, on ways from its start.
    pub(crate) fn ways_out(&self) -> Vec<Leave> {
        let mut is_reached = vec![false; self.blocks.len()];
        let mut waiting: Vec<usize> = (0..self.blocks.len().min(1)).collect();
        let mut ways = Vec::new();
        while let Some(place) = waiting.pop() {
            if !std::mem::replace(&mut is_reached[place], true) {
                ways.extend(self.leaves[place]);
                waiting.extend(&self.blocks[place].successors);
            }
        }
        ways
    }
}

fn leave(end: &Instruction, within: &Range<u64>) -> Option<Leave> {
    let flow = end.flow_control();
    if matches!(flow, FlowControl::Return | FlowControl::IndirectBranch) || end.is_invalid() {
        return Some(Leave::Unknown);
    }
    // What comes behind the last instruction is another function's.
    let outside = target(end).filter(|target| !within.contains(target));
    outside.map(Leave::To)
}

fn link(blocks: &mut [Block], ends: &[Instruction], falls: &[bool]) {
    let starts: Vec<u64> = blocks.iter().map(|block| block.range.start).collect();
    let at = |address: u64| starts.binary_search(&address).ok();
    let mut is_reached = vec![false; blocks.len()];
    for ((block, end), &falls) in blocks.iter_mut().zip(ends).zip(falls) {
        let behind = falls.then(|| at(end.next_ip())).flatten();
        let there = target(end).and_then(at);
        for successor in behind.into_iter().chain(there) {
            if !block.successors.contains(&successor) {
                block.successors.push(successor);
                is_reached[successor] = true;
            }
        }
    }
    let lonely = (1..blocks.len()).filter(|&place| !is_reached[place]);
    let lonely: Vec<usize> = lonely.collect();
    for (block, end) in blocks.iter_mut().zip(ends) {
        if end.flow_control() == FlowControl::IndirectBranch {
            block.successors.clone_from(&lonely);
        }
    }
}

/// Where a direct jump leads. A call comes back, so it is none.
fn target(instruction: &Instruction) -> Option<u64> {
    match instruction.flow_control() {
        FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch => {
            Some(instruction.near_branch_target())
        }
        _ => None,
    }
}

/// Whether the instruction behind may be the next one.
fn goes_on(instruction: &Instruction, comes_back: &dyn Fn(u64) -> bool) -> bool {
    if instruction.flow_control() == FlowControl::Call && instruction.near_branch_target() != 0 {
        return comes_back(instruction.near_branch_target());
    }
    !instruction.is_invalid()
        && !matches!(
            instruction.flow_control(),
            FlowControl::UnconditionalBranch
                | FlowControl::IndirectBranch
                | FlowControl::Return
                | FlowControl::Exception
        )
}

#[cfg(test)]
mod tests {
    use super::Graph;

    fn shape(code: &[u8]) -> Vec<(u64, u64, Vec<usize>)> {
        let blocks = Graph::of(code, 0x1000, &|_| true).blocks;
        let shape = blocks.into_iter();
        shape
            .map(|it| (it.range.start, it.range.end, it.successors))
            .collect()
    }

    #[test]
    fn gaps_are_no_blocks() {
        // jmp 1004; nop; nop; ret
        assert_eq!(
            shape(&[0xeb, 2, 0x90, 0x90, 0xc3]),
            [(0x1000, 0x1002, vec![1]), (0x1004, 0x1005, vec![])]
        );
    }

    #[test]
    fn a_jump_through_a_table_leads_to_what_nothing_else_leads_to() {
        // jmp rax; nop; inc eax; ret; nop; ret
        let blocks = shape(&[0xff, 0xe0, 0x90, 0xff, 0xc0, 0xc3, 0x90, 0xc3]);
        let first = (0x1000, 0x1002, vec![1, 2]);
        assert_eq!(
            blocks,
            [first, (0x1003, 0x1006, vec![]), (0x1007, 0x1008, vec![])]
        );
    }

    /// What is behind the call of a function that never comes back is not its next instruction.
    #[test]
    fn calls_may_be_the_last() {
        // inc eax; call 2000; jmp 1000
        let code = [0xff, 0xc0, 0xe8, 0xf9, 0x0f, 0, 0, 0xeb, 0xf7];
        let blocks = |comes_back: bool| {
            let graph = Graph::of(&code, 0x1000, &|to| to != 0x2000 || comes_back);
            let first = graph.blocks[0].successors.clone();
            (first, graph.ways_out().len())
        };
        assert_eq!(blocks(true), (vec![0], 0));
        assert_eq!(blocks(false), (vec![], 0));
        let returns = Graph::of(&[0x74, 0x10, 0xc3], 0x1000, &|_| true);
        assert_eq!(
            returns.ways_out(),
            [super::Leave::To(0x1012), super::Leave::Unknown]
        );
    }

    #[test]
    fn any_bytes_are_code() {
        let mut random = 1_u64;
        for length in 0..200 {
            let bytes: Vec<u8> = (0..length)
                .map(|_| {
                    random = random
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1);
                    (random >> 56) as u8
                })
                .collect();
            let blocks = Graph::of(&bytes, u64::MAX - 100, &|to| to % 2 == 0).blocks;
            assert!(
                blocks
                    .iter()
                    .all(|it| it.successors.iter().all(|&to| to < blocks.len()))
            );
        }
    }
}
