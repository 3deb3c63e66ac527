//! Recordings of known content, for tests.

use unspool_container::{Order, TraceHeader};
use unspool_profile_record::{
    Frame, Image, Node, PathEnd, Record, Recording, Sample, StepCertainty, Thread, Writer,
};

const PID: u32 = 7;

/// A recording of one thread, which spent so many nanoseconds on each of these paths, outermost
/// function first. No file has these functions: `f` is shown as `f+0x10`.
pub(crate) fn of_paths(paths: &[(&[&str], u64)]) -> Recording {
    of_threads(&[paths])
}

/// The same of several threads.
pub(crate) fn of_threads(threads: &[&[(&[&str], u64)]]) -> Recording {
    let mut records = Vec::new();
    for tid in (PID..).take(threads.len()) {
        let name = "worker".to_owned();
        records.push(Record::Thread(Thread {
            pid: PID,
            tid,
            name,
        }));
    }
    let mut images: Vec<&str> = Vec::new();
    let mut nodes: Vec<(Option<u32>, u32)> = Vec::new();
    let mut time_ns = 1_000_000_000;
    let samples = (PID..).zip(threads).flat_map(|(tid, paths)| {
        let samples = paths.iter();
        samples.map(move |(path, weight)| (tid, path, weight))
    });
    for (tid, path, weight) in samples {
        let mut parent = None;
        for name in *path {
            let image = place(&mut images, name, |number| {
                let path = format!("//{name}");
                let build_id = Vec::new();
                records.push(Record::Image(Image {
                    number,
                    path,
                    build_id,
                }));
                records.push(Record::Frame(Frame {
                    number,
                    image: Some(number),
                    address: 16,
                }));
            });
            let node = place(&mut nodes, (parent, image), |number| {
                records.push(Record::Node(Node {
                    number,
                    parent,
                    frame: image,
                    certainty: StepCertainty::Confirmed,
                }));
            });
            parent = Some(node);
        }
        time_ns += weight;
        records.push(Record::Sample(Sample {
            pid: PID,
            tid,
            time_ns,
            weight: *weight,
            node: parent,
            end: PathEnd::Outermost,
        }));
    }
    written(&records)
}

/// The place of something in a list, to which it is added where it is new.
fn place<T: PartialEq>(all: &mut Vec<T>, one: T, added: impl FnOnce(u32)) -> u32 {
    let known = all.iter().position(|other| *other == one);
    let number = u32::try_from(known.unwrap_or(all.len())).expect("few");
    if known.is_none() {
        all.push(one);
        added(number);
    }
    number
}

fn written(records: &[Record]) -> Recording {
    let header = TraceHeader {
        order: Order::None,
        granule: 0,
        program: b"/bin/guest".to_vec(),
        arguments: vec![b"guest".to_vec()],
        options: Vec::new(),
        process: PID,
        parent_process: None,
        start_unix_ns: 1_700_000_000_000_000_000,
        tool_version: "0".to_owned(),
    };
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &header).expect("memory");
    for record in records {
        writer.write(record).expect("memory");
    }
    writer.flush().expect("memory");
    Recording::read(&bytes).expect("what was written is a recording")
}
