//! An analysis in the process that it is about gets what one over the file gets.

use std::sync::{Arc, Mutex};

use proptest::option;
use proptest::prelude::*;
use unspool_events::raw::{SpecialKind, special_header};
use unspool_events::*;

use crate::model::{Recorder, any_program, header};
use crate::round_trip::write;

/// What a live analysis got, and what came of it.
type Outcome = Arc<Mutex<Option<(Recorder, Seen)>>>;

/// Keeps what an analysis was given, and says how much that is.
struct Keep(Outcome);

impl Conclusion<Recorder> for Keep {
    fn conclude(&mut self, recorder: Recorder, seen: &Seen) -> Verdict {
        *self.0.lock().expect("no panic") = Some((recorder, seen.clone()));
        Verdict {
            text: "done\n".to_owned(),
            status: Some(3),
            yields_to_failure: false,
        }
    }

    fn so_far(&mut self, recorder: &Recorder, seen: &Seen) -> String {
        assert_eq!(recorder.items.len() as u64, seen.summary.events);
        format!("{} events\n", seen.summary.events)
    }
}

/// Says nothing.
struct Silent;

impl Conclusion<Times> for Silent {
    fn conclude(&mut self, _: Times, _: &Seen) -> Verdict {
        Verdict {
            text: String::new(),
            status: None,
            yields_to_failure: false,
        }
    }

    fn so_far(&mut self, _: &Times, _: &Seen) -> String {
        String::new()
    }
}

fn live(order: Order) -> (LiveAnalysis<Recorder>, Outcome) {
    let outcome = Outcome::default();
    let keep = Keep(Arc::clone(&outcome));
    let analysis = LiveAnalysis::new(&header(order), MOST_WAITING, Recorder::default(), keep);
    (analysis, outcome)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_gets_what_was_recorded(
        program in any_program(4),
        flush_every in 1..30_usize,
        generation_steps in option::of(5..40_usize),
    ) {
        let (analysis, outcome) = live(program.order);
        let summary = write(&program, &analysis, flush_every, generation_steps);
        let (recorder, ended) = outcome.lock().expect("no panic").take().expect("concluded");
        prop_assert_eq!(ended.summary, summary);
        // Threads that appear without having been created may be late; nothing else is wrong.
        let late = |problem: &Problem| matches!(problem, Problem::LateThread { .. });
        prop_assert!(ended.problems.iter().all(late));
        let mut accesses = 0;
        for i in 0..program.threads.len() {
            let modelled = program.model(i);
            accesses += modelled.accesses();
            prop_assert_eq!(recorder.of(ThreadId(i as u32)), modelled.items);
        }
        prop_assert_eq!(summary.accesses, accesses);
        prop_assert_eq!(summary.dropped_words, 0);
    }
}

/// So little may wait that it is soon too much.
const MOST_WAITING: u64 = 1 << 20;

/// An event with a stamp.
fn stamped(time: u64, event: impl Into<Event>) -> Vec<u64> {
    let mut words = vec![special_header(SpecialKind::Stamp, 0, 1), time];
    event.into().encode(&mut words);
    words
}

/// Keeps the order in which events were given.
#[derive(Clone, Default)]
struct Times(Arc<Mutex<Vec<(u64, u32)>>>);

impl Times {
    /// What was given since this was asked last.
    fn new_ones(&self) -> Vec<(u64, u32)> {
        std::mem::take(&mut self.0.lock().expect("no panic"))
    }
}

impl Sink for Times {
    fn event(&mut self, thread: ThreadId, time: u64, _: &Event) {
        self.0.lock().expect("no panic").push((time, thread.0));
    }
}

#[test]
fn items_are_given_once_no_thread_can_bring_earlier_ones() {
    let times = Times::default();
    let analysis = LiveAnalysis::new(
        &header(Order::LineAtomic),
        MOST_WAITING,
        times.clone(),
        Silent,
    );
    let create = Synchronisation {
        operation: SyncOperation::ThreadCreate,
        object: 1,
    };
    let mut parent = RecordSink::thread(&analysis, ThreadId(0));
    parent.append(&stamped(10, create));
    parent.append(&stamped(20, Span::RegionStart));
    assert_eq!(
        times.new_ones(),
        [(10, 0)],
        "the child may have earlier items"
    );
    assert_eq!(parent.counted(), Some((20, 0)));

    let mut child = RecordSink::thread(&analysis, ThreadId(1));
    child.append(&stamped(11, Span::RegionStart));
    child.append(&stamped(15, Span::RegionEnd));
    assert_eq!(times.new_ones(), [(11, 1), (15, 1)]);
    child.append(&stamped(30, ThreadEvent::End));
    assert_eq!(
        times.new_ones(),
        [(20, 0)],
        "the parent may have earlier items"
    );
    // The stamp comes before the record that it belongs to.
    let [stamp, time, rest @ ..] = &stamped(40, Span::RegionEnd)[..] else {
        panic!("a stamp has two words");
    };
    parent.append(&[*stamp, *time]);
    assert_eq!(times.new_ones(), []);
    parent.append(rest);
    assert_eq!(times.new_ones(), [(30, 1)]);
    child.finish();
    assert_eq!(times.new_ones(), [(40, 0)]);
    parent.append(&stamped(50, ThreadEvent::End));
    parent.finish();
    assert_eq!(times.new_ones(), [(50, 0)]);
    analysis.finish().expect("nothing can fail");
    assert_eq!(times.new_ones(), []);
}

