//! What is said of programs whose losses are known. Times are milliseconds.

use super::*;
use crate::location::Location;
use crate::points;
use crate::recording::{Program, Share};

/// A construct, with the own time and the wait of each of its threads.
fn construct(
    kind: ConstructKind,
    parent: Option<usize>,
    line: u32,
    times: &[(u64, u64)],
) -> Construct {
    let share = |(thread, (own, wait)): (usize, &(u64, u64))| Share {
        thread,
        forked: kind == ConstructKind::Parallel && thread == 0,
        count: 1,
        own_ns: own * 1_000_000,
        longest_own_ns: own * 1_000_000,
        wait_ns: wait * 1_000_000,
        longest_wait_ns: wait * 1_000_000,
        total_ns: (own + wait) * 1_000_000,
        ..Share::default()
    };
    Construct {
        kind,
        parent,
        name: None,
        location: Location {
            file: Some("a.c".to_owned()),
            line: Some(line),
            ..Location::default()
        },
        call_path: Vec::new(),
        forked_by: None,
        team: if kind == ConstructKind::Parallel {
            times.len() as u64
        } else {
            0
        },
        schedule: None,
        shares: times.iter().enumerate().map(share).collect(),
    }
}

fn sentences(threads: usize, constructs: Vec<Construct>) -> Vec<String> {
    let process = Process {
        duration_ns: 1_000_000_000,
        threads,
        processors: 64,
        constructs,
        ..Process::default()
    };
    let characteristics = Characteristics::of_process(&process);
    let points = points::of_process(&process);
    let findings = of_process(&process, None, &characteristics, &points);
    findings.into_iter().map(|(_, sentence)| sentence).collect()
}

fn says(sentences: &[String], words: &str) -> bool {
    sentences.iter().any(|sentence| sentence.contains(words))
}

#[test]
fn two_threads_repeat_work_as_more_do() {
    let repeated = "do the same work outside worksharing constructs";
    for threads in [2, 3, 4] {
        let region = construct(ConstructKind::Parallel, None, 3, &vec![(300, 5); threads]);
        let found = sentences(threads, vec![region]);
        assert!(
            says(
                &found,
                &format!("all {threads} threads of the region at a.c:3 {repeated}")
            ),
            "{found:?}"
        );
    }
    // The controls: one thread does it, or only some are there.
    let region = construct(ConstructKind::Parallel, None, 3, &[(300, 0), (1, 299)]);
    assert!(!says(&sentences(2, vec![region]), repeated));
    let mut region = construct(ConstructKind::Parallel, None, 3, &[(300, 0)]);
    region.team = 2;
    assert!(!says(&sentences(2, vec![region]), repeated));
}

#[test]
fn programs_with_one_thread_are_told_so() {
    let region = || construct(ConstructKind::Parallel, None, 3, &[(300, 0)]);
    let found = sentences(1, vec![region()]);
    assert!(
        found[0].starts_with("nothing runs in parallel: all 1 passages"),
        "{found:?}"
    );
    let wide = construct(ConstructKind::Parallel, None, 9, &[(10, 0), (10, 0)]);
    let found = sentences(2, vec![region(), wide]);
    assert!(!says(&found, "nothing runs in parallel"), "{found:?}");
    let alone = "one thread alone executes the parallel region at a.c:3 for 0.300 s while 1 have";
    assert!(says(&found, alone), "{found:?}");
    assert!(!says(&found, "region at a.c:9 for"), "{found:?}");
}

#[test]
fn one_loss_has_one_sentence() {
    let of_division = |own: [u64; 2]| {
        let region = construct(ConstructKind::Parallel, None, 1, &[(0, 0), (0, 0)]);
        let own = own.map(|own| (own, 0));
        let divided = construct(ConstructKind::Divided, Some(0), 2, &own);
        let barrier = construct(ConstructKind::Barrier, Some(0), 3, &[(0, 0), (200, 0)]);
        sentences(2, vec![region, divided, barrier])
    };
    let (work, wait) = (
        "the work divided among threads at a.c:2",
        "threads wait 0.200 s in all",
    );
    let found = of_division([300, 100]);
    let whole = "does 75 % of the work of 2 threads, for whom others wait at the barrier at a.c:3;";
    assert!(says(&found, work) && says(&found, whole), "{found:?}");
    assert!(!says(&found, wait), "{found:?}");
    // The controls: half of the wait is for something else, or all of it.
    let found = of_division([200, 100]);
    assert!(says(&found, work) && says(&found, wait), "{found:?}");
    let found = of_division([200, 200]);
    assert!(!says(&found, work) && says(&found, wait), "{found:?}");
}

