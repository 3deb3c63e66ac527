use std::collections::BTreeMap;

use proptest::prelude::*;
use unspool_events::{
    Access, AccessFlags, AccessKind, Event, FunctionId, MemoryEffect, Sink, Span, SyncOperation,
    Synchronisation, SystemCall, ThreadEvent, ThreadId, TracedFunction,
};

use super::{Atomicity, Blindness, RaceCheck};

const MAIN: u32 = 0;
const DATA: u64 = 0x1000;
const FLAG: u64 = 0x2000;
const FUTEX: u32 = 202;
const MUCH: u64 = 1 << 30;

/// What a thread does, for tests.
#[derive(Debug, Clone, Copy)]
enum Do {
    Create(u32),
    Write(u64, u32),
    Read(u64, u32),
    /// A locked instruction, on four bytes.
    Locked(u64),
    /// A compare-and-swap that fails.
    Failed(u64),
    Futex(u64),
    /// The end, announced at a word.
    End(u64),
    Enters(u32),
    /// A command on a futex.
    Commands(u64, u64),
    Leaves(u32, i64),
    KernelWrites(u64, u64),
    KernelReads(u64, u64),
    Handles,
    Unmaps(u64, u64),
}

/// Where the address of each instruction comes from: one for each access.
fn run(blindness: Blindness, steps: &[(u32, Do)]) -> RaceCheck {
    let mut check = RaceCheck::blind_to(blindness, MUCH);
    let start = |parent| ThreadEvent::Start {
        os_thread: 1,
        parent,
    };
    check.event(ThreadId(MAIN), 0, &start(None).into());
    for (&(thread, step), time) in steps.iter().zip(1..) {
        let id = ThreadId(thread);
        let access = |address, size, kind, flags| Access {
            time,
            pc: time,
            address,
            size,
            kind,
            flags,
        };
        let (read, write) = (AccessKind::Read, AccessKind::Write);
        let atomic = AccessFlags::ATOMIC;
        let failed = atomic.with(AccessFlags::FAILED_CAS);
        let sync = |operation, object| Event::from(Synchronisation { operation, object });
        let effect = |write, address, size| {
            Event::from(MemoryEffect {
                write,
                address,
                size,
            })
        };
        let entry = |number, arguments| Event::from(SystemCall::Entry { number, arguments });
        match step {
            Do::Create(child) => {
                let create = sync(SyncOperation::ThreadCreate, child.into());
                check.event(id, time, &create);
                check.event(ThreadId(child), time, &start(Some(id)).into());
            }
            Do::Write(address, size) => {
                check.accesses(id, &[access(address, size, write, AccessFlags::default())]);
            }
            Do::Read(address, size) => {
                check.accesses(id, &[access(address, size, read, AccessFlags::default())]);
            }
            Do::Locked(address) => {
                let both = [read, write].map(|kind| access(address, 4, kind, atomic));
                check.accesses(id, &both);
            }
            Do::Failed(address) => {
                let both = [read, write].map(|kind| access(address, 4, kind, failed));
                check.accesses(id, &both);
            }
            Do::Futex(word) => check.event(id, time, &sync(SyncOperation::FutexWake, word)),
            Do::End(word) => {
                check.event(id, time, &sync(SyncOperation::ThreadExit, word));
                check.event(id, time, &ThreadEvent::End.into());
            }
            Do::Enters(number) => check.event(id, time, &entry(number, [9, 0, 0, 0, 0, 0])),
            Do::Commands(word, command) => {
                check.event(id, time, &entry(FUTEX, [word, command, 0, 0, 0, 0]));
            }
            Do::Leaves(number, result) => {
                check.event(id, time, &SystemCall::Exit { number, result }.into());
            }
            Do::KernelWrites(address, size) => {
                check.event(id, time, &effect(true, address, size));
            }
            Do::KernelReads(address, size) => {
                check.event(id, time, &effect(false, address, size));
            }
            Do::Handles => {
                check.event(id, time, &ThreadEvent::HandlerCalled { signal: 10 }.into());
            }
            Do::Unmaps(address, size) => {
                check.event(id, time, &entry(11, [address, size, 0, 0, 0, 0]));
                let number = 11;
                let result = 0;
                check.event(id, time, &SystemCall::Exit { number, result }.into());
            }
        }
    }
    check
}

