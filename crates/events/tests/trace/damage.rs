//! Damaged traces give what can be read, say what cannot, and never panic.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use unspool_events::raw::path_header;
use unspool_events::superblock::*;
use unspool_events::*;

use crate::model::{Item, Recorder, header};

/// How many chunks each of the two threads has.
const CHUNKS: u64 = 5;

/// A small trace with two threads; each chunk holds two accesses and an event.
fn small_trace(directory: &Path) -> PathBuf {
    let path = directory.join("trace");
    let writer = TraceWriter::create(&path, &header(Order::None)).expect("a trace");
    let operand = |kind| Operand {
        kind,
        size: 8,
        address: AddressSource::Word { slot: 0, add: 16 },
        extent: Extent::Plain,
    };
    let operands = vec![operand(AccessKind::Read), operand(AccessKind::Write)];
    writer.define_superblock(&Superblock {
        pc: 0x1000,
        first_path: PathId(3),
        instructions: vec![AccessingInstruction {
            pc: 0x1004,
            operands,
            ..Default::default()
        }],
        paths: vec![unspool_events::superblock::Path {
            accessing: 1,
            executed: 2,
            words: 1,
        }],
    });
    writer.define_module(&Module {
        id: ModuleId(0),
        path: b"/bin/true".to_vec(),
        base: 0x1000,
        size: 0x1000,
        build_id: vec![1, 2, 3],
    });
    let mut encoders = [writer.thread(ThreadId(0)), writer.thread(ThreadId(1))];
    for chunk in 0..CHUNKS {
        for encoder in &mut encoders {
            let mut words = vec![u64::from(path_header(PathId(3), 1)), 0x5000 + chunk * 8];
            Event::Thread(ThreadEvent::Pointer {
                address: chunk,
                variables: None,
            })
            .encode(&mut words);
            encoder.append(&words);
            encoder.flush();
        }
    }
    encoders.into_iter().for_each(ThreadEncoder::finish);
    writer.finish().expect("the file can be written");
    path
}

/// The chunks of a thread that were read, by the number in their event.
fn chunks_read(items: &[Item]) -> Vec<u64> {
    let mut chunks = Vec::new();
    for (i, item) in items.iter().enumerate() {
        if let Item::Event(_, Event::Thread(ThreadEvent::Pointer { address, .. })) = item {
            chunks.push(*address);
            // Without the definitions there are no accesses, but no wrong ones either.
            let of_chunk = items[..i].iter().rev().take(2);
            let addresses: Vec<u64> = of_chunk
                .map_while(|item| match item {
                    Item::Access(access) => Some(access.address),
                    _ => None,
                })
                .collect();
            assert!(addresses.is_empty() || addresses == [0x5010 + address * 8; 2]);
        }
    }
    chunks
}

/// Reads everything of a trace in every way; returns the chunks of the two threads and
/// whether anything was wrong.
fn read_all(path: &Path) -> Option<([Vec<u64>; 2], bool)> {
    let trace = Trace::open(path).ok()?;
    let mut problems = trace.problems().to_vec();
    let mut recorder = Recorder::default();
    problems.extend(trace.merged().deliver(&mut recorder));
    let mut by_thread = Recorder::default();
    for info in trace.threads() {
        trace.thread(info.thread).deliver(&mut by_thread);
    }
    let threads = [0, 1].map(ThreadId);
    for thread in threads {
        assert_eq!(recorder.of(thread), by_thread.of(thread));
    }
    for problem in &problems {
        assert!(!problem.to_string().is_empty());
    }
    let _ = trace.summary();
    Some((
        threads.map(|thread| chunks_read(&recorder.of(thread))),
        !problems.is_empty(),
    ))
}

/// Reads a trace as a stream; returns whether anything was wrong.
fn stream(bytes: &[u8]) -> Option<bool> {
    let reader = StreamReader::new(bytes).ok()?;
    let Delivered { problems, .. } = reader.deliver(&mut Recorder::default());
    Some(!problems.is_empty())
}

fn all_chunks() -> Vec<u64> {
    (0..CHUNKS).collect()
}

#[test]
fn an_undamaged_trace_has_no_problems() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = small_trace(directory.path());
    assert_eq!(read_all(&path), Some(([all_chunks(), all_chunks()], false)));
    assert_eq!(stream(&fs::read(&path).expect("readable")), Some(false));
    let trace = Trace::open(&path).expect("readable");
    assert_eq!(trace.modules()[0].path, b"/bin/true");
}

