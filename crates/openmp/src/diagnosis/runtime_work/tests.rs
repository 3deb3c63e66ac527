use super::*;

/// A loop of two threads: own time and time in the runtime in milliseconds, and pieces.
fn shared_loop(times: [(u64, u64, u64); 2], iterations: u64) -> Process {
    let share = |(thread, (own, runtime, pieces)): (usize, &(u64, u64, u64))| Share {
        thread,
        count: 1,
        own_ns: own * 1_000_000,
        runtime_ns: runtime * 1_000_000,
        runtime_calls: *pieces,
        iterations,
        ..Share::default()
    };
    process(ConstructKind::Loop, times.iter().enumerate().map(share))
}

fn process(kind: ConstructKind, shares: impl Iterator<Item = Share>) -> Process {
    let construct = |kind, parent, team, shares| Construct {
        kind,
        parent,
        name: None,
        location: crate::location::Location::default(),
        call_path: Vec::new(),
        forked_by: None,
        team,
        schedule: None,
        shares,
    };
    Process {
        constructs: vec![
            construct(ConstructKind::Parallel, None, 2, Vec::new()),
            construct(kind, Some(0), 0, shares.collect()),
        ],
        ..Process::default()
    }
}

fn found(process: &Process) -> Option<Finding> {
    findings(process, &Regions::new(process)).pop()
}

#[test]
fn a_larger_chunk_saves_what_fetching_takes() {
    // A million iterations of 20 ns, each fetched in 1 us: sqrt(1 us * 1,000,000 / 20 ns) = 7071.
    let process = shared_loop([(10, 500, 500_000), (10, 500, 500_000)], 1_000_000);
    let (saved, sentence) = found(&process).unwrap();
    // Of the 0.5 s, 8192 * 20 ns / 2 are lost at the end, and 122 us / 2 for fetching.
    assert!(
        (saved - (0.5 - 0.000_081_92 - 0.000_061)).abs() < 1e-5,
        "{saved}"
    );
    assert!(
        sentence.contains("1000000 pieces of about 1 of 1000000 iterations"),
        "{sentence}"
    );
    assert!(
        sentence.contains("schedule(dynamic,8192) may save about 0.500 s"),
        "{sentence}"
    );
}

#[test]
fn a_place_has_one_sentence() {
    // A loop that the compiler has unrolled stands in the program several times.
    let mut process = shared_loop([(10, 500, 500_000), (10, 500, 500_000)], 1_000_000);
    process.constructs.push(process.constructs[1].clone());
    let found = findings(&process, &Regions::new(&process));
    assert_eq!(found.len(), 1);
    assert!(
        found[0].1.contains("2000000 pieces of about 1 of 2000000"),
        "{found:?}"
    );
    assert!(found[0].1.contains("schedule(dynamic,8192)"), "{found:?}");
}

#[test]
fn large_pieces_are_left() {
    // A hundred pieces of ten iterations of a millisecond.
    assert_eq!(
        found(&shared_loop([(500, 1, 50), (500, 1, 50)], 1000)),
        None
    );
    // Nothing is known of the runtime.
    assert_eq!(found(&shared_loop([(500, 0, 0), (500, 0, 0)], 1000)), None);
}

#[test]
fn tasks_are_weighed_against_their_creation() {
    let creation = |own_us: u64| {
        let share = Share {
            runtime_calls: 1000,
            runtime_ns: 1_000_000,
            ..Share::default()
        };
        let mut process = process(ConstructKind::TaskCreation, [share].into_iter());
        let task = Share {
            count: 1000,
            own_ns: 1000 * own_us * 1000,
            ..Share::default()
        };
        process.constructs.push(Construct {
            kind: ConstructKind::Task,
            shares: vec![task],
            ..process.constructs[1].clone()
        });
        found(&process)
    };
    let (saved, sentence) = creation(2).unwrap();
    assert!((saved - 0.0005).abs() < 1e-9, "{saved}");
    assert!(
        sentence.contains("1.000 \u{b5}s each, and a task works for 2.000 \u{b5}s"),
        "{sentence}"
    );
    assert_eq!(creation(11), None);
}