/// The races, as pairs of the numbers of the steps, from 1.
fn races(blindness: Blindness, steps: &[(u32, Do)]) -> Vec<(u64, u64)> {
    let report = run(blindness, steps).report(&[], |_, _| Atomicity::Plain);
    let pcs = report.races.iter().map(|race| {
        let pc = |access: &super::RacingAccess| access.pc.unwrap_or(0);
        (pc(&race.first), pc(&race.second))
    });
    let mut pcs: Vec<_> = pcs.collect();
    pcs.sort_unstable();
    pcs
}

/// What the source says where the flag is atomic.
fn of_flag(address: u64) -> Atomicity {
    match address == FLAG {
        true => Atomicity::Atomic,
        false => Atomicity::Plain,
    }
}

/// With everything seen there is no race; blind to what orders them there is.
fn check_needed(blindness: Blindness, steps: &[(u32, Do)]) {
    assert_eq!(races(Blindness::None, steps), []);
    assert_ne!(races(blindness, steps), []);
}

use Do::{
    Commands, Create, End, Enters, Failed, Futex, Handles, KernelReads, KernelWrites, Leaves,
    Locked, Read, Unmaps, Write,
};

/// Functions that are followed, and what each is called with here.
const FOLLOWED: [&str; 4] = [
    "pthread_mutex_lock",
    "pthread_mutex_unlock",
    "malloc",
    "free",
];

/// A thread calls one of these functions, which returns something.
fn calls(check: &mut RaceCheck, thread: u32, time: u64, name: &str, argument: u64, value: u64) {
    let number = FOLLOWED.iter().position(|known| *known == name);
    let function = FunctionId(number.expect("a function that is followed") as u32);
    let stack_pointer = 0x7fff_0000;
    let call = Span::FunctionCall {
        function,
        stack_pointer,
        arguments: [argument, 0, 0],
    };
    check.event(ThreadId(thread), time, &call.into());
    let back = Span::FunctionReturn {
        function,
        stack_pointer,
        value,
        stored: None,
    };
    check.event(ThreadId(thread), time + 1, &back.into());
}

/// One thread writes a block with one lock, another one without any, and the block is freed between.
fn run_with_functions(are_followed: bool) -> RaceCheck {
    let mut check = run(Blindness::None, &[(0, Create(1))]);
    for (id, name) in (0..).map(FunctionId).zip(FOLLOWED) {
        if are_followed {
            let name = name.to_owned();
            check.function(&TracedFunction {
                id,
                name,
                address: 0,
            });
        }
    }
    let write = |check: &mut RaceCheck, thread: u32, time: u64| {
        let access = Access {
            time,
            pc: time,
            address: DATA,
            size: 8,
            kind: AccessKind::Write,
            flags: AccessFlags::default(),
        };
        check.accesses(ThreadId(thread), &[access]);
    };
    calls(&mut check, 0, 10, "malloc", 64, DATA - 16);
    calls(&mut check, 1, 20, "pthread_mutex_lock", 0x100, 0);
    write(&mut check, 1, 30);
    calls(&mut check, 1, 40, "pthread_mutex_lock", 0x200, 0);
    calls(&mut check, 1, 50, "pthread_mutex_unlock", 0x100, 0);
    calls(&mut check, 1, 60, "free", DATA - 16, 0);
    write(&mut check, 0, 70);
    calls(&mut check, 0, 80, "pthread_mutex_lock", 0x300, 0);
    check
}

#[test]
fn held_locks_and_the_block_are_told() {
    let report = run_with_functions(true).report(&[], |_, _| Atomicity::Plain);
    let [race] = &report.races[..] else {
        panic!("there is one race: {report:?}");
    };
    let held = race.locks.each_ref().map(|held| {
        let held = held.iter().flatten();
        held.map(|lock| lock.address).collect::<Vec<u64>>()
    });
    assert_eq!(held, [vec![0x100], vec![]]);
    assert!(race.locks.iter().all(Option::is_some));
    let block = race.block.expect("a block");
    assert_eq!((block.address, block.size), (DATA - 16, 64));
    assert_eq!(block.allocated.thread, 0);
    assert_eq!(block.freed.map(|step| step.thread), Some(1));
    assert!(report.saw_heap);
}

#[test]
fn of_functions_that_are_not_followed_nothing_is_told() {
    let report = run_with_functions(false).report(&[], |_, _| Atomicity::Plain);
    let [race] = &report.races[..] else {
        panic!("there is one race: {report:?}");
    };
    assert_eq!(race.locks, [None, None]);
    assert_eq!(race.block, None);
    assert!(!report.saw_heap);
}

