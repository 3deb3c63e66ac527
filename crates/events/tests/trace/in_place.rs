//! Files that are filled in place, and streams that nothing here knows.

use std::fs;

use unspool_container::in_place;
use unspool_events::stream::{Declaration, Form, StreamNumber};
use unspool_events::*;

use crate::model::{Recorder, header};

const COUNTS: StreamNumber = StreamNumber(0x200);

fn declaration(number: StreamNumber, form: Form) -> Declaration {
    Declaration {
        number,
        name: "counts".into(),
        version: 3,
        form,
    }
}

/// Two blocks of a page, and one that is not used yet.
fn example() -> Vec<u8> {
    let streams = [declaration(COUNTS, Form::Blocks)];
    let mut bytes = in_place::start(&header(Order::None), &streams);
    let payload = 4096 - in_place::HEADER_BYTES;
    for number in 0..2 {
        let block = in_place::block_header(COUNTS, ThreadId(7), number, payload as u64);
        bytes.extend(block);
        bytes.resize(bytes.len() + payload, 0xaa);
    }
    bytes.resize(bytes.len() + 4096, 0);
    bytes
}

fn open(bytes: &[u8]) -> Trace {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("counts");
    fs::write(&path, bytes).expect("writable");
    Trace::open(&path).expect("readable")
}

#[test]
fn blocks_are_listed_by_stream() {
    let trace = open(&example());
    assert_eq!(trace.problems(), []);
    assert_eq!(trace.layout(), Layout::InPlace);
    assert!(trace.is_complete());
    assert_eq!(
        trace.streams(),
        [StreamInfo {
            number: COUNTS,
            declaration: Some(declaration(COUNTS, Form::Blocks)),
            understanding: Understanding::Blocks,
            blocks: 2,
            block_bytes: 2 * 4096,
        }]
    );
    let mut recorder = Recorder::default();
    assert_eq!(trace.merged().deliver(&mut recorder), []);
    assert_eq!(recorder.items.len(), 0);
}

#[test]
fn a_block_that_is_not_published_is_room_and_one_that_is_damaged_is_damage() {
    let mut bytes = example();
    let second = bytes.len() - 2 * 4096;
    bytes[second] ^= 1;
    let trace = open(&bytes);
    let Some(StreamInfo { blocks: 1, .. }) = trace.streams().first() else {
        panic!("{:?}", trace.streams());
    };
    let damaged = Problem::Damaged {
        offset: second as u64,
        length: 2 * 4096,
        what: "no whole chunk is left",
    };
    assert_eq!(trace.problems(), [damaged]);
    bytes[second..].fill(0);
    assert_eq!(open(&bytes).problems(), []);
}

#[test]
fn a_file_that_is_filled_in_place_has_no_order_to_be_merged() {
    let error = StreamReader::new(&example()[..]).expect_err("no events");
    assert!(matches!(error, ReadError::InPlace));
}