#[test]
fn what_waits_at_the_end_is_given_and_what_comes_behind_it_is_lost() {
    let (analysis, outcome) = live(Order::LineAtomic);
    let mut first = RecordSink::thread(&analysis, ThreadId(0));
    let mut second = RecordSink::thread(&analysis, ThreadId(1));
    second.append(&stamped(1, Span::RegionStart));
    first.append(&stamped(100, Span::RegionStart));
    // Neither has finished: the process was ended by one of its threads.
    assert_eq!(analysis.verdict(), None);
    let summary = analysis.finish().expect("nothing can fail");
    assert_eq!((summary.events, summary.dropped_words), (2, 0));
    let verdict = analysis.verdict().expect("concluded");
    assert_eq!((verdict.text.as_str(), verdict.status), ("done\n", Some(3)));
    let (recorder, ended) = outcome.lock().expect("no panic").take().expect("concluded");
    assert_eq!(recorder.items.len(), 2);
    assert_eq!(ended.problems, []);
    first.append(&stamped(200, Span::RegionEnd));
    first.finish();
    let lost = analysis.finish().expect("nothing can fail").dropped_words;
    assert_eq!(lost, 3);
    assert_eq!(analysis.verdict(), None);
}

#[test]
fn what_was_found_is_noted_for_a_process_that_is_killed() {
    let (analysis, _) = live(Order::LineAtomic);
    let said = || analysis.last_words().map(|words| words.to_string());
    assert_eq!(said().as_deref(), Some("0 events\n"));
    let mut thread = RecordSink::thread(&analysis, ThreadId(0));
    thread.append(&stamped(1, Span::RegionStart));
    assert_eq!(said().as_deref(), Some("0 events\n"), "nobody noted it");
    analysis.note_findings();
    assert_eq!(said().as_deref(), Some("1 events\n"));
    thread.append(&stamped(2, Span::RegionEnd));
    analysis.note_findings();
    assert_eq!(said().as_deref(), Some("2 events\n"));
    analysis.finish().expect("nothing can fail");
    analysis.note_findings();
    assert_eq!(said().as_deref(), Some("2 events\n"));
}

#[test]
fn too_much_that_waits_for_a_thread_ends_the_analysis_and_it_says_so() {
    let (analysis, outcome) = live(Order::Ticket);
    let mut behind = RecordSink::thread(&analysis, ThreadId(0));
    let mut ahead = RecordSink::thread(&analysis, ThreadId(1));
    behind.append(&stamped(1, Span::RegionStart));
    let words = stamped(10, Span::RegionStart).repeat(1000);
    let most = MOST_WAITING / 8 / words.len() as u64;
    for _ in 0..most {
        ahead.append(&words);
    }
    assert_eq!(analysis.verdict(), None);
    assert!(analysis.is_crowded());
    (0..5).for_each(|_| ahead.append(&words));
    assert!(analysis.verdict().is_some());
    assert!(!analysis.is_crowded(), "nothing waits any more");
    let (recorder, seen) = outcome.lock().expect("no panic").take().expect("concluded");
    // What is settled was given: it is in the true order.
    assert_eq!(recorder.items.len(), 1);
    let [
        Problem::TooMuchWaits {
            thread,
            time,
            bytes,
        },
    ] = seen.problems[..]
    else {
        panic!("{:?}", seen.problems);
    };
    assert_eq!((thread, time), (ThreadId(0), 1));
    assert!((MOST_WAITING..MOST_WAITING + 17 * words.len() as u64).contains(&bytes));
    let summary = analysis.finish().expect("nothing can fail");
    assert_eq!(summary.dropped_words, (most + 5) * words.len() as u64);
}

#[test]
fn without_an_order_between_threads_nobody_is_waited_for() {
    let (analysis, outcome) = live(Order::None);
    let mut behind = RecordSink::thread(&analysis, ThreadId(0));
    let mut ahead = RecordSink::thread(&analysis, ThreadId(1));
    let words = |event: Event| {
        let mut words = Vec::new();
        event.encode(&mut words);
        words
    };
    behind.append(&words(Span::RegionStart.into()));
    let records = words(Span::RegionEnd.into()).repeat(1000);
    let times = MOST_WAITING / 8 / records.len() as u64 * 4;
    for _ in 0..times {
        ahead.append(&records);
        assert!(!analysis.is_crowded());
    }
    analysis.finish().expect("nothing can fail");
    let (recorder, seen) = outcome.lock().expect("no panic").take().expect("concluded");
    assert_eq!(seen.problems, []);
    assert_eq!(recorder.items.len() as u64, 1 + 1000 * times);
}