#[test]
fn accesses_that_nothing_orders_race() {
    let steps = [(0, Create(1)), (0, Write(DATA, 4)), (1, Read(DATA, 4))];
    assert_eq!(races(Blindness::None, &steps), [(2, 3)]);
    let reads = [(0, Create(1)), (0, Read(DATA, 4)), (1, Read(DATA, 4))];
    assert_eq!(races(Blindness::None, &reads), []);
}

#[test]
fn neighbouring_bytes_do_not_race() {
    let steps = |first, second| [(0, Create(1)), (0, first), (1, second)];
    for (first, second, expected) in [
        (Write(DATA, 1), Write(DATA + 1, 1), 0),
        (Write(DATA, 4), Write(DATA + 4, 4), 0),
        (Write(DATA + 3, 2), Write(DATA + 4, 1), 1),
        (Write(DATA + 6, 4), Read(DATA + 9, 1), 1),
        (Write(DATA + 6, 4), Read(DATA + 10, 1), 0),
        (Write(DATA, 64), Read(DATA + 63, 1), 1),
        (Write(DATA, 64), Read(DATA + 64, 1), 0),
    ] {
        let found = races(Blindness::None, &steps(first, second));
        assert_eq!(found.len(), expected, "{first:?} {second:?}");
    }
}

#[test]
fn a_thread_comes_behind_its_creation() {
    check_needed(
        Blindness::Creation,
        &[
            (0, Create(2)),
            (0, Write(DATA, 8)),
            (0, Create(1)),
            (1, Write(DATA, 8)),
        ],
    );
}

#[test]
fn a_thread_ends_before_who_reads_that_it_has() {
    check_needed(
        Blindness::Ends,
        &[
            (0, Create(1)),
            (1, Write(DATA, 8)),
            (1, End(FLAG)),
            (0, Read(FLAG, 4)),
            (0, Write(DATA, 8)),
        ],
    );
}

#[test]
fn a_lock_orders_what_is_done_with_it() {
    let rounds = [0, 1, 0, 1].map(|thread| {
        [
            (thread, Locked(FLAG)),
            (thread, Write(DATA, 4)),
            (thread, Locked(FLAG)),
        ]
    });
    let mut steps = vec![(0, Create(1))];
    steps.extend(rounds.concat());
    check_needed(Blindness::Words, &steps);
}

#[test]
fn a_write_hides_all_that_came_before_it() {
    let steps = [
        (0, Create(1)),
        (0, Create(2)),
        (0, Write(DATA, 8)),
        (0, Locked(FLAG)),
        (1, Locked(FLAG)),
        (1, Read(DATA, 8)),
        (1, Locked(FLAG)),
        (0, Locked(FLAG)),
        (0, Write(DATA, 8)),
        (2, Write(DATA, 8)),
    ];
    // The read, which the second write hides, is not met again by the third.
    assert_eq!(races(Blindness::None, &steps), [(9, 10)]);
}

#[test]
fn a_plain_store_releases_what_was_locked() {
    check_needed(
        Blindness::Words,
        &[
            (0, Create(1)),
            (0, Locked(FLAG)),
            (0, Write(DATA, 4)),
            (0, Write(FLAG, 4)),
            (1, Locked(FLAG)),
            (1, Write(DATA, 4)),
        ],
    );
}

#[test]
fn a_store_before_any_locked_instruction_releases_too() {
    let steps = [
        (0, Create(1)),
        (0, Write(DATA, 4)),
        (0, Write(FLAG, 4)),
        (1, Locked(FLAG)),
        (1, Write(DATA, 4)),
    ];
    assert_eq!(races(Blindness::None, &steps), []);
}

#[test]
fn that_a_word_is_one_may_be_learnt_last() {
    let before = [
        (0, Create(1)),
        (0, Write(DATA, 4)),
        (0, Write(FLAG, 4)),
        (1, Read(FLAG, 4)),
        (1, Write(DATA, 4)),
    ];
    assert_eq!(races(Blindness::None, &before), [(2, 5), (3, 4)]);
    let mut steps = before.to_vec();
    steps.push((0, Futex(FLAG)));
    assert_eq!(races(Blindness::None, &steps), []);
    // What the word does not order remains.
    steps.push((0, Write(DATA, 4)));
    assert_eq!(races(Blindness::None, &steps), [(5, 7)]);
}

