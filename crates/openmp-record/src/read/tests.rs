use proptest::prelude::*;
use unspool_container::in_place;
use unspool_container::stream::{Declaration, Form};
use unspool_container::{Order, ThreadId, TraceHeader};

use super::*;
use crate::layout::BLOCK_BYTES;

fn header() -> TraceHeader {
    TraceHeader {
        order: Order::None,
        granule: 0,
        program: b"/bin/program".to_vec(),
        arguments: vec![b"program".to_vec(), b"1".to_vec()],
        options: Vec::new(),
        process: 17,
        parent_process: None,
        start_unix_ns: 42,
        tool_version: "1".to_owned(),
    }
}

fn block(stream: StreamNumber, thread: u32, number: u64, bytes: usize) -> Vec<u8> {
    let payload = (bytes - HEADER_BYTES) as u64;
    let mut block = in_place::block_header(stream, ThreadId(thread), number, payload).to_vec();
    block.resize(bytes, 0);
    block
}

/// A block in which so much is used.
fn used_block(stream: StreamNumber, thread: u32, number: u64, used: u64) -> Vec<u8> {
    let mut block = block(stream, thread, number, BLOCK_BYTES);
    set(&mut block, block::USED, used);
    block
}

/// A file of a process that ended, with these blocks, made by hand.
fn file(ended: bool, blocks: &[Vec<u8>]) -> Vec<u8> {
    let mut process = block(stream::PROCESS, 0, 0, process_block::BYTES);
    set(&mut process, process_block::ENDED, u64::from(ended));
    set(&mut process, process_block::START_TICKS, 1000);
    set(&mut process, process_block::LAST_TICKS, 5000);
    set(&mut process, process_block::START_NS, 100);
    set(&mut process, process_block::LAST_NS, 2100);
    let mut bytes = in_place::start(&header(), &stream::declarations());
    bytes.extend(process);
    bytes.extend(blocks.concat());
    bytes
}

fn set(bytes: &mut [u8], offset: usize, value: u64) {
    bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
}

fn texts(record: &ProcessRecord) -> Vec<String> {
    record.problems.iter().map(Problem::to_string).collect()
}

#[test]
fn other_files_and_versions_are_refused() {
    assert_eq!(ProcessRecord::read(b"", None), Err(ReadError::NotARecord));
    let mut outdated = b"UNSPOMP\n".to_vec();
    outdated.extend(3_u64.to_le_bytes());
    outdated.resize(4096, 0);
    let refused = ProcessRecord::read(&outdated, None);
    assert_eq!(refused, Err(ReadError::Outdated { found: 3 }));
    let without_streams = in_place::start(&header(), &[]);
    let refused = ProcessRecord::read(&without_streams, None);
    assert_eq!(refused, Err(ReadError::NotARecord));
}

#[test]
fn schemas_that_are_not_known_are_named() {
    let of_version = |name: &'static str, number, version| Declaration {
        number,
        name: name.into(),
        version,
        form: Form::Blocks,
    };
    let [process, ..] = stream::declarations();
    let newer = of_version("openmp-spans", stream::SPANS, 9);
    let unknown = of_version("openmp-dreams", StreamNumber(0x1ff), 1);
    let mut bytes = in_place::start(&header(), &[process, newer, unknown]);
    bytes.extend(block(stream::PROCESS, 0, 0, process_block::BYTES));
    bytes.extend(used_block(stream::SPANS, 1, 0, 1));
    bytes.extend(used_block(StreamNumber(0x1ff), 1, 0, 1));
    let record = ProcessRecord::read(&bytes, None).unwrap();
    assert_eq!(record.spans, []);
    assert_eq!(
        texts(&record)[0],
        "openmp-spans: the record's stream openmp-spans has schema version 9; \
         this command reads version 1"
    );
    let newer = of_version("openmp-process", stream::PROCESS, 9);
    let bytes = in_place::start(&header(), &[newer]);
    let refused = ProcessRecord::read(&bytes, None);
    assert!(matches!(
        refused,
        Err(ReadError::UnknownSchema { found: 9, .. })
    ));
}

#[test]
fn the_header_says_of_which_process_it_is() {
    let record = ProcessRecord::read(&file(true, &[]), None).unwrap();
    assert_eq!(record.problems, []);
    assert_eq!(record.process, 17);
    assert_eq!(record.arguments, ["program", "1"]);
    assert_eq!(record.start_unix_ns, 42);
}

#[test]
fn ticks_become_nanoseconds() {
    let record = ProcessRecord::read(&file(true, &[]), None).unwrap();
    assert_eq!(record.duration_ns(), 2000);
    assert!((record.nanoseconds(100) - 50.0).abs() < 1e-9);
}

