//! Counters have what was added, and the program what it had.

use unspool_code_cache::slots::{offset, slots};

use super::super::executed::{execute_with, untouched};
use super::emit;

const FAR: i64 = 0x1_8000_0003;

/// Adds to two slots that nothing else uses here. Returns what they have, and whether registers and
/// flags are what they were.
fn added(by_register: bool) -> ([u64; 2], bool, bool) {
    let [first, second] = [offset::BRANCH, offset::EXIT];
    let state = execute_with(
        |slots| {
            slots.branch.set(40);
            slots.exit.set(7);
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
    let values = [slots().branch.get(), slots().exit.get()];
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
