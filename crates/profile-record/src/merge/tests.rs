use std::collections::BTreeMap;

use proptest::prelude::*;
use unspool_container::Order;

use super::*;
use crate::record::{PathEnd, Rate, Source};

/// Seconds of the wall clock, and of the clock of samples.
fn recording(start_s: u64, first_s: u64, paths: &[(u32, &[u64], u64)]) -> Recording {
    let header = TraceHeader {
        order: Order::None,
        granule: 0,
        program: b"/bin/app".to_vec(),
        arguments: vec![b"app".to_vec()],
        options: Vec::new(),
        process: 7,
        parent_process: None,
        start_unix_ns: start_s * 1_000_000_000,
        tool_version: "0".to_owned(),
    };
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &header).unwrap();
    let mut records = vec![
        Record::Settings(Settings {
            period_ns: 1000,
            stack_bytes: 512,
            includes_kernel: true,
            source: Source::Kernel,
        }),
        Record::Image(Image {
            number: 3,
            path: "/bin/app".to_owned(),
            build_id: vec![1],
        }),
    ];
    // Numbers are given as they come, and are others in each recording.
    let mut numbers = HashMap::new();
    let mut frames = HashMap::new();
    let mut events: HashMap<u32, u32> = HashMap::new();
    let mut counts: Vec<u64> = Vec::new();
    let mut time_ns = first_s * 1_000_000_000;
    for (pid, path, weight) in paths {
        let name = format!("process {pid}");
        records.push(Record::Process(Process { pid: *pid, name }));
        let mut parent = None;
        for address in *path {
            let (frame, is_new) = number(&mut frames, *address);
            if is_new {
                records.push(Record::Frame(Frame {
                    number: frame,
                    image: Some(3),
                    address: *address,
                }));
            }
            let (node, is_new) = number(&mut numbers, (parent, frame));
            if is_new {
                records.push(Record::Node(Node {
                    number: node,
                    parent,
                    frame,
                    certainty: StepCertainty::Confirmed,
                }));
            }
            parent = Some(node);
        }
        let sample = Sample {
            pid: *pid,
            tid: *pid,
            time_ns,
            weight: *weight,
            node: parent,
            end: PathEnd::Outermost,
        };
        records.push(Record::Sample(sample));
        records.push(Record::Wait(Wait {
            sample,
            is_preempted: false,
        }));
        // Each process has an event of its own.
        let (event, is_new) = number(&mut events, *pid);
        if is_new {
            records.push(Record::Event(Event {
                number: event,
                name: format!("event {pid}"),
                rate: Rate::Period(*weight),
            }));
            counts.push(0);
        }
        counts[event as usize] += 10 * weight;
        records.push(Record::Occurrence(Occurrence { event, sample }));
        time_ns += 1000;
    }
    for (event, count) in (0..).zip(counts) {
        records.push(Record::EventCount(EventCount {
            event,
            count,
            enabled_ns: 3,
            running_ns: 2,
        }));
    }
    records.push(Record::Lost(1));
    records.push(Record::Ending(Ending {
        elapsed_ns: first_s,
        user_ns: 10,
        system_ns: 1,
    }));
    for record in &records {
        writer.write(record).unwrap();
    }
    writer.flush().unwrap();
    Recording::read(&bytes).unwrap()
}

fn merged(recordings: &[Recording]) -> Recording {
    let mut bytes = Vec::new();
    merge(recordings, &mut bytes).unwrap();
    let merged = Recording::read(&bytes).unwrap();
    assert_eq!(merged.problems, [""; 0]);
    merged
}

/// The path of a sample by its addresses, outermost first.
fn path(recording: &Recording, sample: &Sample) -> Vec<u64> {
    let mut path = Vec::new();
    let mut next = sample.node;
    while let Some(number) = next {
        let node = recording.nodes[&number];
        let frame = recording.frames[&node.frame];
        assert_eq!(recording.images[&frame.image.unwrap()].path, "/bin/app");
        path.push(frame.address);
        next = node.parent;
    }
    path.reverse();
    path
}

type Times = BTreeMap<Vec<u64>, (u64, u64)>;

/// How often each path is there, and for how long.
fn times(recording: &Recording) -> Times {
    let mut times = Times::new();
    for sample in &recording.samples {
        let (count, ns) = times.entry(path(recording, sample)).or_default();
        (*count, *ns) = (*count + 1, *ns + sample.weight);
    }
    times
}

/// How often each event happened on each path, and how often it was counted.
fn events(recording: &Recording) -> BTreeMap<(String, Vec<u64>), u64> {
    let mut all = BTreeMap::new();
    for recorded in recording.events.values() {
        let name = &recorded.event.name;
        for sample in &recorded.samples {
            *all.entry((name.clone(), path(recording, sample)))
                .or_default() += sample.weight;
        }
        let counted = recorded.counted.unwrap();
        assert_eq!(counted.enabled_ns * 2, counted.running_ns * 3);
        all.insert((name.clone(), Vec::new()), counted.count);
    }
    all
}

