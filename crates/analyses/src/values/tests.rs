//! Small runs, in orders that explain their values and in orders that do not.

use unspool_events::ThreadEvent;

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
        &Event::SystemCall(SystemCall::Entry { number, arguments }),
    );
}

fn leave(check: &mut ValueCheck, thread: u32, number: u32, result: i64) {
    check.event(
        ThreadId(thread),
        0,
        &Event::SystemCall(SystemCall::Exit { number, result }),
    );
}

#[test]
fn the_right_order_passes_and_each_wrong_one_fails() {
    // Two threads hand a byte to one another; each step is (thread, read, written).
    let steps = [(0, 0, 1), (1, 1, 2), (0, 2, 3), (1, 3, 4)];
    let passes = |order: [usize; 4]| {
        let mut check = ValueCheck::new(&[]);
        write(&mut check, 0, 0x1000, &[0]);
        for (thread, seen, written) in order.map(|index| steps[index]) {
            read(&mut check, thread, 0x1000, &[seen]);
            write(&mut check, thread, 0x1000, &[written]);
        }
        check.finish(&[]).mismatch_count == 0
    };
    assert!(passes([0, 1, 2, 3]));
    for wrong in [[1, 0, 2, 3], [0, 2, 1, 3], [0, 1, 3, 2], [3, 2, 1, 0]] {
        assert!(!passes(wrong), "{wrong:?}");
    }
}

#[test]
fn a_mismatch_says_where_and_what_and_is_not_repeated() {
    let mut check = ValueCheck::new(&[]);
    write(&mut check, 0, 0x1ffe, &[1, 2]);
    read(&mut check, 3, 0x1ffe, &[1, 7, 8, 9]);
    read(&mut check, 3, 0x1ffe, &[1, 7, 8, 9]);
    let report = check.finish(&[]);
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
    let mut check = ValueCheck::new(&[]);
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
    let report = check.finish(&[]);
    assert_eq!(
        (report.mismatch_count, &report.mismatches[0].expected[..]),
        (1, &[5][..])
    );
}

#[test]
fn writes_without_a_value_are_forgotten_and_counted() {
    for ended_by_event in [false, true] {
        let mut check = ValueCheck::new(&[]);
        write(&mut check, 0, 0x1000, &[5]);
        check.accesses(ThreadId(0), &[access(AccessKind::Write, 0x1000, &[6])]);
        if ended_by_event {
            check.event(ThreadId(0), 0, &Event::Thread(ThreadEvent::ClockMoved));
        }
        read(&mut check, 0, 0x1000, &[6]);
        let report = check.finish(&[]);
        assert!(report.mismatch_count == 0);
        assert_eq!(
            (report.accesses_without_value, report.bytes_compared),
            (1, 0)
        );
    }
}