#[test]
fn what_is_too_little_to_say_silences_nothing() {
    // Sixty loops of 2 ms too much each are not worth a sentence; the wait at their end is.
    let mut constructs = vec![construct(
        ConstructKind::Parallel,
        None,
        1,
        &[(0, 0), (0, 0)],
    )];
    let loops = (0..60).map(|line| {
        construct(
            ConstructKind::Divided,
            Some(0),
            10 + line,
            &[(4, 0), (0, 0)],
        )
    });
    constructs.extend(loops);
    let barrier = construct(ConstructKind::Barrier, Some(0), 3, &[(0, 0), (240, 0)]);
    constructs.push(barrier);
    let found = sentences(2, constructs);
    assert!(says(&found, "threads wait 0.240 s in all"), "{found:?}");
    assert!(!says(&found, "imbalanced"), "{found:?}");
}

#[test]
fn a_single_block_costs_no_more_than_others_wait() {
    let of_single = |waited| {
        let region = construct(ConstructKind::Parallel, None, 1, &[(0, 0), (0, 0)]);
        let single = construct(ConstructKind::Single, Some(0), 2, &[(300, 0), (0, 0)]);
        let end = construct(
            ConstructKind::ImplicitBarrier,
            Some(0),
            2,
            &[(0, 0), (waited, 0)],
        );
        sentences(2, vec![region, single, end])
    };
    let sentence = "one thread executes the single block at a.c:2 for 0.300 s";
    assert!(says(&of_single(300), sentence));
    assert!(!says(&of_single(1), sentence), "{:?}", of_single(1));
}

/// A region of two threads, in which so many tasks are waited for.
fn tasks(count: u64, each_ns: u64) -> Vec<String> {
    let region = construct(ConstructKind::Parallel, None, 1, &[(0, 0), (0, 0)]);
    let mut task = construct(ConstructKind::Task, Some(0), 2, &[(0, 0), (0, 0)]);
    for share in &mut task.shares {
        (share.count, share.own_ns) = (count / 2, count / 2 * each_ns);
        share.longest_own_ns = each_ns;
    }
    let wait = construct(ConstructKind::TaskWait, Some(0), 3, &[(100, 0), (100, 0)]);
    sentences(2, vec![region, task, wait])
}

#[test]
fn small_tasks_are_not_to_be_smaller() {
    let small = tasks(75_000, 2_000);
    let advice = "the 75000 tasks take 2.000 \u{b5}s each";
    assert!(
        says(&small, advice) && says(&small, "create fewer, larger ones"),
        "{small:?}"
    );
    assert!(!says(&small, "more or smaller"), "{small:?}");
    let large = tasks(4, 50_000_000);
    assert!(
        says(&large, "dividing long tasks") && !says(&large, "fewer"),
        "{large:?}"
    );
}

#[test]
fn a_long_task_at_the_end_of_a_region_is_named() {
    let region = construct(ConstructKind::Parallel, None, 1, &[(0, 0), (0, 290)]);
    let mut task = construct(ConstructKind::Task, Some(0), 2, &[(300, 0), (10, 0)]);
    task.shares[1].count = 5;
    let uneven = "the tasks of the region at a.c:1 are executed unevenly";
    let found = sentences(2, vec![region.clone(), task.clone()]);
    assert!(
        says(&found, uneven) && says(&found, "the longest of 6 takes 0.300 s"),
        "{found:?}"
    );
    // The controls: a loop is what is uneven; or nobody waits.
    let other = construct(ConstructKind::Loop, Some(0), 4, &[(300, 0), (10, 0)]);
    assert!(!says(
        &sentences(2, vec![region, task.clone(), other]),
        uneven
    ));
    let even = construct(ConstructKind::Parallel, None, 1, &[(0, 0), (0, 0)]);
    assert!(!says(&sentences(2, vec![even, task]), uneven));
}

