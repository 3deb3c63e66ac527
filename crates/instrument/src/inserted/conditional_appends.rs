//! Entries that are appended where a test says so.
//!
//! A short test stands in the program's code. Where it says yes, a jump leads behind all paths: there
//! the entry is stored, with what is borrowed at the test and whatever else it needs, and the
//! position moves at once. A longer test is called, and so is then what appends the entry.

use super::calls::inlined;
use super::{Translation, appends};
use crate::{Action, AnalysisCall, Argument, ConditionalEntry};
use unspool_engine::translate::insertion::detour::Detour;
use unspool_engine::translate::superblock::Item;

/// An entry that is still to be emitted, where a jump leads.
pub(super) struct RareAppend {
    detour: Detour,
    entry: &'static ConditionalEntry,
    /// The words of its fields that are found out at the place.
    words: Vec<Argument>,
    /// How far behind the buffer's position it starts.
    start: i32,
    /// The number of the instruction.
    number: usize,
}

/// Emits a test, and has the entry appended where it says so.
pub(super) fn emit(
    translation: &mut Translation,
    (item, flags_live): (&Item, bool),
    test: &AnalysisCall,
    (entry, words): (&'static ConditionalEntry, &[Argument]),
) {
    let start = translation.own.find_room(item, entry.buffer(), entry.size);
    let pending = translation.own.at_call().of(entry.buffer());
    // What counts only if the instruction completes is to stay the last: a call sees to that.
    let jumps = match pending.undecided {
        0 => inlined::emit_test(translation, item, test, flags_live),
        _ => None,
    };
    let Some(jumps) = jumps else {
        let (test, then) = (test.clone(), entry.call(pending, words));
        translation.call_now(item, &[Action::CallIf { test, then }], flags_live);
        return;
    };
    let walk = &*translation.walk;
    let rare = RareAppend {
        detour: Detour::new(&walk.builder, walk.borrowed, jumps),
        entry,
        words: words.to_vec(),
        start,
        number: walk.number,
    };
    translation.own.rare_appends.push(rare);
}

/// Emits the entries that were put off.
pub(super) fn finish(translation: &mut Translation, items: &[Item]) {
    for rare in std::mem::take(&mut translation.own.rare_appends) {
        rare.emit(translation, &items[rare.number]);
    }
}

impl RareAppend {
    fn emit(&self, translation: &mut Translation, item: &Item) {
        self.detour.enter(translation.walk);
        let (buffer, size) = (self.entry.buffer(), self.entry.size);
        let fields = self.entry.fields(&self.words);
        appends::emit_at(translation, item, (buffer, self.start), (size, &fields));
        let position = appends::position(buffer.index());
        translation.walk.advance(position, u32::from(size));
        self.detour.rejoin(translation.walk);
    }
}