#[test]
fn what_the_kernel_does_to_memory_is_forgotten() {
    let forgets = |act: fn(&mut ValueCheck)| {
        let mut check = ValueCheck::new(&[]);
        write(&mut check, 0, 0x3000, &[5]);
        act(&mut check);
        read(&mut check, 0, 0x3000, &[6]);
        check.finish(&[]).mismatch_count == 0
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
            &Event::MemoryEffect(MemoryEffect {
                write: true,
                address: 0x2ff0,
                size: 17,
            }),
        );
    }));
    assert!(!forgets(|check| {
        check.event(
            ThreadId(0),
            0,
            &Event::MemoryEffect(MemoryEffect {
                write: false,
                address: 0x2ff0,
                size: 17,
            }),
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
    let exit = Event::Synchronisation(Synchronisation {
        operation: SyncOperation::ThreadExit,
        object: 0x3000,
    });
    let mut check = ValueCheck::new(&[]);
    write(&mut check, 0, 0x3000, &[5, 0, 0, 0]);
    check.event(ThreadId(0), 0, &exit);
    read(&mut check, 1, 0x3000, &[0; 4]);
    assert!(check.finish(&[]).mismatch_count == 0);
}

#[test]
fn what_others_saw_while_the_kernel_wrote_is_explained() {
    let run = |written_at: u64| {
        let mut check = ValueCheck::new(&[]);
        write(&mut check, 0, 0x3000, &[5]);
        enter(&mut check, 0, 0, [3, written_at, 1, 0, 0, 0]);
        read(&mut check, 1, 0x3000, &[6]);
        check.event(
            ThreadId(0),
            0,
            &Event::MemoryEffect(MemoryEffect {
                write: true,
                address: written_at,
                size: 1,
            }),
        );
        leave(&mut check, 0, 0, 1);
        read(&mut check, 1, 0x3000, &[6]);
        check.finish(&[])
    };
    let explained = run(0x3000);
    assert!(explained.mismatch_count == 0 && explained.explained_by_system_calls == 1);
    assert!(run(0x3001).mismatch_count != 0);
}

fn map_shared(check: &mut ValueCheck, address: u64, inode: u64, offset: u64, own: bool) {
    enter(check, 0, 9, [0, 4096, 3, 1, 5, offset]);
    let shared = Event::Mapping(Mapping::Shared {
        address,
        size: 4096,
        device: 1,
        inode,
        offset,
        own,
    });
    check.event(ThreadId(0), 0, &shared);
    leave(check, 0, 9, address.cast_signed());
}

#[test]
fn shared_memory_of_which_nothing_is_known_is_not_checked() {
    let mut check = ValueCheck::new(&[]);
    enter(&mut check, 0, 9, [0, 4096, 3, 0x21, 0, 0]);
    leave(&mut check, 0, 9, 0x8000);
    write(&mut check, 0, 0x8000, &[1]);
    read(&mut check, 0, 0x8000, &[2]);
    enter(&mut check, 0, 25, [0x8000, 4096, 8192, 1, 0, 0]);
    leave(&mut check, 0, 25, 0x20000);
    write(&mut check, 0, 0x21000, &[1]);
    read(&mut check, 0, 0x21000, &[2]);
    let report = check.finish(&[]);
    assert_eq!((report.mismatch_count, report.foreign_accesses), (0, 4));
    assert_eq!(report.verdict(), Verdict::PartlyChecked);
    let mut check = ValueCheck::new(&[]);
    write(&mut check, 0, 0x8000, &[1]);
    read(&mut check, 0, 0x8000, &[2]);
    assert_eq!(check.finish(&[]).verdict(), Verdict::Failed);
}

#[test]
fn what_is_written_through_one_mapping_is_read_through_another() {
    let run = |inode, offset, seen| {
        let mut check = ValueCheck::new(&[]);
        map_shared(&mut check, 0x8000, 7, 0, true);
        map_shared(&mut check, 0x2_0000, inode, offset, true);
        write(&mut check, 0, 0x2_0008, &[1]);
        write(&mut check, 1, 0x8008, &[2]);
        read(&mut check, 0, 0x2_0008, &[seen]);
        check.finish(&[]).verdict()
    };
    assert_eq!(run(7, 0, 2), Verdict::Passed);
    assert_eq!(run(7, 0, 1), Verdict::Failed, "the order is wrong");
    assert_eq!(run(8, 0, 1), Verdict::Passed, "another object");
    assert_eq!(run(7, 4096, 1), Verdict::Passed, "another page of it");
}

#[test]
fn what_others_may_have_written_is_neither_right_nor_wrong() {
    let run = |own, act: fn(&mut ValueCheck)| {
        let mut check = ValueCheck::new(&[]);
        map_shared(&mut check, 0x8000, 7, 0, own);
        act(&mut check);
        write(&mut check, 0, 0x8000, &[1]);
        read(&mut check, 0, 0x8000, &[1]);
        let explained = check.report.clone();
        read(&mut check, 0, 0x8000, &[2]);
        let report = check.finish(&[]);
        assert_eq!(explained.unchecked(), 0);
        (report.verdict(), report.unexplained_in_open_memory)
    };
    let nothing = |_: &mut ValueCheck| {};
    assert_eq!(run(true, nothing), (Verdict::Failed, 0));
    assert_eq!(run(false, nothing), (Verdict::PartlyChecked, 1));
    for act in [
        |check: &mut ValueCheck| {
            check.event(
                ThreadId(0),
                0,
                &Event::Process(ProcessEvent::Fork { child: 5 }),
            )
        },
        |check: &mut ValueCheck| enter(check, 1, 57, [0; 6]),
        |check: &mut ValueCheck| enter(check, 1, 46, [6, 0, 0, 0, 0, 0]),
        |check: &mut ValueCheck| enter(check, 1, 1, [6, 0x100, 1, 0, 0, 0]),
    ] {
        assert_eq!(run(true, act), (Verdict::PartlyChecked, 1));
    }
    let to_standard_output = |check: &mut ValueCheck| enter(check, 1, 1, [1, 0x100, 1, 0, 0, 0]);
    assert_eq!(run(true, to_standard_output), (Verdict::Failed, 0));
}

#[test]
fn what_the_kernel_may_write_at_any_time_is_neither_right_nor_wrong() {
    let run = |number| {
        let mut check = ValueCheck::new(&[]);
        enter(&mut check, 0, number, [8, 0x100, 0, 0, 0, 0]);
        leave(&mut check, 0, number, 5);
        write(&mut check, 0, 0x8000, &[1]);
        read(&mut check, 0, 0x8000, &[2]);
        let report = check.finish(&[]);
        (report.verdict(), report.unexplained_in_open_memory)
    };
    for queues in [209, 425, 426] {
        assert_eq!(run(queues), (Verdict::PartlyChecked, 1));
    }
    let getpid = 39;
    assert_eq!(run(getpid), (Verdict::Failed, 0));
}

fn thread(thread: u32, end_time: u64, finished: bool) -> ThreadInfo {
    ThreadInfo {
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
    }
}

#[test]
fn what_was_cut_off_is_compared_but_refutes_nothing() {
    // The test's accesses all have time 9.
    for (threads, verdict) in [
        (
            vec![thread(0, 20, false), thread(1, 8, false)],
            Verdict::PartlyChecked,
        ),
        (
            vec![thread(0, 20, false), thread(1, 9, false)],
            Verdict::Failed,
        ),
        (
            vec![thread(0, 20, false), thread(1, 8, true)],
            Verdict::Failed,
        ),
    ] {
        let mut check = ValueCheck::new(&threads);
        write(&mut check, 0, 0x1000, &[1]);
        read(&mut check, 0, 0x1000, &[1]);
        read(&mut check, 0, 0x1000, &[2]);
        let report = check.finish(&[]);
        assert_eq!(report.verdict(), verdict);
        assert_eq!(report.bytes_compared, 2);
        let after = if verdict == Verdict::Failed {
            [0, 0]
        } else {
            [3, 1]
        };
        assert_eq!(
            [report.accesses_after_loss, report.unexplained_after_loss],
            after
        );
    }
}

#[test]
fn a_loss_is_told_after_it_happened() {
    let run = |reached: u64, problems: &[Problem]| {
        let mut check = ValueCheck::new(&[]);
        check.event(
            ThreadId(1),
            reached,
            &Event::Thread(ThreadEvent::ClockMoved),
        );
        write(&mut check, 0, 0x1000, &[1]);
        read(&mut check, 0, 0x1000, &[2]);
        let dropped = Event::Loss(Loss {
            words: 0,
            reason: String::new(),
        });
        if problems.is_empty() {
            check.event(ThreadId(1), 12, &dropped);
        }
        check.finish(problems).verdict()
    };
    assert_eq!(run(8, &[]), Verdict::PartlyChecked);
    assert_eq!(run(9, &[]), Verdict::Failed, "it was complete until then");
    let unknown = Problem::UnknownPath {
        thread: ThreadId(1),
        records: 1,
    };
    assert_eq!(run(9, &[unknown]), Verdict::PartlyChecked);
}

#[test]
fn the_writes_of_a_thread_that_is_not_there_are_missing() {
    let run = |created: u64| {
        let mut check = ValueCheck::new(&[thread(0, 20, true), thread(1, 20, true)]);
        let create = Event::Synchronisation(Synchronisation {
            operation: SyncOperation::ThreadCreate,
            object: created,
        });
        check.event(ThreadId(0), 5, &create);
        write(&mut check, 0, 0x1000, &[1]);
        read(&mut check, 0, 0x1000, &[2]);
        check.finish(&[]).verdict()
    };
    assert_eq!(run(1), Verdict::Failed);
    assert_eq!(run(2), Verdict::PartlyChecked);
}

#[test]
fn the_kernels_clock_is_no_matter_of_order() {
    let clock = Module {
        id: unspool_events::ModuleId(0),
        path: b"[vvar]".to_vec(),
        base: 0x8000,
        size: 0x2000,
        build_id: Vec::new(),
    };
    let mut check = ValueCheck::new(&[]);
    check.module(&clock);
    write(&mut check, 0, 0x4000, &[1]);
    read(&mut check, 0, 0x8010, &[1]);
    read(&mut check, 0, 0x8010, &[2]);
    let report = check.finish(&[]);
    assert_eq!((report.clock_reads, report.accesses()), (2, 1));
    assert_eq!(report.verdict(), Verdict::Passed);
}

#[test]
fn times_cannot_tell_what_came_first_once_there_are_two_threads() {
    let created = Event::Synchronisation(Synchronisation {
        operation: SyncOperation::ThreadCreate,
        object: 1,
    });
    let replayed = |order, creates: bool| {
        let mut check = ValueCheck::new(&[]).with_order(order);
        write(&mut check, 0, 0x1000, &[1]);
        if creates {
            check.event(ThreadId(0), 5, &created);
        }
        read(&mut check, 0, 0x1000, &[2]);
        let report = check.finish(&[]);
        (report.verdict(), report.unexplained_between_stamps)
    };
    for order in [Order::LineAtomic, Order::Ticket, Order::None] {
        assert_eq!(replayed(order, true), (Verdict::Failed, 0), "{order:?}");
    }
    assert_eq!(
        replayed(Order::Timestamp, true),
        (Verdict::PartlyChecked, 1)
    );
    // The only thread's own order is known in any case.
    assert_eq!(replayed(Order::Timestamp, false), (Verdict::Failed, 0));
}
