use super::*;
use proptest::prelude::*;

/// A file of the header and one block, made by hand.
fn file(kind: u64, used: u64) -> Vec<u8> {
    let mut bytes = vec![0; HEADER_BYTES + BLOCK_BYTES];
    let mut set = |offset: usize, value: u64| {
        bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
    };
    set(header::MAGIC, layout::MAGIC);
    set(header::VERSION, layout::VERSION);
    set(header::BLOCKS, 1);
    set(header::ENDED, 1);
    set(header::START_TICKS, 1000);
    set(header::LAST_TICKS, 5000);
    set(header::START_NS, 100);
    set(header::LAST_NS, 2100);
    set(HEADER_BYTES + block::KIND, kind);
    set(HEADER_BYTES + block::USED, used);
    bytes
}

fn set(bytes: &mut [u8], offset: usize, value: u64) {
    bytes[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn other_files_and_versions_are_refused() {
    assert_eq!(ProcessRecord::read(b"", None), Err(ReadError::NotARecord));
    let mut bytes = file(0, 0);
    set(&mut bytes, header::VERSION, 7);
    let refused = ProcessRecord::read(&bytes, None);
    assert_eq!(refused, Err(ReadError::UnknownVersion { found: 7 }));
}

#[test]
fn ticks_become_nanoseconds() {
    let record = ProcessRecord::read(&file(0, 0), None).unwrap();
    assert_eq!(record.problems, []);
    assert_eq!(record.duration_ns(), 2000);
    assert!((record.nanoseconds(100) - 50.0).abs() < 1e-9);
}

#[test]
fn what_is_open_at_an_abrupt_end_is_closed_there() {
    let mut bytes = vec![0; HEADER_BYTES + 2 * BLOCK_BYTES];
    bytes[..HEADER_BYTES].copy_from_slice(&file(0, 0)[..HEADER_BYTES]);
    set(&mut bytes, header::ENDED, 0);
    set(&mut bytes, header::BLOCKS, 2);
    // A thread with two frames: constructs 0x10000 (since 2000) and 0x10001 (since 3000).
    set(&mut bytes, HEADER_BYTES + block::KIND, block::THREAD);
    set(&mut bytes, HEADER_BYTES + block::USED, 2);
    for (index, begin) in [(0, 2000), (1, 3000)] {
        let at = HEADER_BYTES + thread::FRAMES + index * frame::BYTES;
        set(&mut bytes, at + frame::CONSTRUCT, 0x10000 + index as u64);
        set(&mut bytes, at + frame::BEGIN, begin);
    }
    let second = HEADER_BYTES + BLOCK_BYTES;
    set(&mut bytes, second + block::KIND, block::CONSTRUCTS);
    set(&mut bytes, second + block::USED, 2);
    for (index, parent) in [(0, NONE), (1, 0x10000)] {
        let at = second + BLOCK_HEADER_BYTES + index * construct::BYTES;
        set(&mut bytes, at + construct::KIND, Kind::Parallel as u64);
        set(&mut bytes, at + construct::PARENT, parent);
    }
    // The reader knows that the process lived for another 500 ns, which are 1000 ticks.
    let record = ProcessRecord::read(&bytes, Some(2600)).unwrap();
    assert_eq!(record.problems, [Problem::EndedAbruptly]);
    let own: Vec<u64> = record.constructs.iter().map(|one| one.own).collect();
    assert_eq!(own, [1000, 3000]);
    assert_eq!(record.constructs[0].total, 4000);
}

#[test]
fn damage_is_listed_and_the_rest_is_read() {
    let mut bytes = file(block::CONSTRUCTS, 3);
    let at = |index: usize| HEADER_BYTES + BLOCK_HEADER_BYTES + index * construct::BYTES;
    set(&mut bytes, at(0) + construct::KIND, 999);
    set(&mut bytes, at(1) + construct::KIND, Kind::Loop as u64);
    set(&mut bytes, at(1) + construct::PARENT, 2);
    set(&mut bytes, at(2) + construct::KIND, Kind::Loop as u64);
    set(&mut bytes, at(2) + construct::PARENT, NONE);
    let record = ProcessRecord::read(&bytes, None).unwrap();
    assert_eq!(record.constructs.len(), 2);
    assert!(record.constructs.iter().all(|one| one.parent.is_none()));
    let texts: Vec<String> = record.problems.iter().map(Problem::to_string).collect();
    assert_eq!(
        texts,
        [
            "construct 0x0: unknown kind 999",
            "constructs: 1 have no sound parent"
        ]
    );
    bytes.truncate(HEADER_BYTES + 100);
    let record = ProcessRecord::read(&bytes, None).unwrap();
    assert_eq!(
        record.problems[0].to_string(),
        "header: 1 blocks are counted, 0 are there"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic(
        kind in 0u64..6,
        used in any::<u64>(),
        content in proptest::collection::vec(any::<u8>(), 0..2000),
    ) {
        let mut bytes = file(kind, used);
        let start = HEADER_BYTES + BLOCK_HEADER_BYTES;
        bytes[start..start + content.len()].copy_from_slice(&content);
        let record = ProcessRecord::read(&bytes, Some(u64::MAX)).unwrap();
        for one in &record.constructs {
            prop_assert!(one.parent.is_none_or(|parent| parent < one.number));
        }
    }
}