#[test]
fn equal_paths_are_one_and_processes_stay_apart() {
    let one = recording(100, 5, &[(7, &[1, 2], 10), (7, &[1], 20)]);
    let other = recording(100, 5, &[(7, &[1, 2], 30), (8, &[2], 40)]);
    let all = merged(&[one, other]);
    assert_eq!(
        (all.images.len(), all.nodes.len(), all.frames.len()),
        (1, 3, 2)
    );
    let expected = [
        (vec![1], (1, 20)),
        (vec![1, 2], (2, 40)),
        (vec![2], (1, 40)),
    ];
    assert_eq!(times(&all), expected.into());
    let mut pids: Vec<u32> = all.samples.iter().map(|sample| sample.pid).collect();
    pids.dedup();
    assert_eq!(pids, [7, 7 + NUMBERS, 8]);
    assert_eq!(all.processes[&(7 + NUMBERS)].name, "process 7");
    assert_eq!(all.waits.as_ref().map(Vec::len), Some(4));
    let ending = all.ending.unwrap();
    assert_eq!((all.lost, ending.user_ns, ending.system_ns), (2, 20, 2));
}

/// In containers, each process may be number 1; there are more of them than multiples.
#[test]
fn any_number_of_processes_may_have_the_same_number() {
    let one = recording(100, 5, &[(1, &[1], 10)]);
    let all = merged(&vec![one; 2000]);
    assert_eq!((all.processes.len(), all.samples.len()), (2000, 2000));
    let pids: BTreeSet<u32> = all.samples.iter().map(|sample| sample.pid).collect();
    assert_eq!(pids.len(), 2000);
}

/// On one machine times are what they are; on another the clock of samples began at another time.
#[test]
fn regions_are_of_the_whole_if_they_are_of_all_parts() {
    let whole = recording(100, 5, &[(1, &[1], 10)]);
    let part = Recording {
        regions: Some(Regions {
            entered: 2,
            inside_ns: 30,
            lost_marks: 1,
            processes_elsewhere: 0,
        }),
        ..whole.clone()
    };
    let both = merged(&[part.clone(), part.clone()]).regions.unwrap();
    assert_eq!((both.entered, both.inside_ns, both.lost_marks), (4, 60, 2));
    assert_eq!(merged(&[part.clone(), whole.clone()]).regions, None);
    assert_eq!(merged(&[whole, part]).regions, None);
}

#[test]
fn clocks_of_other_machines_are_moved() {
    let first = recording(100, 5, &[(7, &[1], 10)]);
    let later = recording(103, 10, &[(8, &[1], 10)]);
    let elsewhere = recording(103, 5000, &[(9, &[1], 10)]);
    let all = merged(&[first, later, elsewhere]);
    let times: Vec<u64> = all
        .samples
        .iter()
        .map(|it| it.time_ns / 1_000_000_000)
        .collect();
    assert_eq!(times, [5, 10, 8]);
}

#[test]
fn what_does_not_fit_is_refused_and_what_is_cut_off_stays_so() {
    let nothing = merge(&[], Vec::new());
    assert!(matches!(nothing, Err(MergeError::Nothing)));
    let one = recording(100, 5, &[(7, &[1], 10)]);
    let mut waits = one.clone();
    waits.settings.as_mut().unwrap().source = Source::WallTimers;
    let other = merge(&[one.clone(), waits], Vec::new());
    assert!(matches!(other, Err(MergeError::OtherTime)));
    let mut cut_off = one.clone();
    cut_off.ending = None;
    assert_eq!(merged(&[one, cut_off]).ending, None);
}

fn any_recording() -> impl Strategy<Value = Recording> {
    let paths = (1..4_u32, prop::collection::vec(0..4_u64, 1..4), 1..100_u64);
    let many = prop::collection::vec(paths, 1..12);
    many.prop_map(|paths| {
        let paths: Vec<(u32, &[u64], u64)> = paths
            .iter()
            .map(|(pid, path, weight)| (*pid, &path[..], *weight))
            .collect();
        recording(100, 5, &paths)
    })
}

proptest! {
    /// In whichever order parts are merged, the whole is the same; and it has all of each.
    #[test]
    fn merging_is_associative(a in any_recording(), b in any_recording(), c in any_recording()) {
        let at_once = merged(&[a.clone(), b.clone(), c.clone()]);
        let left = merged(&[merged(&[a.clone(), b.clone()]), c.clone()]);
        let right = merged(&[a.clone(), merged(&[b.clone(), c.clone()])]);
        prop_assert_eq!(times(&at_once), times(&left));
        prop_assert_eq!(times(&at_once), times(&right));
        prop_assert_eq!(events(&at_once), events(&left));
        prop_assert_eq!(events(&at_once), events(&right));
        prop_assert_eq!(at_once.ending, left.ending);
        prop_assert_eq!(at_once.nodes.len(), right.nodes.len());
        let mut sum = Times::new();
        for recording in [&a, &b, &c] {
            for (path, (count, ns)) in times(recording) {
                let all = sum.entry(path).or_default();
                *all = (all.0 + count, all.1 + ns);
            }
        }
        prop_assert_eq!(times(&at_once), sum);
        let mut sum = BTreeMap::new();
        for (key, count) in [&a, &b, &c].into_iter().flat_map(events) {
            *sum.entry(key).or_default() += count;
        }
        prop_assert_eq!(events(&at_once), sum);
        let processes = |it: &Recording| it.processes.len();
        let all = processes(&a) + processes(&b) + processes(&c);
        prop_assert_eq!([processes(&at_once), processes(&left), processes(&right)], [all; 3]);
    }
}
