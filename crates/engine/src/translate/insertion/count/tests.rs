//! Counters have what was added, and the program what it had.

use unspool_code_cache::slots::{SlotsPart, offset, slots};

use super::super::executed::{FreeSlots, execute_with, untouched};
use super::emit;

const FAR: i64 = 0x1_8000_0003;

/// Adds to two slots that nothing else uses here. Returns what they have, and whether registers and
/// flags are what they were.
fn added(by_register: bool) -> ([u64; 2], bool, bool) {
    let [first, second] = [FreeSlots::FIRST, FreeSlots::SECOND];
    let state = execute_with(
        |slots| {
            FreeSlots::of(slots).first.set(40);
            FreeSlots::of(slots).second.set(7);
        },
        |builder| {
            let spilled = offset::spill(9);
            builder.code.store_slot(spilled, 9);
            let sum = by_register.then_some(9);
            emit(
                &mut builder.code,
                &[(first, 2), (second, FAR), (first, -1)],
                sum,
            );
            builder.code.load_slot(9, spilled);
        },
    );
    let free = FreeSlots::of(slots());
    let values = [free.first.get(), free.second.get()];
    (
        values,
        state.registers == untouched().registers,
        state.flags == untouched().flags,
    )
}

#[test]
fn what_is_added_is_exact_and_flags_stay_where_they_must() {
    let wanted = [41, 7 + FAR as u64];
    assert_eq!(added(true), (wanted, true, true));
    assert_eq!(added(false), (wanted, true, false));
}