#[test]
fn every_truncation_gives_the_chunks_before_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = small_trace(directory.path());
    let bytes = fs::read(&path).expect("readable");
    let mut most = 0;
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).expect("writable");
        let streamed = stream(&bytes[..length]);
        let Some((chunks, damaged)) = read_all(&path) else {
            assert_eq!(
                most, 0,
                "a longer trace cannot be opened, a shorter one could"
            );
            assert_eq!(streamed, None);
            continue;
        };
        assert!(damaged, "cut to {length} of {} bytes", bytes.len());
        let read = chunks.iter().map(Vec::len).sum();
        assert!(read >= most, "fewer chunks from more bytes");
        most = read;
        for chunks in chunks {
            assert_eq!(chunks, all_chunks()[..chunks.len()]);
        }
        // A stream needs no trailer.
        assert!(
            streamed == Some(true) || length + 16 >= bytes.len(),
            "cut to {length}"
        );
    }
    assert_eq!(most as u64, 2 * CHUNKS);
}

#[test]
fn other_files_and_other_versions_are_refused() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = small_trace(directory.path());
    let mut bytes = fs::read(&path).expect("readable");
    bytes[8] = 99;
    fs::write(&path, &bytes).expect("writable");
    let error = Trace::open(&path).expect_err("an unknown version");
    assert!(matches!(
        error,
        ReadError::Header(HeaderError::UnknownVersion {
            found: 99,
            known: 6
        })
    ));
    assert_eq!(
        error.to_string(),
        "the trace has format version 99; this program reads versions up to 6"
    );
    // Shorter than a header, or not.
    for other in [
        "#!/bin/sh\nexit 0 # not a trace\n",
        "not a trace\n",
        "short",
        "",
    ] {
        fs::write(&path, other).expect("writable");
        assert!(
            matches!(
                Trace::open(&path),
                Err(ReadError::Header(HeaderError::NotATrace))
            ),
            "{other:?}"
        );
    }
    bytes.truncate(12);
    fs::write(&path, &bytes).expect("writable");
    assert!(matches!(
        Trace::open(&path),
        Err(ReadError::Header(HeaderError::DamagedHeader { .. }))
    ));
    assert!(matches!(
        Trace::open(directory.path()),
        Err(ReadError::Read { .. })
    ));
    let missing = directory.path().join("missing");
    assert!(matches!(Trace::open(&missing), Err(ReadError::Open { .. })));
}

#[test]
fn a_damaged_chunk_is_reported_to_the_sink() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = small_trace(directory.path());
    let bytes = fs::read(&path).expect("readable");
    // The third chunk with records: of thread 0, with number 1.
    let magic = &b"\xd1UnspChk"[..];
    let starts: Vec<usize> = (0..bytes.len() - 8)
        .filter(|&at| &bytes[at..at + 8] == magic)
        .collect();
    let records = starts.iter().filter(|&&at| bytes[at + 8] == 1).nth(2);
    let at = records.expect("a third chunk") + 120;
    let mut damaged = bytes.clone();
    damaged[at] ^= 1;
    fs::write(&path, &damaged).expect("writable");
    let trace = Trace::open(&path).expect("readable");
    let mut recorder = Recorder::default();
    let problems = trace.merged().deliver(&mut recorder);
    let lost = Problem::LostChunk {
        thread: ThreadId(0),
        time: 2,
        words: 4,
        what: "its checksum is wrong",
    };
    assert_eq!(problems, [lost]);
    let dropped = |item: &Item| matches!(item, Item::Event(_, Event::Loss(Loss { words: 4, .. })));
    assert!(recorder.of(ThreadId(0)).iter().any(dropped));
    assert_eq!(chunks_read(&recorder.of(ThreadId(0))), [0, 2, 3, 4]);
    assert_eq!(chunks_read(&recorder.of(ThreadId(1))), all_chunks());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn flipped_bits_cost_only_the_chunks_they_hit(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 1..4),
    ) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = small_trace(directory.path());
        let mut bytes = fs::read(&path).expect("readable");
        for (at, bit) in &flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        let changed = bytes != fs::read(&path).expect("readable");
        fs::write(&path, &bytes).expect("writable");
        let streamed = stream(&bytes);
        if let Some((chunks, damaged)) = read_all(&path) {
            prop_assert_eq!(damaged, changed);
            // Each flip hits one chunk at most; damaged definitions cost all accesses, but
            // no events.
            let read: usize = chunks.iter().map(Vec::len).sum();
            prop_assert!(read + flips.len() >= 2 * CHUNKS as usize);
        } else {
            // The file header was hit.
            prop_assert_eq!(streamed, None);
        }
    }

    #[test]
    fn overwritten_stretches_are_survived(
        at: prop::sample::Index,
        garbage in proptest::collection::vec(any::<u8>(), 1..400),
    ) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = small_trace(directory.path());
        let mut bytes = fs::read(&path).expect("readable");
        let at = at.index(bytes.len());
        bytes.splice(at..(at + garbage.len()).min(bytes.len()), garbage);
        fs::write(&path, &bytes).expect("writable");
        let _ = read_all(&path);
        let _ = stream(&bytes);
    }
}
