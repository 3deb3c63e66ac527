//! Line-atomic order: the checks before accesses.

use super::traced::{Item, Translation};
use crate::operands::RegisterUse;

/// Finds where the flags may still be read, from the end of the superblock backwards.
pub(crate) fn find_live_flags(items: &mut [Item]) {
    let mut live = RegisterUse::STATUS;
    for item in items.iter_mut().rev() {
        live = live & !item.uses.flags_overwritten | item.uses.flags_read;
        let leaves = !matches!(item.layout.kind, crate::decode::Kind::Plain);
        if leaves {
            live = RegisterUse::STATUS;
        }
        item.flags_live = live & RegisterUse::STATUS != 0;
    }
}

pub(crate) fn poll(_translation: &mut Translation, _item: &Item) {}
pub(crate) fn check(_translation: &mut Translation, _items: &[Item], _index: usize) {}
