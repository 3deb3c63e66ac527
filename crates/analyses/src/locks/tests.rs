use super::*;
use unspool_events::{Synchronisation, TracedFunction};

/// What threads do, one after the other: `thread function object [second argument]`, each of which
/// succeeds, but for those that end in `...`, which do not return, and `=N`, which return that.
fn check(text: &str) -> LockReport {
    let mut locks = LockCheck::default();
    for (number, name) in functions().enumerate() {
        locks.function(&TracedFunction {
            id: FunctionId(number as u32),
            name: name.to_owned(),
            address: 0,
        });
    }
    let call = SystemCall::Entry {
        number: 158,
        arguments: [0; 6],
    };
    locks.event(ThreadId(0), 0, &Event::SystemCall(call), ContextId::NONE);
    for (time, line) in text
        .lines()
        .map(str::trim)
        .filter(|it| !it.is_empty())
        .enumerate()
    {
        step(&mut locks, time as u64, line);
    }
    locks.report(|_| false)
}

fn step(locks: &mut LockCheck, time: u64, line: &str) {
    let mut words = line.split_whitespace();
    let id = ThreadId(words.next().unwrap().parse().unwrap());
    let name = words.next().unwrap();
    let rest: Vec<&str> = words.collect();
    let number = |text: &str| text.parse::<u64>().ok();
    let mut event = |event: Event| locks.event(id, time, &event, ContextId::NONE);
    match name {
        "creates" => {
            let child = number(rest[0]).unwrap();
            event(Event::Synchronisation(Synchronisation {
                operation: SyncOperation::ThreadCreate,
                object: child,
            }));
            let start = Event::Thread(ThreadEvent::Start {
                os_thread: 1,
                parent: Some(id),
            });
            let address = 1000 + child;
            let child = ThreadId(child as u32);
            locks.event(child, time, &start, ContextId::NONE);
            let pointer = Event::Thread(ThreadEvent::Pointer {
                address,
                variables: None,
            });
            locks.event(child, time, &pointer, ContextId::NONE);
        }
        "exits" => event(Event::Synchronisation(Synchronisation {
            operation: SyncOperation::ThreadExit,
            object: 0,
        })),
        "sleeps" => event(Event::SystemCall(SystemCall::Entry {
            number: FUTEX,
            arguments: [number(rest[0]).unwrap(), 0, 0, 0, 0, 0],
        })),
        _ => {
            let place = functions().position(|it| it == name).unwrap();
            let function = FunctionId(place as u32);
            let argument = |place: usize| rest.get(place).and_then(|it| number(it)).unwrap_or(0);
            event(Event::Span(Span::FunctionCall {
                function,
                stack_pointer: 8,
                arguments: [argument(0), argument(1), 0],
            }));
            let value = match rest.last() {
                Some(&"...") => return,
                Some(last) => last.strip_prefix('=').and_then(number).unwrap_or(0),
                None => 0,
            };
            event(Event::Span(Span::FunctionReturn {
                function,
                stack_pointer: 8,
                value,
                stored: None,
            }));
        }
    }
}

/// Two threads that take two locks in either order one after the other, with something around and
/// between.
fn in_both_orders(before: &str, between: &str, first: [&str; 2], second: [&str; 2]) -> LockReport {
    let take = |thread: u32, [outer, inner]: [&str; 2]| {
        let unlock = |lock: &str| match lock.contains("rwlock") {
            true => "pthread_rwlock_unlock",
            false => "pthread_mutex_unlock",
        };
        let number = |lock: &str| lock.rsplit(' ').next().unwrap().to_owned();
        format!(
            "{thread} {outer}\n{thread} {inner}\n{thread} {} {}\n{thread} {} {}\n",
            unlock(inner),
            number(inner),
            unlock(outer),
            number(outer),
        )
    };
    check(&format!(
        "{before}{}{between}{}",
        take(1, first),
        take(2, second)
    ))
}

const TWO: &str = "0 creates 1\n0 creates 2\n";
const A: &str = "pthread_mutex_lock 100";
const B: &str = "pthread_mutex_lock 200";

#[test]
fn locks_in_both_orders_may_deadlock() {
    let found = in_both_orders(TWO, "", [A, B], [B, A]).deadlocks;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].certainty, Certainty::Possible);
    let threads: Vec<_> = found[0].parties.iter().map(|it| it.thread).collect();
    assert_eq!(threads, [1, 2]);
    assert_eq!(in_both_orders(TWO, "", [A, B], [A, B]).deadlocks, []);
}

#[test]
fn what_lets_no_circle_close_is_seen() {
    let joined = "0 creates 1\n";
    let then = "1 exits\n0 pthread_join 1001\n0 creates 2\n";
    assert_eq!(in_both_orders(joined, then, [A, B], [B, A]).deadlocks, []);
    let handed = "1 sem_post 300\n2 sem_wait 300\n";
    assert_eq!(in_both_orders(TWO, handed, [A, B], [B, A]).deadlocks, []);
    let other_way = "2 sem_post 300\n1 sem_wait 300\n";
    assert_eq!(
        in_both_orders(TWO, other_way, [A, B], [B, A])
            .deadlocks
            .len(),
        1
    );
    let tried = "pthread_mutex_trylock 100";
    assert_eq!(in_both_orders(TWO, "", [A, B], [B, tried]).deadlocks, []);
    let tried_first = "pthread_mutex_trylock 200";
    assert_eq!(
        in_both_orders(TWO, "", [A, B], [tried_first, A])
            .deadlocks
            .len(),
        1
    );
    let (read_a, read_b) = ("pthread_rwlock_rdlock 100", "pthread_rwlock_rdlock 200");
    let (write_a, write_b) = ("pthread_rwlock_wrlock 100", "pthread_rwlock_wrlock 200");
    assert_eq!(
        in_both_orders(TWO, "", [read_a, read_b], [read_b, read_a]).deadlocks,
        []
    );
    assert_eq!(
        in_both_orders(TWO, "", [read_a, write_b], [read_b, write_a])
            .deadlocks
            .len(),
        1
    );
    // A lock that both hold at the time.
    let gate = "1 pthread_mutex_lock 300\n";
    let passed = "1 pthread_mutex_unlock 300\n2 pthread_mutex_lock 300\n";
    let gated = in_both_orders(&format!("{TWO}{gate}"), passed, [A, B], [B, A]);
    assert_eq!(gated.deadlocks, []);
    // Another lock behind an initialisation at the same place.
    let anew = "1 pthread_mutex_destroy 200\n1 pthread_mutex_init 200\n";
    assert_eq!(in_both_orders(TWO, anew, [A, B], [B, A]).deadlocks, []);
}

