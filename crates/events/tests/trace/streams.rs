//! Streams among the records of threads: declared where they are used, passed over where they are
//! not understood.

use std::fs;
use std::path::PathBuf;

use unspool_events::stream::{Declaration, StreamNumber};
use unspool_events::*;
use xxhash_rust::xxh3::xxh3_64;

use crate::model::{Item, Recorder, header};

/// Records of several streams.
fn events() -> Vec<Event> {
    vec![
        ThreadEvent::Start {
            os_thread: 5,
            parent: None,
        }
        .into(),
        Span::RegionStart.into(),
        ProcessEvent::Exec.into(),
        Synchronisation {
            operation: SyncOperation::FutexWake,
            object: 0x40_1000,
        }
        .into(),
        ThreadEvent::End.into(),
    ]
}

/// A trace of these events, and its folder.
fn recorded(events: &[Event]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace");
    let writer = TraceWriter::create(&path, &header(Order::None)).expect("a trace");
    let mut thread = writer.thread(ThreadId(0));
    let mut words = Vec::new();
    events.iter().for_each(|event| event.encode(&mut words));
    thread.append(&words);
    thread.finish();
    writer.finish().expect("a whole trace");
    (folder, path)
}

fn items(trace: &Trace) -> Vec<Item> {
    let mut recorder = Recorder::default();
    assert_eq!(trace.merged().deliver(&mut recorder), []);
    recorder.items.into_iter().map(|(_, item)| item).collect()
}

fn numbered(events: &[Event]) -> Vec<Item> {
    let numbered = (1..).zip(events);
    numbered
        .map(|(time, event)| Item::Event(time, event.clone()))
        .collect()
}

#[test]
fn streams_are_declared_once_and_only_where_they_are_used() {
    let (_folder, path) = recorded(&events());
    let trace = Trace::open(&path).expect("readable");
    let declared: Vec<_> = trace
        .streams()
        .iter()
        .map(|info| {
            let declaration = info.declaration.as_ref().expect("declared");
            assert_eq!(info.understanding, Understanding::Known);
            (declaration.name.as_ref(), declaration.version)
        })
        .collect();
    let expected = ["threads", "synchronisation", "spans", "processes"].map(|name| (name, 1));
    assert_eq!(declared, expected);
    assert_eq!(items(&trace), numbered(&events()));
}

/// Changes the only declarations of a trace, whose length must remain. There is no index behind it
/// any more: what it says of checksums would be wrong.
fn redeclare(path: &PathBuf, from: &Declaration, to: &Declaration) {
    let encoded = |declaration: &Declaration| {
        let mut bytes = Vec::new();
        declaration.put(&mut bytes);
        bytes
    };
    let (from, to) = (encoded(from), encoded(to));
    assert_eq!(from.len(), to.len());
    let mut bytes = fs::read(path).expect("readable");
    let at = |bytes: &[u8], wanted: &[u8]| {
        let mut windows = bytes.windows(wanted.len());
        windows.position(|window| window == wanted).expect("there")
    };
    let place = at(&bytes, &from);
    bytes[place..][..to.len()].copy_from_slice(&to);
    let chunk = at(&bytes, b"\xd1UnspChk");
    let number = |bytes: &[u8], at: usize| {
        u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
    };
    assert_eq!(bytes[chunk + 8], 8, "the first chunk declares streams");
    let length = number(&bytes, chunk + 80) as usize;
    let sum = xxh3_64(&bytes[chunk + 112..][..length]);
    bytes[chunk + 88..][..8].copy_from_slice(&sum.to_le_bytes());
    let sum = xxh3_64(&bytes[chunk..chunk + 104]);
    bytes[chunk + 104..][..8].copy_from_slice(&sum.to_le_bytes());
    fs::write(path, bytes).expect("writable");
}

fn declaration(name: &'static str, version: u32) -> Declaration {
    Declaration {
        number: KnownStream::Processes.number(),
        name: name.into(),
        version,
        form: stream::Form::Records,
    }
}

/// Counts what is passed over.
#[derive(Default)]
struct PassedOver(Vec<(u64, StreamNumber)>);

impl Sink for PassedOver {
    fn passed_over(&mut self, _: ThreadId, time: u64, stream: StreamNumber) {
        self.0.push((time, stream));
    }
}

#[test]
fn a_stream_of_another_name_is_passed_over_and_listed() {
    let (_folder, path) = recorded(&events());
    redeclare(
        &path,
        &declaration("processes", 1),
        &declaration("elsewhere", 1),
    );
    let trace = Trace::open(&path).expect("readable");
    assert_eq!(trace.problems(), []);
    let number = KnownStream::Processes.number();
    let info = trace.streams().iter().find(|info| info.number == number);
    let info = info.expect("listed");
    assert_eq!(info.understanding, Understanding::Unknown);
    let mut passed_over = PassedOver::default();
    assert_eq!(trace.merged().deliver(&mut passed_over), []);
    assert_eq!(passed_over.0, [(3, number)]);
    // The others have the times that they had.
    let mut expected = numbered(&events());
    expected.remove(2);
    assert_eq!(items(&trace), expected);
}

#[test]
fn a_newer_schema_is_a_problem_that_names_both_versions() {
    let (_folder, path) = recorded(&events());
    redeclare(
        &path,
        &declaration("processes", 1),
        &declaration("processes", 9),
    );
    let trace = Trace::open(&path).expect("readable");
    let [problem] = trace.problems() else {
        panic!("{:?}", trace.problems());
    };
    assert_eq!(
        problem.to_string(),
        "the stream `processes` has schema version 9; this program reads versions up to 1"
    );
    assert_eq!(items(&trace).len(), events().len() - 1);
    let reader = StreamReader::new(fs::File::open(&path).expect("there")).expect("a trace");
    let Delivered { problems, .. } = reader.deliver(&mut PassedOver::default());
    assert_eq!(problems, std::slice::from_ref(problem));
}
