//! What is written comes back, from a file and from a pipe.

use std::fs::File;
use std::thread;

use proptest::option;
use proptest::prelude::*;
use unspool_events::raw::{Header, PATH_IDS, SpecialKind};
use unspool_events::superblock::Superblock;
use unspool_events::*;

use crate::model::*;

/// The ids that a generation gives to the paths: in every second one they are others.
fn ids_in(superblock: &Superblock, generation: usize) -> PathId {
    const LAST: u32 = 1 << 20;
    let first = superblock.first_path.0;
    PathId(match generation % 2 {
        0 => first,
        _ => LAST - first - superblock.paths.len() as u32,
    })
}

/// Superblocks and records, whose ids are those of the first generation, in the terms of another.
fn define(program: &Program, writer: &dyn RecordSink, generation: usize) {
    for superblock in &program.superblocks {
        writer.define_superblock(&Superblock {
            first_path: ids_in(superblock, generation),
            ..superblock.clone()
        });
    }
}

fn in_terms_of(words: &[u64], program: &Program, generation: usize) -> Vec<u64> {
    let new_id = |id: u32| {
        let paths = |superblock: &&Superblock| {
            let first = superblock.first_path.0;
            (first..first + superblock.paths.len() as u32).contains(&id)
        };
        let superblock = program
            .superblocks
            .iter()
            .find(paths)
            .expect("a known path");
        ids_in(superblock, generation).0 + id - superblock.first_path.0
    };
    let mut words = words.to_vec();
    let mut at = 0;
    while let Some(&header) = words.get(at) {
        let (id, count) = match Header::decode(header) {
            Header::Path { path, words } => (Some(path.0), words),
            Header::Special {
                kind: Some(SpecialKind::Partial),
                argument,
                words,
            } => (Some(argument as u32 & (PATH_IDS - 1)), words),
            Header::Special { words, .. } => (None, words),
        };
        if let Some(id) = id {
            words[at] = header & !u64::from(PATH_IDS - 1) | u64::from(new_id(id));
        }
        at += 1 + count;
    }
    words
}

/// Writes a program's threads in turns, with flushes now and then, and with a new generation of
/// path ids every so many steps: threads enter it one after the other.
pub(crate) fn write(
    program: &Program,
    writer: &dyn RecordSink,
    flush_every: usize,
    generation_steps: Option<usize>,
) -> Summary {
    let generation_steps = generation_steps.unwrap_or(usize::MAX);
    let mut generation = 0;
    let modelled: Vec<Modelled> = (0..program.threads.len())
        .map(|i| program.model(i))
        .collect();
    let mut encoders: Vec<Box<dyn ThreadRecords>> = (0..)
        .zip(&modelled)
        .map(|(i, _)| writer.thread(ThreadId(i)))
        .collect();
    let longest = modelled
        .iter()
        .map(|thread| thread.cuts.len())
        .max()
        .unwrap_or(0);
    define(program, writer, generation);
    let mut entered = vec![generation; encoders.len()];
    for step in 0..longest {
        if step % generation_steps == generation_steps - 1 {
            generation += 1;
            writer.begin_generation();
            define(program, writer, generation);
        }
        let threads = modelled.iter().zip(&mut encoders).zip(&mut entered);
        for (number, ((thread, encoder), entered)) in threads.enumerate() {
            if step % generation_steps == number {
                encoder.enter_generation();
                *entered = generation;
            }
            let Some(&start) = thread.cuts.get(step) else {
                continue;
            };
            let end = thread
                .cuts
                .get(step + 1)
                .copied()
                .unwrap_or(thread.words.len());
            encoder.append(&in_terms_of(&thread.words[start..end], program, *entered));
            if step % flush_every == 0 {
                encoder.flush();
            }
        }
    }
    encoders.into_iter().for_each(|encoder| encoder.finish());
    writer.finish().expect("the file can be written")
}

fn check_summary(program: &Program, summary: &Summary) {
    let modelled: Vec<Modelled> = (0..program.threads.len())
        .map(|i| program.model(i))
        .collect();
    let sum = |field: fn(&Modelled) -> u64| modelled.iter().map(field).sum::<u64>();
    assert_eq!(summary.threads, modelled.len() as u64);
    assert_eq!(summary.accesses, sum(Modelled::accesses));
    assert_eq!(summary.instructions, sum(|thread| thread.instructions));
    assert_eq!(summary.events, sum(|thread| thread.events));
    assert_eq!(summary.raw_words, sum(|thread| thread.words.len() as u64));
    assert_eq!(summary.dropped_words, 0);
}

/// Sorts all items by (time, thread), stably: the naive merge.
pub(crate) fn sorted(program: &Program) -> Vec<(ThreadId, Item)> {
    let mut items: Vec<(ThreadId, u64, Item)> = Vec::new();
    for i in 0..program.threads.len() {
        for item in program.model(i).items {
            items.push((ThreadId(i as u32), item.time(), item));
        }
    }
    items.sort_by_key(|(thread, time, _)| (*time, *thread));
    items
        .into_iter()
        .map(|(thread, _, item)| (thread, item))
        .collect()
}