#[test]
fn what_is_open_at_an_abrupt_end_is_closed_there() {
    // A thread in two constructs, since 2000 and since 3000.
    let mut thread = used_block(stream::THREADS, 1, 0, 2);
    for (index, begin) in [(0, 2000), (1, 3000)] {
        let at = block::CONTENT + index * frame::BYTES;
        set(&mut thread, at + frame::CONSTRUCT, 0x10000 + index as u64);
        set(&mut thread, at + frame::BEGIN, begin);
    }
    let mut constructs = used_block(stream::CONSTRUCTS, 1, 1, 2);
    for (index, parent) in [(0, NONE), (1, 0x10000)] {
        let at = block::CONTENT + index * construct::BYTES;
        let kind = ConstructKind::Parallel as u64;
        set(&mut constructs, at + construct::KIND, kind);
        set(&mut constructs, at + construct::PARENT, parent);
    }
    // The reader knows that the process lived for another 500 ns, which are 1000 ticks.
    let bytes = file(false, &[thread, constructs]);
    let record = ProcessRecord::read(&bytes, Some(2600)).unwrap();
    assert_eq!(record.problems, [Problem::EndedAbruptly]);
    let own: Vec<u64> = record.constructs.iter().map(|one| one.own).collect();
    assert_eq!(own, [1000, 3000]);
    assert_eq!(record.constructs[0].total, 4000);
}

#[test]
fn damage_is_listed_and_the_rest_is_read() {
    let mut constructs = used_block(stream::CONSTRUCTS, 1, 0, 3);
    let at = |index: usize| block::CONTENT + index * construct::BYTES;
    let kind = ConstructKind::Loop as u64;
    set(&mut constructs, at(0) + construct::KIND, 999);
    set(&mut constructs, at(1) + construct::KIND, kind);
    set(&mut constructs, at(1) + construct::PARENT, 2);
    set(&mut constructs, at(2) + construct::KIND, kind);
    set(&mut constructs, at(2) + construct::PARENT, NONE);
    let mut bytes = file(true, &[constructs.clone(), constructs.clone()]);
    let record = ProcessRecord::read(&bytes, None).unwrap();
    assert_eq!(record.constructs.len(), 2);
    assert!(record.constructs.iter().all(|one| one.parent.is_none()));
    assert_eq!(
        texts(&record),
        [
            "construct 0x0: unknown kind 999",
            "construct 0x0: unknown kind 999",
            "constructs: 2 have the number of another",
            "constructs: 1 have no sound parent"
        ]
    );
    // What is cut off is no block any more, and neither is one whose header was changed.
    let first = bytes.len() - 2 * BLOCK_BYTES;
    bytes[first + 12] ^= 1;
    bytes.truncate(bytes.len() - 1);
    let record = ProcessRecord::read(&bytes, None).unwrap();
    assert_eq!(record.constructs, []);
    let end = bytes.len();
    assert_eq!(
        texts(&record),
        [format!("bytes {first} to {end}: they are no chunk")]
    );
}

#[test]
fn a_record_without_its_process_is_read() {
    let constructs = used_block(stream::CONSTRUCTS, 1, 0, 0);
    let mut bytes = in_place::start(&header(), &stream::declarations());
    bytes.extend(constructs);
    let record = ProcessRecord::read(&bytes, None).unwrap();
    assert_eq!(texts(&record)[0], "process: its block is missing");
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        stream in 0xff_u16..0x107,
        number in any::<u64>(),
        used in any::<u64>(),
        content in proptest::collection::vec(any::<u8>(), 0..2000),
    ) {
        let mut block = used_block(StreamNumber(stream), 1, number, used);
        block[block::CONTENT..block::CONTENT + content.len()].copy_from_slice(&content);
        let bytes = file(true, &[block]);
        let record = ProcessRecord::read(&bytes, Some(u64::MAX)).unwrap();
        for one in &record.constructs {
            prop_assert!(one.parent.is_none_or(|parent| parent < one.number));
        }
    }

    #[test]
    fn no_length_of_a_block_makes_the_reader_panic(
        stream in 0x100_u16..0x105,
        length in HEADER_BYTES..400,
        cut in 0_usize..400,
    ) {
        let mut bytes = in_place::start(&header(), &stream::declarations());
        bytes.extend(block(StreamNumber(stream), 1, 0, length));
        bytes.truncate(bytes.len().saturating_sub(cut));
        let _ = ProcessRecord::read(&bytes, None);
    }
}
