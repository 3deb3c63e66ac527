use unspool_openmp_record::ConstructKind;

use super::*;
use crate::recording::Share;

/// Two threads: a region, a barrier in it that thread 1 is the last to come to, and a critical that
/// thread 0 has to wait for.
fn recording() -> Recording {
    let construct = |kind, parent, line| Construct {
        kind,
        parent,
        name: None,
        location: crate::Location {
            file: Some("some/where.c".to_owned()),
            line: Some(line),
            function: Some("work".to_owned()),
            ..crate::Location::default()
        },
        call_path: Vec::new(),
        forked_by: None,
        team: 2,
        schedule: None,
        shares: vec![Share {
            thread: 0,
            forked: kind == ConstructKind::Parallel,
            ..Share::default()
        }],
    };
    let span = |construct, thread, begin_ns, end_ns, wait_ns| Span {
        construct,
        thread,
        begin_ns,
        end_ns,
        wait_ns,
    };
    let process = Process {
        process: 7,
        threads: 2,
        duration_ns: 100_000,
        constructs: vec![
            construct(ConstructKind::Serial, None, 1),
            construct(ConstructKind::Parallel, Some(0), 2),
            construct(ConstructKind::Barrier, Some(1), 3),
            construct(ConstructKind::Critical, Some(1), 4),
        ],
        spans: vec![
            span(1, 0, 10_000, 90_000, 0),
            span(1, 1, 12_000, 88_000, 0),
            span(2, 0, 20_000, 50_000, 0),
            span(2, 1, 49_000, 50_000, 0),
            span(3, 0, 60_000, 70_000, 8_000),
        ],
        ..Process::default()
    };
    Recording {
        processes: vec![process],
        ..Recording::default()
    }
}

fn events(most_passages: usize) -> (Timeline, Value) {
    shown(&recording(), most_passages)
}

fn shown(recording: &Recording, most_passages: usize) -> (Timeline, Value) {
    let mut output = Vec::new();
    let timeline = write_timeline(recording, most_passages, &mut output).expect("memory");
    (timeline, serde_json::from_slice(&output).expect("JSON"))
}

fn of_phase(line: &Value, phase: &str) -> Vec<(u64, f64, String)> {
    let events = line["traceEvents"].as_array().expect("events");
    let events = events.iter().filter(|event| event["ph"] == phase);
    let shown = events.map(|event| {
        let thread = event["tid"].as_u64().expect("a thread");
        let name = event["name"].as_str().expect("a name");
        (
            thread,
            event["ts"].as_f64().expect("a time"),
            name.to_owned(),
        )
    });
    shown.collect()
}

#[test]
fn passages_are_slices_with_their_waits_within() {
    let (timeline, line) = events(100);
    assert_eq!((timeline.passages, timeline.left_out), (5, 0));
    let slices = of_phase(&line, "X");
    assert_eq!(slices.len(), 6);
    let waits: Vec<_> = slices
        .iter()
        .filter(|it| it.2.starts_with("waits"))
        .collect();
    assert_eq!(
        waits,
        [&(0, 60.0, "waits for critical where.c:4".to_owned())]
    );
    let events = line["traceEvents"].as_array().expect("events");
    let barrier = events.iter().find(|it| it["name"] == "barrier where.c:3");
    let barrier = barrier.expect("the barrier");
    assert_eq!(barrier["args"]["file"], "some/where.c");
    assert_eq!(barrier["args"]["function"], "work");
    assert_eq!(barrier["cat"], "barriers");
}

#[test]
fn arrows_lead_to_who_begins_or_goes_on() {
    let (_, line) = events(100);
    let (begin, end) = (of_phase(&line, "s"), of_phase(&line, "f"));
    let fork = "fork".to_owned();
    let released = "released".to_owned();
    assert_eq!(
        begin,
        [(0, 10.0, fork.clone()), (1, 49.0, released.clone())]
    );
    assert_eq!(end, [(1, 12.0, fork), (0, 50.0, released)]);
}

#[test]
fn who_forks_may_begin_last() {
    let mut recording = recording();
    recording.processes[0].spans[0].begin_ns = 15_000;
    let line = shown(&recording, 100).1;
    assert_eq!(of_phase(&line, "s")[0], (0, 12.0, "fork".to_owned()));
    assert_eq!(of_phase(&line, "f")[0], (1, 12.0, "fork".to_owned()));
}

#[test]
fn the_longest_passages_are_kept() {
    let (timeline, line) = events(3);
    assert_eq!((timeline.passages, timeline.left_out), (5, 2));
    assert_eq!(line["otherData"]["passages_left_out"], 2);
    let slices = of_phase(&line, "X");
    let begins: Vec<f64> = slices.iter().map(|it| it.1).collect();
    assert_eq!(begins, [10.0, 12.0, 20.0]);
    // Who was waited for is told of those that are there.
    assert_eq!(of_phase(&line, "f").len(), 2);
    let (timeline, line) = events(0);
    assert_eq!(timeline.left_out, 5);
    assert!(of_phase(&line, "X").is_empty() && of_phase(&line, "f").is_empty());
}

#[test]
fn passages_of_several_teams_have_no_arrows() {
    let mut recording = recording();
    let process = &mut recording.processes[0];
    // The region is within another one now.
    process.constructs[0].kind = ConstructKind::Parallel;
    let line = shown(&recording, 100).1;
    assert!(of_phase(&line, "s").is_empty());
    // If it is known that one thread forks it, one team at a time passes it.
    recording.processes[0].constructs[1].forked_by = Some(0);
    let line = shown(&recording, 100).1;
    assert_eq!(of_phase(&line, "s").len(), 2);
}
