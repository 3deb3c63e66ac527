//! How long a record may become.

use unspool_engine::translate::superblock::Item;
use unspool_instructions::operands::{CacheControl, MemoryOperand, Shape};

/// How many words an instruction records at most.
#[must_use]
pub(crate) fn word_bound(item: &Item) -> usize {
    let facts = item.facts();
    let has_line = matches!(item.cache_control(), Some(CacheControl::Line(..)));
    let extra =
        usize::from(facts.atomic) + usize::from(facts.compare_exchange) + usize::from(has_line);
    item.operands().iter().map(operand_bound).sum::<usize>() + extra
}

fn operand_bound(operand: &MemoryOperand) -> usize {
    1 + match operand.shape {
        Shape::Plain | Shape::BitString { .. } | Shape::AlignedDown => 0,
        Shape::Repeat { .. } => 3,
        Shape::Indexed { index, .. } => index.size() / 8 + 1,
        Shape::Masked { .. } | Shape::AnyOf { .. } | Shape::Compressed { .. } => 1,
        Shape::Tile { .. } => 2,
    }
}
