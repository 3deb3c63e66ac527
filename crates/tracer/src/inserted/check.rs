//! A check that a thread owns what it is about to access, before it is emitted and while its slow
//! part is still to be.

use unspool_code_cache::address::CacheAddress;
use unspool_engine::translate::insertion::detour::Detour;
use unspool_instructions::operands::MemoryOperand;

use crate::check_sites::CheckSite;

/// A check before an instruction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Check {
    /// The operand whose address it starts from.
    pub(super) operand: MemoryOperand,
    /// First and last byte, relative to that address.
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) write: bool,
    /// Of a gather or scatter: the element that it is about, if not all.
    pub(super) element: Option<u8>,
}

/// A check whose slow part is still to be emitted at the end of the fragment.
pub(super) struct SlowCheck {
    /// The way to the slow part, and back to where the check ends.
    pub(super) detour: Detour,
    /// Where the check begins, to be made again after the engine has acquired the lines.
    pub(super) start: CacheAddress,
    /// None: a poll.
    pub(super) check: Option<Check>,
    /// The comparisons of single elements, whose jumps lead there instead.
    pub(super) elements: Vec<Comparison>,
    pub(super) ordinal: usize,
    pub(super) words: usize,
    pub(super) instruction: u32,
    pub(super) pc: u64,
    pub(super) flags_live: bool,
}

impl Check {
    /// What the engine must know, except where the cache goes on.
    pub(super) fn site(
        &self,
        ordinal: usize,
        words: usize,
        instruction: u32,
        flags_live: bool,
    ) -> CheckSite {
        let Check {
            operand,
            first,
            last,
            write,
            ..
        } = *self;
        CheckSite {
            operand,
            first,
            last,
            write,
            ordinal,
            words,
            instruction,
            start: CacheAddress::NOWHERE,
            passed: CacheAddress::NOWHERE,
            leave: CacheAddress::NOWHERE,
            buffer: 0,
            flags_live,
            ends_chunk: None,
        }
    }
}

/// The comparison of one element's owner words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Comparison {
    /// The number of the element.
    pub(super) element: u8,
    /// The field of the jump to its slow part.
    pub(super) field: CacheAddress,
    /// Where the cache goes on with the next element.
    pub(super) passed: CacheAddress,
}
