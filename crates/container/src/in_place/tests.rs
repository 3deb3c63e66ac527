//! Files that are filled in place.

use proptest::prelude::*;

use super::*;
use crate::order::Order;
use crate::stream::Form;

const COUNTS: StreamNumber = StreamNumber(0x200);
const NAMES: StreamNumber = StreamNumber(0x201);

fn header(arguments: usize) -> TraceHeader {
    TraceHeader {
        order: Order::None,
        granule: 0,
        program: b"/bin/true".to_vec(),
        arguments: vec![vec![b'a'; 100]; arguments],
        options: vec![("sampled".to_owned(), "no".to_owned())],
        process: 17,
        parent_process: Some(16),
        start_unix_ns: 5,
        tool_version: "1".to_owned(),
    }
}

fn streams() -> Vec<Declaration> {
    let declare = |number, name: &'static str, version| Declaration {
        number,
        name: name.into(),
        version,
        form: Form::Blocks,
    };
    vec![declare(COUNTS, "counts", 1), declare(NAMES, "names", 7)]
}

/// A file with two blocks of one page each, and a page that is not used yet.
fn example() -> (Vec<u8>, usize) {
    let mut bytes = start(&header(2), &streams());
    let first = bytes.len();
    for (stream, thread, number, word) in [(COUNTS, 3, 0, 11_u64), (NAMES, 0, 0, 12)] {
        let payload = PAGE_BYTES - HEADER_BYTES;
        bytes.extend(block_header(
            stream,
            ThreadId(thread),
            number,
            payload as u64,
        ));
        bytes.extend(word.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(PAGE_BYTES), 0);
    }
    bytes.resize(bytes.len() + PAGE_BYTES, 0);
    (bytes, first)
}

#[test]
fn blocks_come_back_and_unused_room_is_no_damage() {
    let (bytes, first) = example();
    assert_eq!(first, PAGE_BYTES);
    let file = InPlace::read(&bytes).expect("a file");
    assert_eq!(file.header, header(2));
    assert_eq!(file.streams, streams());
    assert_eq!(file.stream("names").map(|stream| stream.version), Some(7));
    let blocks: Vec<_> = file
        .blocks
        .iter()
        .map(|block| (block.stream, block.thread.0, block.offset, block.payload[0]))
        .collect();
    let second = first + PAGE_BYTES;
    assert_eq!(blocks, [(COUNTS, 3, first, 11), (NAMES, 0, second, 12)]);
    assert_eq!(file.gaps, []);
}

#[test]
fn long_arguments_take_more_pages() {
    let bytes = start(&header(100), &streams());
    assert_eq!(bytes.len(), 3 * PAGE_BYTES);
    let file = InPlace::read(&bytes).expect("a file");
    assert_eq!((file.header, file.streams), (header(100), streams()));
}

#[test]
fn a_block_without_its_magic_is_not_there_yet_and_hides_no_other() {
    let (mut bytes, first) = example();
    bytes[first..first + 8].fill(0);
    let file = InPlace::read(&bytes).expect("a file");
    let numbers: Vec<_> = file.blocks.iter().map(|block| block.stream).collect();
    assert_eq!(numbers, [NAMES]);
    let gap = Gap {
        offset: first,
        length: PAGE_BYTES,
        what: "they are no chunk",
    };
    assert_eq!(file.gaps, [gap]);
}

#[test]
fn other_files_are_refused() {
    let mut appended = header(0).to_bytes(Layout::Appended, 0);
    assert_eq!(
        InPlace::read(&appended).expect_err("appended"),
        HeaderError::NotInPlace
    );
    appended[8] = 99;
    let text = InPlace::read(&appended).expect_err("version").to_string();
    assert_eq!(
        text,
        "the trace has format version 99; this program reads versions up to 6"
    );
    for short in [&b""[..], b"UNSPOMP\n", &[0; 4096]] {
        let error = InPlace::read(short).expect_err("no trace");
        assert_eq!(error, HeaderError::NotATrace);
    }
}

proptest! {
    #[test]
    fn damage_is_survived_and_noticed(changes in prop::collection::vec((0_usize..4 * PAGE_BYTES, 1_u8..), 1..8), cut in 0_usize..PAGE_BYTES) {
        let (mut bytes, first) = example();
        let whole = InPlace::read(&bytes).expect("a file").blocks.len();
        bytes.truncate(bytes.len() - cut);
        for (at, change) in changes {
            if let Some(byte) = bytes.get_mut(first + at) {
                *byte ^= change;
            }
        }
        // What is behind the start may be anything.
        let file = InPlace::read(&bytes).expect("a file");
        let lost = whole - file.blocks.len().min(whole);
        prop_assert!(lost == 0 || !file.gaps.is_empty());
    }
}
