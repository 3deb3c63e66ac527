//! Where the status flags may still be read.
//!
//! Behind an exit that depends on the code there, which is looked at as far as it is sure to be
//! executed. That is done only where the superblock itself does not decide.

use smallvec::SmallVec;
use unspool_instructions::decode::{Instruction, Kind};
use unspool_instructions::operands::{RegisterUse, flag_use, quick_flag_use};

use super::item::{Item, decode_fully};
use super::reader::{CodeReader, WINDOW};
use super::superblock::SuperblockEnd;

/// Looks at code without making it part of a superblock.
pub(crate) struct Lookahead<'a> {
    code: CodeReader<'a>,
}

impl<'a> Lookahead<'a> {
    pub(crate) fn new(code: CodeReader<'a>) -> Lookahead<'a> {
        Lookahead { code }
    }

    /// The instruction at an address: see [`CodeReader::instruction`].
    pub(super) fn instruction(&mut self, pc: u64) -> Option<(Instruction, [u8; WINDOW])> {
        self.code.instruction(pc)
    }

    /// Which flags the code at an address may read before it overwrites them.
    pub(crate) fn live_flags_at(&mut self, pc: u64) -> u16 {
        const FAR_ENOUGH: usize = 6;
        let mut at = pc;
        let mut unknown = RegisterUse::STATUS;
        let mut live = 0;
        for _ in 0..FAR_ENOUGH {
            let Some((layout, bytes)) = self.code.instruction(at) else {
                break;
            };
            let uses = quick_flag_use(&layout)
                .unwrap_or_else(|| flag_use(&decode_fully(&layout, &bytes, at)));
            live |= uses.read & unknown;
            unknown &= !uses.overwritten;
            if unknown == 0 || layout.kind != Kind::Plain {
                break;
            }
            at += u64::from(layout.length);
        }
        live | unknown
    }
}

/// An exit behind which nobody has looked yet.
struct Unseen {
    pc: u64,
    /// The flags that are live if they are live there.
    mask: u16,
}

/// Finds where the flags may still be read, from the end of the superblock backwards.
pub(crate) fn find_live_flags(ahead: &mut Lookahead, items: &mut [Item], end: &SuperblockEnd) {
    let mut live = 0;
    let mut unseen: SmallVec<[Unseen; 8]> = SmallVec::new();
    let not_seen = |pc| Unseen {
        pc,
        mask: RegisterUse::STATUS,
    };
    match goes_on(items, end) {
        Some(pc) => unseen.push(not_seen(pc)),
        None => live = RegisterUse::STATUS,
    }
    for item in items.iter_mut().rev() {
        unseen.extend(item.side_exit().map(not_seen));
        let uses = item.flags();
        live = live & !uses.overwritten | uses.read;
        unseen.retain(|exit| {
            exit.mask &= !uses.overwritten;
            exit.mask & !live != 0
        });
        if live & RegisterUse::STATUS == 0 {
            for exit in unseen.drain(..) {
                live |= ahead.live_flags_at(exit.pc) & exit.mask;
            }
        }
        item.flags_live = live & RegisterUse::STATUS != 0;
    }
}

/// Where the program goes on behind the superblock, if that is certain.
fn goes_on(items: &[Item], end: &SuperblockEnd) -> Option<u64> {
    let last = items.last()?;
    match (end, last.layout.kind) {
        (SuperblockEnd::Continue(pc), _) => Some(*pc),
        (SuperblockEnd::Transfer, Kind::JumpDirect | Kind::CallDirect) => Some(last.layout.target),
        _ => None,
    }
}
