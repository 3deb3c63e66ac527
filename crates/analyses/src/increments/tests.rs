//! Replays of real interleavings, in the right order and in wrong ones.

use super::*;

const COUNTER: u64 = 0x5000;

fn access(kind: AccessKind, flags: AccessFlags) -> Access {
    Access {
        time: 0,
        pc: 1,
        address: COUNTER,
        size: 8,
        kind,
        flags,
    }
}

fn swap(replay: &mut IncrementReplay, thread: u32, succeeds: bool) {
    let flags = match succeeds {
        true => AccessFlags::ATOMIC,
        false => AccessFlags::ATOMIC.with(AccessFlags::FAILED_CAS),
    };
    replay.accesses(
        ThreadId(thread),
        &[
            access(AccessKind::Read, flags.with(AccessFlags::FIRST)),
            access(AccessKind::Write, flags),
        ],
    );
}

/// Increments and even values of each thread, if they take turns as given.
fn replayed(turns: &[u32]) -> Vec<(u64, u64)> {
    let mut replay = IncrementReplay::new(COUNTER, 0);
    for thread in turns {
        swap(&mut replay, *thread, true);
    }
    replay
        .finish()
        .threads
        .iter()
        .map(|thread| (thread.increments, thread.even_values))
        .collect()
}

#[test]
fn the_order_decides_who_saw_even_values() {
    assert_eq!(replayed(&[0, 1, 0, 1]), [(2, 2), (2, 0)]);
    assert_eq!(replayed(&[0, 1, 1, 0]), [(2, 1), (2, 1)]);
    assert_eq!(replayed(&[0, 0, 1, 1]), [(2, 1), (2, 1)]);
}

#[test]
fn failed_swaps_and_other_addresses_change_nothing() {
    let mut replay = IncrementReplay::new(COUNTER, 1);
    replay.event(
        ThreadId(3),
        0,
        &Event::Thread(ThreadEvent::Registered {
            number: -7,
            name: String::new(),
        }),
    );
    replay.accesses(
        ThreadId(3),
        &[access(AccessKind::Write, AccessFlags::FIRST)],
    );
    replay.accesses(ThreadId(3), &[access(AccessKind::Read, AccessFlags::FIRST)]);
    swap(&mut replay, 3, false);
    let mut elsewhere = access(AccessKind::Write, AccessFlags::ATOMIC);
    elsewhere.address = COUNTER + 1;
    replay.accesses(ThreadId(3), &[elsewhere]);
    elsewhere.address = COUNTER - 7;
    replay.accesses(ThreadId(3), &[elsewhere]);
    swap(&mut replay, 3, true);
    let report = replay.finish();
    assert_eq!(report.final_value, 2);
    assert_eq!(report.overlapping_accesses, 1);
    let expected = ThreadIncrements {
        thread: 3,
        registered_number: Some(-7),
        increments: 1,
        even_values: 0,
        failed_swaps: 1,
        reads: 3,
        plain_writes: 1,
    };
    assert_eq!(report.threads, [expected]);
}
