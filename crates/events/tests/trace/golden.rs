//! Files of all format versions that are read stay readable, and mean what they meant.
//!
//! `UPDATE_GOLDEN=1` writes the file of the newest version and its meaning anew; that is right only
//! together with a new format version.

use std::fs;
use std::path::PathBuf;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use unspool_events::*;

use crate::model::{Item, Recorder, any_program, header};
use crate::round_trip::write;

/// What the versions before 4 cannot say of an instruction.
const NOTHING_NEW: &str = " non_temporal: false, fetched: None, cache_control: None,";

/// What the versions before 6 cannot say.
const NO_CALL: &str = " calls_or_returns: false,";

/// Everything in a trace, for people.
fn meaning(trace: &Trace) -> String {
    let mut recorder = Recorder::default();
    assert_eq!(trace.problems(), []);
    assert_eq!(trace.merged().deliver(&mut recorder), []);
    let mut text = format!("{:?}\n", trace.header());
    for superblock in trace.superblocks() {
        let superblock = format!("{superblock:?}\n").replace(NO_CALL, "");
        text += &superblock.replace(NOTHING_NEW, "");
    }
    for (thread, item) in recorder.items {
        text += &format!("{} {item:?}\n", thread.0);
    }
    text
}

#[test]
fn version_2_keeps_its_meaning() {
    check(2);
}

#[test]
fn version_3_keeps_its_meaning() {
    check(3);
}

#[test]
fn version_4_keeps_its_meaning() {
    check(4);
}

#[test]
fn version_5_keeps_its_meaning() {
    check(5);
}

#[test]
fn version_6_keeps_its_meaning() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let (path, text_path) = files(6);
        let mut runner = TestRunner::deterministic();
        // One that has some of everything.
        let program = loop {
            let program = any_program(3)
                .new_tree(&mut runner)
                .expect("a program")
                .current();
            let items: Vec<Item> = (0..program.threads.len())
                .flat_map(|i| program.model(i).items)
                .collect();
            let has_values = items.iter().any(|item| matches!(item, Item::Values(..)));
            if program.order == Order::LineAtomic && items.len() > 300 && has_values {
                break program;
            }
        };
        let file = fs::File::create(&path).expect("a writable golden folder");
        let writer =
            TraceWriter::with_chunk_words(file, &header(program.order), 200).expect("a trace");
        write(&program, &writer, 50, Some(60));
        let trace = Trace::open(&path).expect("readable");
        fs::write(&text_path, meaning(&trace)).expect("a writable golden folder");
    }
    check(6);
}

/// A trace of this version, and what it means.
fn files(version: u32) -> (PathBuf, PathBuf) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let file = |kind| folder.join(format!("version-{version}.{kind}"));
    (file("trace"), file("txt"))
}

fn check(version: u32) {
    let (path, text_path) = files(version);
    let trace = Trace::open(&path).expect("a readable golden file");
    let expected = fs::read_to_string(&text_path).expect("a readable golden file");
    // Not assert_eq, which would print both.
    if meaning(&trace) != expected {
        for (found, expected) in meaning(&trace).lines().zip(expected.lines()) {
            assert_eq!(found, expected);
        }
        panic!("one has more lines than the other");
    }
}
