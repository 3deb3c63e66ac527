//! A stream is given in order, as soon as it is settled, and writers survive their readers.

use std::fs::File;
use std::io::{Read, pipe};
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use unspool_events::raw::{SpecialKind, special_header};
use unspool_events::*;

use crate::model::header;

/// An event with a stamp.
fn stamped(time: u64, event: &Event) -> Vec<u64> {
    let mut words = vec![special_header(SpecialKind::Stamp, 0, 1), time];
    event.encode(&mut words);
    words
}

fn pipe_writer(chunk_words: usize) -> (std::io::PipeReader, TraceWriter) {
    let (reader, sender) = pipe().expect("a pipe");
    let file = File::from(OwnedFd::from(sender));
    let writer = TraceWriter::with_chunk_words(file, &header(Order::LineAtomic), chunk_words);
    (reader, writer.expect("a trace"))
}

/// Sends the time and thread of each event.
struct Times(mpsc::Sender<(u64, u32)>);

impl Sink for Times {
    fn event(&mut self, thread: ThreadId, time: u64, _: &Event) {
        self.0.send((time, thread.0)).expect("a receiver");
    }
}

#[test]
fn items_are_given_once_no_thread_can_bring_earlier_ones() {
    let (reader, writer) = pipe_writer(1000);
    let (sender, given) = mpsc::channel();
    let reading = thread::spawn(move || {
        let reader = StreamReader::new(reader).expect("a readable trace");
        reader.deliver(&mut Times(sender))
    });
    let next = || {
        given
            .recv_timeout(Duration::from_secs(20))
            .expect("an item is settled")
    };
    let nothing = || given.recv_timeout(Duration::from_millis(100)).is_err();

    let create = Event::Synchronisation(Synchronisation {
        operation: SyncOperation::ThreadCreate,
        object: 1,
    });
    let mut parent = writer.thread(ThreadId(0));
    parent.append(&stamped(10, &create));
    parent.append(&stamped(20, &Event::Span(Span::RegionStart)));
    parent.flush();
    assert_eq!(next(), (10, 0));
    assert!(nothing(), "the child may have earlier items");

    let mut child = writer.thread(ThreadId(1));
    child.append(&stamped(11, &Event::Span(Span::RegionStart)));
    child.append(&stamped(15, &Event::Span(Span::RegionEnd)));
    child.flush();
    assert_eq!(next(), (11, 1));
    assert_eq!(next(), (15, 1));
    assert!(nothing(), "the child may have more");

    child.append(&stamped(30, &Event::Thread(ThreadEvent::End)));
    child.flush();
    assert_eq!(next(), (20, 0));
    assert!(nothing(), "the parent may have earlier items");
    parent.append(&stamped(40, &Event::Span(Span::RegionEnd)));
    parent.flush();
    assert_eq!(next(), (30, 1));
    assert!(nothing(), "the child's last item was no promise");
    child.finish();
    assert_eq!(next(), (40, 0));
    parent.finish();
    let written = writer.finish().expect("a reader that reads");
    drop(writer);
    let Delivered {
        summary, problems, ..
    } = reading.join().expect("no panic");
    assert_eq!(summary, written);
    assert_eq!(problems, []);
}

#[test]
fn a_thread_that_was_not_announced_is_reported_if_it_is_late() {
    let (reader, writer) = pipe_writer(1000);
    let mut first = writer.thread(ThreadId(0));
    let mut second = writer.thread(ThreadId(1));
    first.append(&stamped(50, &Event::Span(Span::RegionStart)));
    first.flush();
    second.append(&stamped(20, &Event::Span(Span::RegionStart)));
    second.finish();
    first.finish();
    writer.finish().expect("a pipe with room");
    drop(writer);
    let (sender, given) = mpsc::channel();
    let reader = StreamReader::new(reader).expect("a readable trace");
    let Delivered { problems, .. } = reader.deliver(&mut Times(sender));
    assert_eq!(
        problems,
        [Problem::LateThread {
            thread: ThreadId(1),
            time: 20
        }]
    );
    assert_eq!(given.iter().collect::<Vec<_>>(), [(50, 0), (20, 1)]);
}