fn events_of(recorder: &Recorder) -> Vec<&(ThreadId, Item)> {
    let items = recorder.items.iter();
    items
        .filter(|(_, item)| matches!(item, Item::Event(..)))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn through_a_file(
        program in any_program(4),
        chunk_words in 1..400_usize,
        flush_every in 1..30_usize,
        generation_steps in option::of(5..40_usize),
    ) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("trace");
        let file = File::create(&path).expect("a file");
        let writer = TraceWriter::with_chunk_words(file, &header(program.order), chunk_words)
            .expect("a trace");
        let summary = write(&program, &writer, flush_every, generation_steps);
        check_summary(&program, &summary);

        let trace = Trace::open(&path).expect("a readable trace");
        prop_assert_eq!(trace.problems(), &[]);
        prop_assert!(trace.is_complete());
        prop_assert_eq!(trace.header(), &header(program.order));
        prop_assert_eq!(&trace.superblocks()[..program.superblocks.len()], &program.superblocks[..]);
        prop_assert_eq!(trace.summary(), summary);
        for info in trace.threads() {
            let modelled = program.model(info.thread.0 as usize);
            prop_assert!(info.finished);
            prop_assert_eq!(info.end_time, modelled.time);
            prop_assert_eq!(info.accesses, modelled.accesses());
            let mut recorder = Recorder::default();
            prop_assert_eq!(trace.thread(info.thread).deliver(&mut recorder), vec![]);
            prop_assert_eq!(recorder.of(info.thread), modelled.items);
        }

        let mut recorder = Recorder::default();
        prop_assert_eq!(trace.merged().deliver(&mut recorder), vec![]);
        prop_assert_eq!(&recorder.items, &sorted(&program));

        let mut ahead = Recorder { takes_ahead: true, ..Recorder::default() };
        prop_assert_eq!(trace.merged().deliver(&mut ahead), vec![]);
        for info in trace.threads() {
            prop_assert_eq!(ahead.of(info.thread), recorder.of(info.thread));
        }
        prop_assert_eq!(events_of(&ahead), events_of(&recorder));
        if program.order != Order::LineAtomic {
            prop_assert_eq!(&ahead.items, &recorder.items);
        }
    }

    #[test]
    fn through_a_pipe(
        program in any_program(4),
        chunk_words in 1..400_usize,
        flush_every in 1..30_usize,
        generation_steps in option::of(5..40_usize),
    ) {
        let (reader, sender) = std::io::pipe().expect("a pipe");
        let file = File::from(std::os::fd::OwnedFd::from(sender));
        let (recorder, summary, problems, written) = thread::scope(|scope| {
            let reading = scope.spawn(|| {
                let reader = StreamReader::new(reader).expect("a readable trace");
                assert_eq!(reader.header(), &header(program.order));
                let mut recorder = Recorder::default();
                let delivered = reader.deliver(&mut recorder);
                (recorder, delivered.summary, delivered.problems)
            });
            let writer = TraceWriter::with_chunk_words(file, &header(program.order), chunk_words)
                .expect("a trace");
            let written = write(&program, &writer, flush_every, generation_steps);
            drop(writer);
            let (recorder, summary, problems) = reading.join().expect("no panic");
            (recorder, summary, problems, written)
        });
        prop_assert_eq!(summary, written);
        // Threads that appear without having been created may be late; nothing else is wrong.
        let late = |problem: &Problem| matches!(problem, Problem::LateThread { .. });
        prop_assert!(problems.iter().all(late));
        for i in 0..program.threads.len() {
            prop_assert_eq!(recorder.of(ThreadId(i as u32)), program.model(i).items);
        }
    }
}

#[test]
fn the_naive_merge_notices_a_wrong_order() {
    // A negative control: two threads, whose items do not stand one after the other.
    let event = |stamp| Step::Event(Event::Span(Span::RegionStart), Some(stamp));
    let program = Program {
        order: Order::LineAtomic,
        superblocks: Vec::new(),
        threads: vec![vec![event(10), event(20)], vec![event(15), event(20)]],
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("trace");
    let writer = TraceWriter::create(&path, &header(program.order)).expect("a trace");
    write(&program, &writer, 1, None);
    let trace = Trace::open(&path).expect("a readable trace");
    let mut merged = Recorder::default();
    trace.merged().deliver(&mut merged);
    let mut one_after_the_other = Recorder::default();
    trace.thread(ThreadId(0)).deliver(&mut one_after_the_other);
    trace.thread(ThreadId(1)).deliver(&mut one_after_the_other);
    assert_eq!(merged.items, sorted(&program));
    assert_ne!(one_after_the_other.items, sorted(&program));
    let order: Vec<u32> = merged.items.iter().map(|(thread, _)| thread.0).collect();
    assert_eq!(order, [0, 1, 0, 1]);
}
