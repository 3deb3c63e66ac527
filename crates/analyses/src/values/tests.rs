//! Small runs, in orders that explain their values and in orders that do not.

use super::*;

/// One access of a thread, with its value.
fn access(kind: AccessKind, address: u64, value: &[u8]) -> Access {
    let size = u32::try_from(value.len()).unwrap();
    Access {
        time: 9,
        pc: 0x40,
        address,
        size,
        kind,
        flags: AccessFlags::FIRST,
    }
}

fn step(check: &mut ValueCheck, thread: u32, kind: AccessKind, address: u64, value: &[u8]) {
    let accesses = [access(kind, address, value)];
    check.accesses(ThreadId(thread), &accesses);
    check.values(ThreadId(thread), &accesses, &[value]);
}

fn write(check: &mut ValueCheck, thread: u32, address: u64, value: &[u8]) {
    step(check, thread, AccessKind::Write, address, value);
}

fn read(check: &mut ValueCheck, thread: u32, address: u64, value: &[u8]) {
    step(check, thread, AccessKind::Read, address, value);
}

fn enter(check: &mut ValueCheck, thread: u32, number: u32, arguments: [u64; 6]) {
    check.event(
        ThreadId(thread),
        0,
        &Event::SystemCallEntry { number, arguments },
    );
}

fn leave(check: &mut ValueCheck, thread: u32, number: u32, result: i64) {
    check.event(
        ThreadId(thread),
        0,
        &Event::SystemCallExit { number, result },
    );
}

#[test]
fn the_right_order_passes_and_each_wrong_one_fails() {
    // Two threads hand a byte to one another; each step is (thread, read, written).
    let steps = [(0, 0, 1), (1, 1, 2), (0, 2, 3), (1, 3, 4)];
    let passes = |order: [usize; 4]| {
        let mut check = ValueCheck::new(&[], &[]);
        write(&mut check, 0, 0x1000, &[0]);
        for (thread, seen, written) in order.map(|index| steps[index]) {
            read(&mut check, thread, 0x1000, &[seen]);
            write(&mut check, thread, 0x1000, &[written]);
        }
        check.finish().passed()
    };
    assert!(passes([0, 1, 2, 3]));
    for wrong in [[1, 0, 2, 3], [0, 2, 1, 3], [0, 1, 3, 2], [3, 2, 1, 0]] {
        assert!(!passes(wrong), "{wrong:?}");
    }
}

#[test]
fn a_mismatch_says_where_and_what_and_is_not_repeated() {
    let mut check = ValueCheck::new(&[], &[]);
    write(&mut check, 0, 0x1ffe, &[1, 2]);
    read(&mut check, 3, 0x1ffe, &[1, 7, 8, 9]);
    read(&mut check, 3, 0x1ffe, &[1, 7, 8, 9]);
    let report = check.finish();
    assert_eq!(
        (
            report.mismatch_count,
            report.bytes_compared,
            report.bytes_learned
        ),
        (1, 6, 2)
    );
    let mismatch = &report.mismatches[0];
    assert_eq!(
        (mismatch.thread, mismatch.pc, mismatch.address),
        (3, 0x40, 0x1ffe)
    );
    assert_eq!(
        (&mismatch.expected[..], &mismatch.seen[..]),
        (&[1, 2, 8, 9][..], &[1, 7, 8, 9][..])
    );
}

#[test]
fn an_instruction_that_reads_and_writes_is_checked_before_it_writes() {
    let mut check = ValueCheck::new(&[], &[]);
    write(&mut check, 0, 0x1000, &[5]);
    let reading = access(AccessKind::Read, 0x1000, &[5]);
    let writing = Access {
        kind: AccessKind::Write,
        flags: AccessFlags(0),
        ..reading
    };
    check.accesses(ThreadId(1), &[reading, writing]);
    check.values(ThreadId(1), &[reading, writing], &[&[4], &[6]]);
    read(&mut check, 0, 0x1000, &[6]);
    let report = check.finish();
    assert_eq!(
        (report.mismatch_count, &report.mismatches[0].expected[..]),
        (1, &[5][..])
    );
}

#[test]
fn writes_without_a_value_are_forgotten_and_counted() {
    for ended_by_event in [false, true] {
        let mut check = ValueCheck::new(&[], &[]);
        write(&mut check, 0, 0x1000, &[5]);
        check.accesses(ThreadId(0), &[access(AccessKind::Write, 0x1000, &[6])]);
        if ended_by_event {
            check.event(ThreadId(0), 0, &Event::ThreadSync);
        }
        read(&mut check, 0, 0x1000, &[6]);
        let report = check.finish();
        assert!(report.passed());
        assert_eq!(
            (report.accesses_without_value, report.bytes_compared),
            (1, 0)
        );
    }
}

