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
enum Leave {
    /// By a return, or in a way that cannot be followed.
    Unknown,
    /// By a jump to an address.
    To(u64),
}

/// The blocks of a function, in the order of their addresses.
pub(super) struct Graph {
    pub(super) blocks: Vec<Block>,
    /// How it may be left behind each.
    leaves: Vec<Option<Leave>>,
    /// The functions that each calls.
    calls: Vec<Vec<u64>>,
}

impl Graph {
    /// That of the code from an address on. `comes_back`: whether the function at an address may.
    pub(super) fn of(code: &[u8], start: u64, comes_back: &dyn Fn(u64) -> bool) -> Graph {
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
        let mut calls: Vec<Vec<u64>> = Vec::with_capacity(leaders.len());
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
                calls.push(Vec::new());
                is_open = true;
            }
            if let (true, Some(block), Some(end)) = (is_open, blocks.last_mut(), ends.last_mut()) {
                block.range.end = instruction.next_ip();
                block.last = here;
                *end = *instruction;
                let own = calls.last_mut().zip(callee(instruction));
                own.into_iter().for_each(|(own, callee)| own.push(callee));
                is_open = goes_on(instruction);
            }
        }
        let leaves = ends.iter().map(|end| leave(end, &within)).collect();
        let falls: Vec<bool> = ends.iter().map(goes_on).collect();
        link(&mut blocks, &ends, &falls);
        Graph {
            blocks,
            leaves,
            calls,
        }
    }
}

/// Whether the function whose code begins at an address may come back to who called it. `comes_back`: whether
/// others may, which is asked where it matters only.
pub(super) fn may_return(code: &[u8], start: u64, comes_back: &dyn Fn(u64) -> bool) -> bool {
    let graph = Graph::of(code, start, &|_| true);
    let mut is_reached = vec![false; graph.blocks.len()];
    let mut waiting: Vec<usize> = (0..graph.blocks.len().min(1)).collect();
    // Blocks that are reached, if what they call comes back.
    let mut doubtful = Vec::new();
    loop {
        let sure = waiting.pop();
        let Some(place) = sure.or_else(|| doubtful.pop()) else {
            return false;
        };
        let (calls, leave) = (&graph.calls[place], graph.leaves[place]);
        if sure.is_some() {
            if std::mem::replace(&mut is_reached[place], true) {
                continue;
            }
            if !calls.is_empty() || matches!(leave, Some(Leave::To(_))) {
                doubtful.push(place);
                continue;
            }
        } else if !calls.iter().all(|&callee| comes_back(callee)) {
            continue;
        }
        match leave {
            Some(Leave::Unknown) => return true,
            Some(Leave::To(other)) if comes_back(other) => return true,
            _ => waiting.extend(&graph.blocks[place].successors),
        }
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

/// The function that is called, where the instruction says which.
fn callee(instruction: &Instruction) -> Option<u64> {
    let is_call = instruction.flow_control() == FlowControl::Call;
    Some(instruction.near_branch_target()).filter(|&target| is_call && target != 0)
}

/// Whether the instruction behind may be the next one.
fn goes_on(instruction: &Instruction, comes_back: &dyn Fn(u64) -> bool) -> bool {
    if let Some(callee) = callee(instruction) {
        return comes_back(callee);
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
    use super::{Graph, may_return};

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
            graph.blocks[0].successors.clone()
        };
        assert_eq!(blocks(true), [0]);
        assert_eq!(blocks(false), [0_usize; 0]);
    }

    #[test]
    fn functions_come_back_if_what_they_cannot_do_without_does() {
        let without = |never: &[u64], code: &[u8]| {
            may_return(code, 0x1000, &|callee| !never.contains(&callee))
        };
        // jz 1012; ret
        assert!(without(&[0x1012], &[0x74, 0x10, 0xc3]));
        // jz 1012; int3
        assert!(without(&[], &[0x74, 0x10, 0xcc]));
        assert!(!without(&[0x1012], &[0x74, 0x10, 0xcc]));
        // jz 1008; call 2000; ret; call 3000; ret
        let mut code = vec![0x74, 6, 0xe8, 0xf9, 0x0f, 0, 0, 0xc3];
        code.extend([0xe8, 0xf3, 0x1f, 0, 0, 0xc3]);
        assert!(without(&[], &code));
        assert!(without(&[0x2000], &code));
        assert!(without(&[0x3000], &code));
        assert!(!without(&[0x2000, 0x3000], &code));
        // jmp rax, and jmp 1000: what is not known may, what goes round does not.
        assert!(without(&[], &[0xff, 0xe0]));
        assert!(!without(&[], &[0xeb, 0xfe]));
        // Nobody is asked where there is another way: jz 1007; call 2000; ret
        let code = [0x74, 5, 0xe8, 0xf9, 0x0f, 0, 0, 0xc3];
        assert!(may_return(&code, 0x1000, &|_| unreachable!()));
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
