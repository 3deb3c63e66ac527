use proptest::prelude::*;
use unspool_container::Order;

use super::*;
use crate::record::{PathEnd, Rank, Source, StepCertainty};
use crate::write::Writer;

fn header() -> TraceHeader {
    TraceHeader {
        order: Order::None,
        granule: 0,
        program: b"/bin/true".to_vec(),
        arguments: vec![b"true".to_vec()],
        options: Vec::new(),
        process: 7,
        parent_process: None,
        start_unix_ns: 1,
        tool_version: "0".to_owned(),
    }
}

fn records() -> Vec<Record> {
    let image = Image {
        number: 0,
        path: "/bin/true".to_owned(),
        build_id: vec![1, 2],
    };
    let frame = |number, address| {
        Record::Frame(Frame {
            number,
            image: Some(0),
            address,
        })
    };
    let node = |number, parent, frame, certainty| {
        Record::Node(Node {
            number,
            parent,
            frame,
            certainty,
        })
    };
    let sample = Sample {
        pid: 7,
        tid: 8,
        time_ns: 1 << 40,
        weight: 1_000_000,
        node: Some(1),
        end: PathEnd::CutOff,
    };
    vec![
        Record::Settings(Settings {
            period_ns: 1_000_000,
            stack_bytes: 4096,
            includes_kernel: true,
            source: Source::WallTimers,
        }),
        Record::Image(image),
        frame(0, 0x1000),
        frame(1, u64::MAX),
        node(0, None, 0, StepCertainty::Probable),
        node(1, Some(0), 1, StepCertainty::NoCall),
        Record::Sample(sample),
        Record::HasWaits,
        Record::Wait(Wait {
            sample,
            is_preempted: false,
        }),
        Record::Wait(Wait {
            sample: Sample {
                node: None,
                ..sample
            },
            is_preempted: true,
        }),
        Record::Lost(3),
        Record::Ending(Ending {
            elapsed_ns: 5,
            user_ns: 4,
            system_ns: 1,
        }),
        Record::Counted(Counted {
            expirations: 9,
            sampled: 7,
            without_room: 2,
            used_ns: 8,
            threads_left_out: 1,
        }),
        Record::Window(Window {
            from_ns: 3,
            until_ns: Some(0),
        }),
        Record::Rank(Rank { pid: 7, rank: 2 }),
        Record::Symbol(Symbol {
            image: 0,
            start: 0x20,
            length: 0x10,
            name: "made".to_owned(),
        }),
    ]
}

fn written(records: &[Record]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &header()).unwrap();
    for record in records {
        writer.write(record).unwrap();
        writer.flush().unwrap();
    }
    file
}

#[test]
fn what_was_written_is_read() {
    let recording = Recording::read(&written(&records())).unwrap();
    assert_eq!(recording.problems, [""; 0]);
    assert_eq!(recording.header, header());
    assert_eq!(recording.samples.len(), 1);
    assert_eq!(recording.samples[0].node, Some(1));
    let waits = recording.of_waits().unwrap();
    assert_eq!(waits.samples, recording.samples);
    assert_eq!(waits.settings.unwrap().source, Source::KernelWaits);
    let is_preempted = |wait: &Wait| (wait.sample.node, wait.is_preempted);
    let kept: Vec<_> = recording.waits.iter().flatten().map(is_preempted).collect();
    assert_eq!(kept, [(Some(1), false), (None, true)]);
    assert_eq!(recording.nodes[&1].parent, Some(0));
    assert_eq!(recording.frames[&1].address, u64::MAX);
    assert_eq!(recording.images[&0].build_id, [1, 2]);
    assert_eq!(recording.settings.unwrap().source, Source::WallTimers);
    assert_eq!(recording.counted.unwrap().without_room, 2);
    assert_eq!(recording.counted.unwrap().used_ns, 8);
    let window = recording.window.unwrap();
    assert_eq!((window.from_ns, window.until_ns), (3, Some(0)));
    assert_eq!(recording.ranks[&7], 2);
    let named = |image, address| recording.symbol_at(image, address).is_some();
    let found = [(0, 0x1f), (0, 0x20), (0, 0x2f), (0, 0x30), (1, 0x20)];
    let found = found.map(|(image, address)| named(image, address));
    assert_eq!(found, [false, true, true, false, false]);
    assert_eq!((recording.lost, recording.ending.unwrap().user_ns), (3, 4));
}

#[test]
fn a_file_that_was_cut_off_keeps_what_is_whole() {
    let whole = written(&records());
    let recording = Recording::read(&whole[..whole.len() - 1]).unwrap();
    assert_eq!(recording.samples.len(), 1);
    assert_eq!((recording.ranks.len(), recording.symbols.len()), (1, 0));
    assert_eq!(recording.problems.len(), 1);
}

/// What was written before there were timers.
#[test]
fn settings_of_the_first_version_are_the_kernels() {
    let mut bytes = unspool_container::bytes::ByteReader::new(&[1, 100, 8, 1]);
    let settings = Settings {
        period_ns: 100,
        stack_bytes: 8,
        includes_kernel: true,
        source: Source::Kernel,
    };
    assert_eq!(Record::read(&mut bytes), Ok(Record::Settings(settings)));
}

#[test]
fn paths_that_lead_nowhere_are_refused() {
    let mut records = records();
    // The outermost path is not there.
    records.remove(4);
    let recording = Recording::read(&written(&records)).unwrap();
    assert!(recording.nodes.is_empty() && recording.samples.is_empty());
    // Of the waits, the one without a path is left.
    assert_eq!(recording.waits.map(|waits| waits.len()), Some(1));
    assert_eq!(recording.problems.len(), 3);
}

proptest! {
    #[test]
    fn damage_is_no_panic(place in 0usize..6000, value: u8) {
        let mut file = written(&records());
        let place = place % file.len();
        file[place] = value;
        let _ = Recording::read(&file);
    }
}
