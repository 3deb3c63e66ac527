//! Where a superblock ends because of what the tool inserts, and which of its instructions are executed
//! in another way.

use super::Parts;
use super::calls;
use crate::slots::offset as tool_offset;
use crate::{Action, Inserted, Replacement};
use unspool_engine::translate::superblock::{BranchDirection, Item, SuperblockEnd, runs_on};

/// The most bytes that what is inserted may have in a superblock; a fragment has 64 KiB.
const MOST_BYTES: usize = 44 << 10;
/// The same where others insert, too.
const MOST_BYTES_AMONG_OTHERS: usize = 24 << 10;

/// Ends the superblock where there is no more room for what is inserted. What the tool wants
/// inserted behind comes again, in another one.
pub(super) fn fit(
    parts: &Parts,
    is_alone: bool,
    items: &mut Vec<Item>,
    inserted: &Inserted,
    end: SuperblockEnd,
) -> SuperblockEnd {
    let most = match is_alone {
        true => MOST_BYTES,
        false => MOST_BYTES_AMONG_OTHERS,
    };
    let mut bytes = 0;
    for index in 0..items.len() {
        let actions = inserted.actions_around(index).iter();
        let reached = if index == 0 { inserted.reached() } else { &[] };
        let all = actions.chain(reached);
        let here: usize = all.map(|action| calls::size(parts, action)).sum();
        let pc = items[index].pc;
        if here > most {
            unspool_kernel::diagnostics::fatal(&format!(
                "the tool has more inserted at the instruction at {pc:#x} than fits: {here} bytes, not {most}\nhelp: have it call one function that does it all"
            ));
        }
        bytes += here;
        if bytes > most {
            items.truncate(index);
            return SuperblockEnd::Continue(pc);
        }
    }
    end
}

/// Has the copies of instructions name memory where functions say that it is.
pub(super) fn move_operands(items: &mut [Item], inserted: &Inserted, is_alone: bool) {
    for number in inserted.all_elsewhere() {
        let item = &mut items[number];
        if !is_alone {
            unspool_kernel::diagnostics::fatal(&format!(
                "the tool rewrites an operand of the instruction at {:#x}, and what is recorded beside it would be wrong\nhelp: run the tool without a recorder",
                item.pc
            ));
        }
        item.elsewhere = Some(tool_offset::ELSEWHERE);
    }
}

/// Takes out the instructions that the tool does not want to be executed. The superblock ends at
/// the first one of them behind which it does not go on as it did.
pub(super) fn replace(
    items: &mut Vec<Item>,
    inserted: &mut Inserted,
    end: SuperblockEnd,
) -> SuperblockEnd {
    let replaces = |action: &Action| matches!(action, Action::Replace(_));
    if !inserted.others().iter().any(replaces) {
        return end;
    }
    let count = items.len();
    for (index, item) in items.iter_mut().enumerate() {
        let before = inserted.around(index).before;
        let replacement = before.iter().find_map(|action| match action {
            Action::Replace(replacement) => Some(*replacement),
            _ => None,
        });
        let Some(replacement) = replacement else {
            continue;
        };
        let next = item.pc + u64::from(item.layout.length);
        let stays = item.direction == BranchDirection::Next && runs_on(item.layout.kind);
        inserted.forget_behind(index);
        item.left_out = true;
        item.direction = BranchDirection::Next;
        let target = match replacement {
            Replacement::Nothing if stays && index + 1 < count => continue,
            Replacement::Nothing => next,
            Replacement::Jump(target) => target,
        };
        items.truncate(index + 1);
        return SuperblockEnd::Continue(target);
    }
    end
}