#[test]
fn a_closed_pipe_is_an_error_at_the_end_and_not_before() {
    let (reader, writer) = pipe_writer(1000);
    drop(reader);
    let mut thread = writer.thread(ThreadId(0));
    for time in 0..100 {
        thread.append(&stamped(time, &Event::Span(Span::RegionStart)));
        thread.flush();
    }
    thread.finish();
    writer.count_dropped(5);
    let error = writer.finish().expect_err("nobody reads");
    let WriteError::Write {
        dropped_words,
        source,
        ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(*dropped_words, 305);
    assert_eq!(source.kind(), std::io::ErrorKind::BrokenPipe);
    assert!(matches!(writer.finish(), Err(WriteError::Write { .. })));
}

#[test]
fn a_full_disk_is_an_error_at_the_end_and_not_before() {
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("Linux");
    let error = TraceWriter::from_file(full, &header(Order::None)).expect_err("no space");
    let WriteError::Write {
        source, offset: 0, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!(source.kind(), std::io::ErrorKind::StorageFull);
}

#[test]
fn dropping_writes_nothing() {
    let (mut reader, writer) = pipe_writer(1000);
    let mut thread = writer.thread(ThreadId(0));
    thread.append(&stamped(1, &Event::Span(Span::RegionStart)));
    writer.define_module(&Module {
        id: ModuleId(0),
        path: Vec::new(),
        base: 0,
        size: 0,
        build_id: Vec::new(),
    });
    drop(thread);
    drop(writer);
    let mut written = Vec::new();
    reader.read_to_end(&mut written).expect("readable");
    // Only the header, which was there before.
    let (mut other, fresh) = pipe_writer(1000);
    drop(fresh);
    let mut expected = Vec::new();
    other.read_to_end(&mut expected).expect("readable");
    assert_eq!(written, expected);
}

#[test]
fn discarding_counts_words() {
    let writer = TraceWriter::discarding(&header(Order::None));
    let mut thread = writer.thread(ThreadId(0));
    thread.append(&stamped(1, &Event::Span(Span::RegionStart)));
    thread.append(&stamped(2, &Event::Span(Span::RegionStart)));
    thread.finish();
    writer.count_dropped(1);
    let summary = writer.finish().expect("nothing can fail");
    let expected = Summary {
        raw_words: 6,
        dropped_words: 1,
        ..Summary::default()
    };
    assert_eq!(summary, expected);
}

#[test]
fn half_a_record_is_dropped_and_counted() {
    let (mut reader, writer) = pipe_writer(1000);
    let mut thread = writer.thread(ThreadId(0));
    thread.append(&stamped(1, &Event::Span(Span::RegionStart)));
    thread.append(&[3 << 24, 1]);
    thread.finish();
    let summary = writer.finish().expect("a pipe with room");
    assert_eq!(
        (summary.raw_words, summary.dropped_words, summary.events),
        (3, 2, 1)
    );
    drop(writer);
    assert!(reader.read(&mut [0; 8]).expect("readable") == 8);
}

#[test]
fn threads_write_at_the_same_time() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("trace");
    let writer = TraceWriter::create(&path, &header(Order::LineAtomic)).expect("a trace");
    thread::scope(|scope| {
        for id in 0..4 {
            let writer = writer.clone();
            scope.spawn(move || {
                let mut encoder = writer.thread(ThreadId(id));
                for time in 0..500 {
                    encoder.append(&stamped(
                        time * 4 + u64::from(id) + 1,
                        &Event::Span(Span::RegionStart),
                    ));
                    if time % 7 == 0 {
                        encoder.flush();
                    }
                }
                encoder.finish();
            });
        }
    });
    writer.finish().expect("the file can be written");
    let (sender, given) = mpsc::channel();
    let trace = Trace::open(&path).expect("a readable trace");
    assert_eq!(trace.merged().deliver(&mut Times(sender)), []);
    let expected: Vec<(u64, u32)> = (0..2000).map(|i| (i + 1, (i % 4) as u32)).collect();
    assert_eq!(given.iter().collect::<Vec<_>>(), expected);
}