#[test]
fn what_the_kernel_does_to_memory_is_forgotten() {
    let forgets = |act: fn(&mut ValueCheck)| {
        let mut check = ValueCheck::new(&[], &[]);
        write(&mut check, 0, 0x3000, &[5]);
        act(&mut check);
        read(&mut check, 0, 0x3000, &[6]);
        check.finish().passed()
    };
    assert!(!forgets(|_| {}), "nothing happened");
    assert!(
        !forgets(|check| enter(check, 0, 0, [3, 0x3000, 1, 0, 0, 0])),
        "a read that wrote nothing"
    );
    assert!(forgets(|check| {
        check.event(
            ThreadId(0),
            0,
            &Event::SystemMemory {
                write: true,
                address: 0x2ff0,
                size: 17,
            },
        );
    }));
    assert!(!forgets(|check| {
        check.event(
            ThreadId(0),
            0,
            &Event::SystemMemory {
                write: false,
                address: 0x2ff0,
                size: 17,
            },
        );
    }));
    assert!(
        forgets(|check| enter(check, 1, 11, [0x2000, 0x1001, 0, 0, 0, 0])),
        "munmap"
    );
    assert!(
        !forgets(|check| enter(check, 1, 11, [0x2000, 0x1000, 0, 0, 0, 0])),
        "munmap below"
    );
    assert!(forgets(|check| {
        enter(check, 1, 9, [0, 1, 3, 0x22, 0, 0]);
        leave(check, 1, 9, 0x3000);
    }));
    assert!(!forgets(|check| {
        enter(check, 1, 9, [0x3000, 1, 3, 0x22, 0, 0]);
        leave(check, 1, 9, -12);
    }));
    assert!(
        forgets(|check| enter(check, 1, 28, [0x3000, 1, 4, 0, 0, 0])),
        "madvise"
    );
    assert!(
        !forgets(|check| enter(check, 1, 28, [0x3000, 1, 3, 0, 0, 0])),
        "harmless advice"
    );
    assert!(forgets(|check| {
        for end in [0x4000, 0x2800] {
            enter(check, 1, 12, [0; 6]);
            leave(check, 1, 12, end);
        }
    }));
    let exit = Event::Sync {
        operation: SyncOperation::ThreadExit,
        object: 0x3000,
    };
    let mut check = ValueCheck::new(&[], &[]);
    write(&mut check, 0, 0x3000, &[5, 0, 0, 0]);
    check.event(ThreadId(0), 0, &exit);
    read(&mut check, 1, 0x3000, &[0; 4]);
    assert!(check.finish().passed());
}

#[test]
fn what_others_saw_while_the_kernel_wrote_is_explained() {
    let run = |written_at: u64| {
        let mut check = ValueCheck::new(&[], &[]);
        write(&mut check, 0, 0x3000, &[5]);
        enter(&mut check, 0, 0, [3, written_at, 1, 0, 0, 0]);
        read(&mut check, 1, 0x3000, &[6]);
        check.event(
            ThreadId(0),
            0,
            &Event::SystemMemory {
                write: true,
                address: written_at,
                size: 1,
            },
        );
        leave(&mut check, 0, 0, 1);
        read(&mut check, 1, 0x3000, &[6]);
        check.finish()
    };
    let explained = run(0x3000);
    assert!(explained.passed() && explained.explained_by_system_calls == 1);
    assert!(!run(0x3001).passed());
}

#[test]
fn memory_that_other_processes_write_is_not_checked() {
    let mut check = ValueCheck::new(&[], &[]);
    enter(&mut check, 0, 9, [0, 4096, 3, 0x21, 0, 0]);
    leave(&mut check, 0, 9, 0x8000);
    write(&mut check, 0, 0x8000, &[1]);
    read(&mut check, 0, 0x8000, &[2]);
    enter(&mut check, 0, 25, [0x8000, 4096, 8192, 1, 0, 0]);
    leave(&mut check, 0, 25, 0x20000);
    write(&mut check, 0, 0x21000, &[1]);
    read(&mut check, 0, 0x21000, &[2]);
    let report = check.finish();
    assert!(report.passed() && report.bytes_not_checked == 4);
    let mut check = ValueCheck::new(&[], &[]);
    write(&mut check, 0, 0x8000, &[1]);
    read(&mut check, 0, 0x8000, &[2]);
    assert!(!check.finish().passed());
}

#[test]
fn nothing_is_checked_after_the_first_thread_was_cut_off() {
    let thread = |thread, end_time, finished| ThreadInfo {
        thread: ThreadId(thread),
        chunks: 1,
        start_time: 0,
        end_time,
        accesses: 0,
        instructions: 0,
        events: 0,
        raw_words: 0,
        file_bytes: 0,
        finished,
    };
    // The test's accesses all have time 9.
    for (threads, passes) in [
        (vec![thread(0, 20, false), thread(1, 8, false)], true),
        (vec![thread(0, 20, false), thread(1, 9, false)], false),
        (vec![thread(0, 20, false), thread(1, 8, true)], false),
    ] {
        let mut check = ValueCheck::new(&[], &threads);
        write(&mut check, 0, 0x1000, &[1]);
        read(&mut check, 0, 0x1000, &[2]);
        let report = check.finish();
        assert_eq!(report.passed(), passes);
        assert_eq!(report.accesses_not_checked, if passes { 2 } else { 0 });
    }
}
