//! The parts of the tracer that inserted code is about.

use unspool_code_cache::cache::Exit;
use unspool_code_cache::exit::ExitKind;
use unspool_engine::translate::forced_splits::ForcedSplits;
use unspool_engine::translate::superblock::{Item, Limits};
use unspool_engine::translate::walk::Walk;
use unspool_events::raw::MAX_PATH_WORDS;
use unspool_instructions::operands::Shape;

use super::word_bound::word_bound;
use crate::check_sites::CheckSites;
use crate::fragments::Fragments;
use crate::functions::Functions;
use crate::ownership::Ownership;
use crate::recording::Recording;
use crate::values::ValueCalls;

/// The parts of the tracer that inserted code is about.
#[derive(Clone, Copy)]
pub(crate) struct Parts {
    pub(crate) recording: &'static Recording,
    pub(crate) ownership: &'static Ownership,
    pub(crate) check_sites: &'static CheckSites,
    pub(crate) value_calls: &'static ValueCalls,
    pub(crate) functions: &'static Functions,
    pub(crate) fragments: &'static Fragments,
}

impl Parts {
    /// Has control be seen where a superblock begins, if it is to be. Returns whether it is.
    pub(super) fn hook(&self, walk: &mut Walk, pc: u64) -> bool {
        let is_hooked = self.functions.is_hooked(pc);
        if is_hooked {
            walk.clean_call(Exit::new(ExitKind::Function, pc));
        }
        is_hooked
    }

    /// Whether an instruction is executed in chunks: a repeated string instruction, before which a
    /// bounded number of rounds is prepared for. (With a count of 32 bits it is not: lowering the
    /// register would clear its upper half.)
    pub(super) fn has_chunks(&self, item: &Item) -> bool {
        let counted = |shape| matches!(shape, Shape::Repeat { count, .. } if count.is_gpr64());
        (self.ownership.is_checking() || self.recording.records_values())
            && item.operands().iter().any(|operand| counted(operand.shape))
    }
}

impl Limits for Parts {
    fn bound_registers(&self) -> usize {
        if self.ownership.is_checking() { 3 } else { 2 }
    }

    fn word_bound(&self, item: &Item) -> usize {
        word_bound(item)
    }

    fn most_words(&self) -> usize {
        MAX_PATH_WORDS
    }

    fn forced_splits(&self) -> &ForcedSplits {
        &self.fragments.forced_splits
    }

    fn follows_calls(&self) -> bool {
        true
    }

    fn ends_behind(&self, _: &Item) -> bool {
        false
    }

    fn pairs_calls(&self) -> bool {
        // The program might read what it never wrote.
        !self.recording.records_values()
    }

    /// Whether the traced functions want to see control reach an address.
    fn is_function(&self, pc: u64) -> bool {
        self.functions.is_hooked(pc)
    }
}