#[test]
fn circles_of_three_are_found() {
    let text = |third: &str| {
        check(&format!(
            "{TWO}0 creates 3\n
             1 {A}\n1 {B}\n1 pthread_mutex_unlock 200\n1 pthread_mutex_unlock 100\n
             2 {B}\n2 pthread_mutex_lock 300\n2 pthread_mutex_unlock 300\n2 pthread_mutex_unlock 200\n
             3 pthread_mutex_lock 300\n3 pthread_mutex_lock {third}\n"
        ))
    };
    assert_eq!(text("100").deadlocks.len(), 1);
    assert_eq!(text("100").deadlocks[0].parties.len(), 3);
    assert_eq!(text("400").deadlocks, []);
}

#[test]
fn who_waits_for_whom_is_told() {
    let found = check(&format!("{TWO}1 {A}\n2 {B}\n1 {B} ...\n2 {A} ...\n")).deadlocks;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].certainty, Certainty::Happened);
    for party in &found[0].parties {
        let Wanted::Lock(wants) = party.wants else {
            panic!("it waits for a lock");
        };
        let holds = party.holds.unwrap().address;
        let expected = if party.thread == 1 {
            (100, 200)
        } else {
            (200, 100)
        };
        assert_eq!((holds, wants.address), expected);
    }
    // A thread that is joined by one whose lock it wants.
    let joins = check(&format!("{TWO}1 {A}\n1 pthread_join 1002 ...\n2 {A} ...\n"));
    assert_eq!(joins.deadlocks[0].certainty, Certainty::Happened);
    // One that waits for its own lock, and one whose mutex is recursive.
    let own = check(&format!("{TWO}1 {A}\n1 {A} ...\n1 sleeps 100\n"));
    assert_eq!(own.deadlocks[0].certainty, Certainty::Happened);
    assert_eq!(
        check(&format!("{TWO}1 {A}\n1 {A}\n1 sleeps 100\n")).deadlocks,
        []
    );
    // Waits with a limit end by themselves.
    let timed = check(&format!(
        "{TWO}1 {A}\n2 {B}\n1 {B} ...\n2 pthread_mutex_timedlock 100 ...\n"
    ));
    assert!(
        timed
            .deadlocks
            .iter()
            .all(|it| it.certainty == Certainty::Possible)
    );
}

#[test]
fn misuse_is_told_and_its_twins_are_not() {
    use MisuseKind::*;
    for (text, expected) in [
        (
            "1 pthread_mutex_lock 100\n2 pthread_mutex_unlock 100",
            &[UnlockOfOthers][..],
        ),
        ("1 pthread_mutex_lock 100\n1 pthread_mutex_unlock 100", &[]),
        ("1 pthread_mutex_unlock 100", &[UnlockOfFree]),
        (
            "1 pthread_rwlock_rdlock 100\n2 pthread_rwlock_rdlock 100\n1 pthread_rwlock_unlock 100\n2 pthread_rwlock_unlock 100",
            &[],
        ),
        (
            "1 pthread_mutex_lock 100\n1 pthread_mutex_lock 100 =35",
            &[LockedTwice],
        ),
        (
            "1 pthread_mutex_lock 100\n1 pthread_mutex_lock 100\n1 pthread_mutex_unlock 100\n1 pthread_mutex_unlock 100",
            &[],
        ),
        (
            "1 pthread_mutex_lock 100\n1 pthread_mutex_trylock 100 =16",
            &[],
        ),
        (
            "1 pthread_mutex_lock 100\n1 pthread_mutex_destroy 100 =16",
            &[DestroyedWhileHeld],
        ),
        (
            "1 pthread_mutex_init 100\n1 pthread_mutex_destroy 100\n1 pthread_mutex_lock 100 =22",
            &[UsedAfterDestruction],
        ),
        (
            "1 pthread_mutex_init 100\n1 pthread_mutex_destroy 100\n1 pthread_mutex_init 100\n1 pthread_mutex_lock 100",
            &[],
        ),
        ("1 pthread_cond_wait 300 100", &[WaitWithoutLock]),
        (
            "1 pthread_mutex_lock 100\n1 pthread_cond_wait 300 100\n1 pthread_mutex_unlock 100",
            &[],
        ),
        ("1 pthread_mutex_lock 100\n1 exits", &[HeldAtEnd]),
        (
            "1 pthread_mutexattr_setrobust 7 1\n1 pthread_mutex_init 100 7\n1 pthread_mutex_lock 100\n1 exits",
            &[],
        ),
    ] {
        let found = check(&format!("{TWO}{text}\n")).misuse;
        let kinds: Vec<_> = found.iter().map(|it| it.kind).collect();
        assert_eq!(kinds, expected, "{text}");
    }
}