#[test]
fn what_comes_behind_a_store_is_not_told_by_it() {
    let steps = [
        (0, Create(1)),
        (0, Write(FLAG, 4)),
        (0, Futex(FLAG)),
        (0, Write(DATA, 4)),
        (1, Read(FLAG, 4)),
        (1, Write(DATA, 4)),
    ];
    assert_eq!(races(Blindness::None, &steps), [(4, 6)]);
}

#[test]
fn what_the_source_calls_atomic_orders() {
    let steps = [
        (0, Create(1)),
        (0, Write(DATA, 4)),
        (0, Write(FLAG, 4)),
        (1, Read(FLAG, 4)),
        (1, Write(DATA, 4)),
        (0, Read(DATA, 4)),
    ];
    let report = run(Blindness::None, &steps).report(&[], |_, address| of_flag(address));
    let pcs = report
        .races
        .iter()
        .map(|race| (race.first.pc, race.second.pc));
    assert_eq!(pcs.collect::<Vec<_>>(), [(Some(5), Some(6))]);
}

#[test]
fn what_comes_behind_an_atomic_store_is_not_told_by_it() {
    let races = |stores: &[(u32, Do)]| {
        let reads = [(1, Read(FLAG, 4)), (1, Read(DATA, 4))];
        let steps = [&[(0, Create(1))], stores, &reads].concat();
        let report = run(Blindness::None, &steps).report(&[], |_, address| of_flag(address));
        report.races.len()
    };
    let (data, flag) = ((0, Write(DATA, 4)), (0, Write(FLAG, 4)));
    assert_eq!(races(&[flag, data]), 1);
    assert_eq!(races(&[data, flag, data]), 1);
    assert_eq!(races(&[data, flag]), 0);
}

/// The epochs that a thread has begun after 200 stores, by so many places.
fn epochs_of_stores(places: u64) -> u32 {
    let mut check = run(Blindness::None, &[(MAIN, Do::Create(1))]);
    for number in 0..200 {
        let access = Access {
            time: 10 + number,
            pc: number % places,
            address: DATA + 8 * number,
            size: 8,
            kind: AccessKind::Write,
            flags: AccessFlags::default(),
        };
        check.accesses(ThreadId(MAIN), &[access]);
    }
    let thread = check.detector.threads.get(ThreadId(MAIN));
    thread.expect("it runs").epoch().clock()
}

#[test]
fn the_first_stores_of_a_place_alone_begin_epochs() {
    // The first store leaves the epoch that the creation has told.
    assert_eq!(epochs_of_stores(1), 1 + 1 + 64);
    assert_eq!(epochs_of_stores(2), 1 + 1 + 128);
}

#[test]
fn what_may_be_atomic_may_order() {
    let steps = |data: u32| {
        [
            (0, Create(1)),
            (0, Write(DATA, data)),
            (0, Write(FLAG, 4)),
            (1, Read(FLAG, 4)),
            (1, Write(DATA, data)),
            (0, Read(DATA, data)),
        ]
    };
    let report = |data: u32, known: Atomicity| {
        let check = run(Blindness::None, &steps(data));
        let report = check.report(&[], |_, _| known);
        let pcs = |races: &[super::Race]| races.iter().map(|it| it.time).collect::<Vec<_>>();
        (pcs(&report.races), pcs(&report.possible))
    };
    // Wider than an atomic access is: the last is a race whatever the flag is.
    assert_eq!(report(16, Atomicity::Unknown), (vec![6], vec![4, 5]));
    assert_eq!(report(8, Atomicity::Unknown), (vec![], vec![4, 5, 6]));
    assert_eq!(report(16, Atomicity::Plain), (vec![4, 5, 6], vec![]));
}

#[test]
fn late_edges_are_followed_through_threads() {
    let steps = [
        (0, Create(1)),
        (0, Create(2)),
        (0, Write(DATA, 4)),
        (0, Write(FLAG, 4)),
        (1, Read(FLAG, 4)),
        (1, Write(FLAG + 8, 4)),
        (2, Read(FLAG + 8, 4)),
        (2, Write(DATA, 4)),
        (2, Futex(FLAG)),
        (2, Futex(FLAG + 8)),
    ];
    assert_eq!(races(Blindness::None, &steps), []);
    assert_eq!(races(Blindness::None, &steps[..9]), [(3, 8), (6, 7)]);
}

#[test]
fn a_failed_swap_tells_nothing() {
    let steps = [
        (0, Create(1)),
        (0, Write(DATA, 4)),
        (0, Failed(FLAG)),
        (1, Locked(FLAG)),
        (1, Write(DATA, 4)),
    ];
    assert_eq!(races(Blindness::None, &steps), [(2, 5)]);
}

