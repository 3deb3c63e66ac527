use super::*;

fn share(thread: usize, own_ms: u64, count: u64, iterations: u64) -> Share {
    Share {
        thread,
        count,
        own_ns: own_ms * 1_000_000,
        iterations,
        ..Share::default()
    }
}

/// The advice for a loop of so many passages and iterations, by threads that work so long.
fn advice(own_ms: &[u64], passages: u64, iterations: u64) -> (f64, String) {
    let shares: Vec<Share> = own_ms
        .iter()
        .enumerate()
        .map(|(thread, own)| share(thread, *own, passages, passages * iterations))
        .collect();
    let work = Work::of(&shares, None, own_ms.len() as u64, f64::INFINITY).unwrap();
    work.advice(work.iterations.unwrap())
}

#[test]
fn the_chunk_follows_from_iterations_and_their_time() {
    // 4 threads, 400,000 iterations of 20 us: sqrt(1 us * 400,000 / (20 us * 3)) = 81.6. Of
    // the 1.5 s, 64 * 20 us * 0.75 are lost at the end, and 6,250 / 4 us for fetching.
    let (saved, sentence) = advice(&[2000, 0, 0, 0], 1, 400_000);
    assert!(
        (saved - (1.5 - 0.000_96 - 0.001_562_5)).abs() < 1e-9,
        "{saved}"
    );
    assert_eq!(
        sentence,
        "schedule(dynamic,64) may save about 1.497 s \
         (from 400000 iterations of 20.000 \u{b5}s in a passage, by 4 threads); if that is the \
         schedule already, iterations differ much, and the longest should come first"
    );
}

#[test]
fn long_iterations_come_one_by_one() {
    let (saved, sentence) = advice(&[320, 80, 80, 80], 1, 32);
    assert!((saved - 0.15).abs() < 1e-4, "{saved}");
    assert!(sentence.starts_with("schedule(dynamic,1) "), "{sentence}");
}

#[test]
fn passages_count_one_by_one() {
    // The same work in a thousand passages: each loses at its end.
    let (once, _) = advice(&[2000, 1000], 1, 1000);
    let (often, sentence) = advice(&[2000, 1000], 1000, 1000);
    assert!(often < once, "{often} {once}");
    assert!(sentence.contains("schedule(dynamic,16)"), "{sentence}");
}

#[test]
fn a_schedule_does_not_help_where_iterations_are_too_few() {
    let (saved, sentence) = advice(&[100, 200, 300, 400], 1, 4);
    assert!((saved - 0.15).abs() < 1e-9, "{saved}");
    assert!(!sentence.contains("schedule("), "{sentence}");
}

#[test]
fn no_number_is_computed_from_unknown_iterations() {
    let shares = [share(0, 10, 1, 0), share(1, 20, 1, 0)];
    assert_eq!(
        Work::of(&shares, None, 2, f64::INFINITY)
            .unwrap()
            .iterations,
        None
    );
    assert_eq!(Work::of(&[share(0, 0, 1, 5)], None, 2, f64::INFINITY), None);
}

/// A point at which threads waited so many milliseconds and were last so often.
fn point(threads: &[(u64, u64)], last_wait_ms: u64) -> SynchronisationPoint {
    let threads = threads.iter().enumerate();
    SynchronisationPoint {
        kind: ConstructKind::ImplicitBarrier,
        name: None,
        location: crate::location::Location::default(),
        call_path: Vec::new(),
        class: LossClass::Desynchronisation,
        count: 20,
        wait_ns: 0,
        longest_wait_ns: 0,
        last_wait_ns: last_wait_ms * 1_000_000,
        block_ns: 0,
        threads: threads
            .map(|(thread, (wait, last))| (thread, 10, wait * 1_000_000, *last))
            .collect(),
        critical_path_ns: 0,
    }
}

#[test]
fn an_imbalance_that_alternates_is_what_even_the_busiest_thread_waits() {
    let (saved, sentence) = that_alternates(&point(&[(520, 6), (730, 4)], 20), 1.0).unwrap();
    assert!((saved - 0.5).abs() < 1e-9, "{saved}");
    let who = "of 10 passages, thread 0 in 6, thread 1 in 4";
    assert!(sentence.contains(who), "{sentence}");
}

#[test]
fn one_that_does_not_alternate_is_none() {
    // One thread is always last, or nearly so: what it waits is what going on takes.
    assert_eq!(
        that_alternates(&point(&[(20, 10), (730, 0)], 20), 1.0),
        None
    );
    let (saved, _) = that_alternates(&point(&[(20, 9), (730, 1)], 20), 1.0).unwrap();
    assert_eq!(saved, 0.0);
}

#[test]
fn no_more_is_saved_than_is_waited() {
    // What a loop without a barrier leaves uneven, the next one may make even again.
    let shares = [share(0, 100, 1, 32), share(1, 20, 1, 32)];
    let uneven = Work::of(&shares, None, 2, f64::INFINITY).unwrap();
    assert!((uneven.excess() - 0.04).abs() < 1e-9);
    let evened = Work::of(&shares, None, 2, 0.003).unwrap();
    assert!((evened.excess() - 0.003).abs() < 1e-9);
    let (saved, _) = evened.advice(32.0);
    assert!(saved <= 0.003, "{saved}");
}

#[test]
fn what_the_loop_does_already_is_no_advice() {
    // A hundred iterations, fetched in pieces of so many; thread 0 is given the one that takes long.
    let advice = |schedule, piece: u64| {
        let mut shares = [share(0, 400, 1, 100), share(1, 100, 1, 100)];
        shares[0].runtime_calls = 100 / piece;
        let work = Work::of(&shares, schedule, 2, f64::INFINITY).unwrap();
        work.advice(work.iterations.unwrap())
    };
    let (saved, sentence) = advice(Some(Schedule::Dynamic), 1);
    assert!((saved - 0.15).abs() < 1e-9, "{saved}");
    let already = "handed out in pieces of 1 as threads need them already";
    assert!(sentence.contains(already), "{sentence}");
    assert!(!sentence.contains("schedule("), "{sentence}");
    // The controls: larger pieces, another schedule, one that is not known.
    let (_, sentence) = advice(Some(Schedule::Dynamic), 25);
    let now = "schedule(dynamic,1) may save about 0.146 s";
    assert!(sentence.starts_with(now), "{sentence}");
    assert!(sentence.ends_with("; the pieces have 25 now"), "{sentence}");
    let (_, sentence) = advice(Some(Schedule::Static), 50);
    assert!(
        sentence.ends_with("unless a few iterations take most of the time"),
        "{sentence}"
    );
    let (_, sentence) = advice(None, 1);
    assert!(
        sentence.contains("if that is the schedule already"),
        "{sentence}"
    );
}