#[test]
fn loops_that_cancel_each_other_save_nothing() {
    let region = construct(ConstructKind::Parallel, None, 1, &[(0, 4), (0, 2)]);
    let one = construct(ConstructKind::Loop, Some(0), 2, &[(150, 0), (50, 0)]);
    let other = construct(ConstructKind::Loop, Some(0), 5, &[(50, 0), (150, 0)]);
    let constructs = vec![region, one, other];
    let found = sentences(2, constructs.clone());
    assert!(!says(&found, "imbalanced"), "{found:?}");
    // The control: with barriers, each is waited for.
    let with_barriers = [
        constructs,
        vec![
            construct(
                ConstructKind::ImplicitBarrier,
                Some(0),
                3,
                &[(0, 0), (100, 0)],
            ),
            construct(
                ConstructKind::ImplicitBarrier,
                Some(0),
                6,
                &[(100, 0), (0, 0)],
            ),
        ],
    ];
    let found = sentences(2, with_barriers.concat());
    assert!(
        says(&found, "a.c:2 is imbalanced") && says(&found, "a.c:5 is imbalanced"),
        "{found:?}"
    );
}

#[test]
fn the_master_block_before_a_barrier_is_named() {
    let region = construct(ConstructKind::Parallel, None, 1, &[(0, 0), (0, 0)]);
    let barrier = construct(ConstructKind::Barrier, Some(0), 6, &[(0, 0), (150, 0)]);
    let master = |took| construct(ConstructKind::Master, Some(0), 4, &[(took, 0)]);
    let named = "one thread executes the master block at a.c:4 for 0.150 s meanwhile";
    let found = sentences(2, vec![region.clone(), barrier.clone(), master(150)]);
    assert!(says(&found, named), "{found:?}");
    let found = sentences(2, vec![region, barrier, master(10)]);
    assert!(
        !says(&found, "master") && says(&found, "really must meet"),
        "{found:?}"
    );
}

#[test]
fn the_start_of_mpi_is_no_communication() {
    let region = construct(ConstructKind::Parallel, None, 1, &[(0, 0), (0, 0)]);
    let call = |name: &str| {
        let mut call = construct(ConstructKind::Mpi, None, 2, &[(400, 0)]);
        call.name = Some(name.to_owned());
        sentences(2, vec![region.clone(), call])
    };
    for name in ["MPI_Init", "mpi_init_thread_", "MPI_Finalize"] {
        let found = call(name);
        assert!(
            !says(&found, "overlap") && says(&found, "starts or ends"),
            "{found:?}"
        );
    }
    assert!(says(&call("MPI_Recv"), "overlap communication"));
}

#[test]
fn lack_of_processors_comes_first_and_says_who_has_them() {
    let lacking = |lacking_ms: u64, others: Option<Others>, threads: usize| {
        let mut region = construct(ConstructKind::Parallel, None, 3, &vec![(300, 5); threads]);
        for share in &mut region.shares {
            share.processor_wait_ns = lacking_ms * 1_000_000;
        }
        let process = Process {
            duration_ns: 1_000_000_000,
            threads,
            processors: 2,
            constructs: vec![region],
            ..Process::default()
        };
        let characteristics = Characteristics::of_process(&process);
        let points = points::of_process(&process);
        let findings = of_process(&process, others.as_ref(), &characteristics, &points);
        findings[0].1.clone()
    };
    let others = |ran_ms: u64| {
        Some(Others {
            ran_ns: ran_ms * 1_000_000,
            most: Some(Program {
                name: "make".to_owned(),
                process: 7,
                ran_ns: 500_000_000,
            }),
        })
    };
    let told = lacking(400, others(1500), 2);
    let who = "0.800 s in all (40 % of their time): other programs use 1.5 processors meanwhile, \
               most of all make (process 7) 0.5";
    assert!(told.contains(who), "{told}");
    // Nobody that can be seen: the system itself has too few.
    assert!(lacking(400, others(10), 2).contains("a quota limits it"));
    assert!(lacking(400, others(10), 4).contains("OMP_NUM_THREADS=2 gives each its own"));
    // The controls: little is lost, or nothing.
    for little in [0, 20] {
        let told = lacking(little, others(1500), 2);
        assert!(!told.contains("processor"), "{told}");
    }
}

#[test]
fn starting_threads_has_a_place() {
    let region = |line, startup_ms: u64| {
        let mut region = construct(ConstructKind::Parallel, None, line, &[(0, 0), (0, 0)]);
        region.shares[1].startup_ns = startup_ms * 1_000_000;
        region
    };
    let found = sentences(2, vec![region(3, 10), region(7, 90)]);
    let several = "in 2 passages of parallel regions, most of it (0.090 s) in that at a.c:7";
    assert!(says(&found, several), "{found:?}");
    let found = sentences(2, vec![region(3, 50)]);
    assert!(
        says(&found, "once, in the parallel region at a.c:3"),
        "{found:?}"
    );
    assert!(!says(&found, "fewer, larger"), "{found:?}");
}