#[test]
fn words_side_by_side_are_two() {
    let steps = |second| {
        [
            (0, Create(1)),
            (0, Locked(FLAG)),
            (0, Write(DATA, 4)),
            (0, Locked(FLAG)),
            (1, Locked(second)),
            (1, Write(DATA, 4)),
        ]
    };
    assert_eq!(races(Blindness::None, &steps(FLAG)), []);
    assert_eq!(races(Blindness::None, &steps(FLAG + 4)), [(3, 6)]);
}

#[test]
fn a_pipe_orders_and_a_file_does_not() {
    const WRITE: u32 = 1;
    const READ: u32 = 0;
    const OPENAT: u32 = 257;
    let steps = [
        (0, Create(1)),
        (0, Write(DATA, 4)),
        (0, Enters(WRITE)),
        (0, Leaves(WRITE, 1)),
        (1, Enters(READ)),
        (1, Leaves(READ, 1)),
        (1, Write(DATA, 4)),
    ];
    check_needed(Blindness::Descriptors, &steps);
    // The tests' calls have the descriptor 9 as their first argument.
    let mut of_file = vec![(0, Enters(OPENAT)), (0, Leaves(OPENAT, 9))];
    of_file.extend(steps);
    assert_eq!(races(Blindness::None, &of_file), [(4, 9)]);
}

#[test]
fn a_lock_that_the_kernel_hands_on_orders() {
    // With the flag of futexes that one process has to itself.
    const LOCK_PI: u64 = 6 | 128;
    const UNLOCK_PI: u64 = 7 | 128;
    const NOT_AT_ONCE: i64 = -11;
    let steps = |word, result| {
        [
            (0, Create(1)),
            (0, Locked(FLAG)),
            (1, Commands(FLAG, LOCK_PI)),
            (0, Write(DATA, 4)),
            (0, Commands(word, UNLOCK_PI)),
            (0, Leaves(FUTEX, 0)),
            (1, Leaves(FUTEX, result)),
            (1, Write(DATA, 4)),
        ]
    };
    check_needed(Blindness::Words, &steps(FLAG, 0));
    for unordered in [steps(FLAG + 4, 0), steps(FLAG, NOT_AT_ONCE)] {
        assert_eq!(races(Blindness::None, &unordered), [(4, 8)]);
    }
    // What comes behind the handing on is not told by it.
    let mut late = steps(FLAG, 0);
    late.swap(3, 4);
    assert_eq!(races(Blindness::None, &late), [(5, 8)]);
}

#[test]
fn what_the_kernel_reads_is_read_before_what_its_call_told() {
    const WRITE: u32 = 1;
    const READ: u32 = 0;
    let steps = [
        (0, Create(1)),
        (0, Write(DATA, 8)),
        (0, Enters(WRITE)),
        (1, Enters(READ)),
        (1, Leaves(READ, 1)),
        (1, Write(DATA, 8)),
        (0, KernelReads(DATA, 8)),
        (0, Leaves(WRITE, 8)),
    ];
    assert_eq!(races(Blindness::None, &steps), []);
    // So too where the call is the first that the thread does behind a lock.
    let mut locked = steps.to_vec();
    locked.insert(2, (0, Locked(FLAG)));
    assert_eq!(races(Blindness::None, &locked), []);
}

#[test]
fn the_kernel_races_too() {
    const READ: u32 = 0;
    let steps = [
        (0, Create(1)),
        (0, Enters(READ)),
        (0, KernelWrites(DATA, 8)),
        (0, Leaves(READ, 8)),
        (1, Read(DATA, 1)),
    ];
    assert_eq!(races(Blindness::None, &steps), [(0, 5)]);
}

#[test]
fn a_signal_orders_its_handler() {
    const TGKILL: u32 = 234;
    check_needed(
        Blindness::Signals,
        &[
            (0, Create(1)),
            (0, Write(DATA, 4)),
            (0, Enters(TGKILL)),
            (0, Leaves(TGKILL, 0)),
            (1, Handles),
            (1, Write(DATA, 4)),
        ],
    );
}

#[test]
fn other_memory_at_an_address_is_other_memory() {
    let steps = [
        (0, Create(1)),
        (0, Write(DATA, 4)),
        (0, Unmaps(DATA, 4096)),
        (1, Write(DATA, 4)),
    ];
    assert_eq!(races(Blindness::None, &steps), []);
}

