//! Which accesses belong to one instruction.

use unspool_events::{Access, AccessFlags};

/// Splits a batch into the accesses of each instruction, in order.
pub(crate) fn instructions(batch: &[Access]) -> impl Iterator<Item = &[Access]> {
    batch.chunk_by(|_, next| !next.flags.contains(AccessFlags::FIRST))
}