#[test]
fn slots_of_ended_threads_hide_nothing() {
    // Thread 1 has ended, and nobody knows: thread 2 must not pass for it.
    let steps = [
        (0, Create(1)),
        (1, Write(DATA, 4)),
        (1, End(FLAG)),
        (0, Create(2)),
        (2, Write(DATA, 4)),
    ];
    assert_eq!(races(Blindness::None, &steps), [(2, 5)]);
}

#[test]
fn memory_that_is_short_is_no_reason_to_end() {
    let mut check = RaceCheck::new(1);
    let steps = [(0, Create(1)), (0, Write(DATA, 4)), (1, Write(DATA, 4))];
    let mut found = run(Blindness::None, &steps);
    assert_eq!(found.report(&[], |_, _| Atomicity::Plain).forgotten, 0);
    let start = ThreadEvent::Start {
        os_thread: 1,
        parent: None,
    };
    check.event(ThreadId(0), 0, &start.clone().into());
    check.event(ThreadId(1), 0, &start.into());
    let write = Access {
        time: 1,
        pc: 1,
        address: DATA,
        size: 8,
        kind: AccessKind::Write,
        flags: AccessFlags::FIRST,
    };
    for _ in 0..(1 << 12) {
        check.accesses(ThreadId(0), &[write; 1 << 9]);
    }
    assert!(check.report(&[], |_, _| Atomicity::Plain).forgotten > 0);
    found.cut_off(&[]);
}

/// The same question, answered by full vector clocks for each byte.
#[derive(Default)]
struct Naive {
    clocks: BTreeMap<u32, BTreeMap<u32, u64>>,
    words: BTreeMap<u64, BTreeMap<u32, u64>>,
    /// For each byte the accesses: thread, its count, whether it writes, step.
    bytes: BTreeMap<u64, Vec<(u32, u64, bool, u64)>>,
}

impl Naive {
    fn access(&mut self, thread: u32, address: u64, size: u32, write: bool) -> bool {
        let clock = self.clocks.entry(thread).or_default();
        *clock.entry(thread).or_default() += 1;
        let clock = clock.clone();
        let mut races = false;
        for byte in address..address + u64::from(size) {
            let before = self.bytes.entry(byte).or_default();
            races |= before.iter().any(|&(other, count, wrote, _)| {
                (wrote || write) && clock.get(&other).is_none_or(|known| *known < count)
            });
            before.push((thread, clock[&thread], write, 0));
        }
        races
    }

    fn locked(&mut self, thread: u32, word: u64) {
        let clock = self.clocks.entry(thread).or_default();
        let word = self.words.entry(word).or_default();
        for (from, to) in &*word {
            let own = clock.entry(*from).or_default();
            *own = (*own).max(*to);
        }
        word.clone_from(clock);
    }
}

fn any_step() -> impl Strategy<Value = (u32, Do)> {
    let address = || {
        (
            DATA..DATA + 24,
            prop::sample::select(vec![1_u32, 2, 4, 8, 16]),
        )
    };
    let step = prop_oneof![
        3 => address().prop_map(|(address, size)| Write(address, size)),
        3 => address().prop_map(|(address, size)| Read(address, size)),
        2 => (0..3_u64).prop_map(|word| Locked(FLAG + 8 * word)),
    ];
    (0..4_u32, step)
}

proptest! {
    /// Exactly those bytes that race by the definition are found to, up to the first race of each
    /// step: every step that races with an earlier one is the second place of a finding, as long as
    /// no byte of it has raced before.
    #[test]
    fn as_by_the_definition(steps in prop::collection::vec(any_step(), 1..60)) {
        let mut all = vec![(0, Create(1)), (0, Create(2)), (0, Create(3))];
        let mut naive = Naive::default();
        for thread in 0..4 {
            naive.clocks.entry(thread).or_default();
        }
        let mut expected = None;
        for &(thread, step) in &steps {
            all.push((thread, step));
            let races = match step {
                Write(address, size) => naive.access(thread, address, size, true),
                Read(address, size) => naive.access(thread, address, size, false),
                Locked(word) => {
                    naive.locked(thread, word);
                    false
                }
                _ => false,
            };
            if races {
                expected = Some(all.len() as u64);
                break;
            }
        }
        let found = races(Blindness::None, &all);
        match expected {
            None => prop_assert_eq!(found, []),
            Some(step) => prop_assert!(
                !found.is_empty() && found.iter().all(|&(_, second)| second == step),
                "step {} races, found {:?}", step, found
            ),
        }
    }
}
