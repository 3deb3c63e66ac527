//! Traces of a simulated machine in their true order, which must be confirmed, and in no
//! order, which must be refuted.

#[path = "../../report/tests/synthetic/mod.rs"]
mod synthetic;

use synthetic::{FIRST_WORD, Recording, THREADS, Truth, record};
use unspool_analyses::values::{ValueReport, Verdict};
use unspool_analyses::{IncrementReplay, ValueCheck};
use unspool_events::{Order, Trace};

fn recorded(recording: Recording) -> (tempfile::TempDir, Trace, Truth) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.unspool");
    let truth = record(&path, recording);
    let trace = Trace::open(&path).unwrap();
    (folder, trace, truth)
}

fn checked(trace: &Trace) -> ValueReport {
    let mut check = ValueCheck::new(&trace.threads());
    assert_eq!(trace.merged().deliver(&mut check), []);
    check.finish(&[])
}

fn replayed(trace: &Trace) -> Truth {
    let mut replay = IncrementReplay::new(FIRST_WORD, 0);
    assert_eq!(trace.merged().deliver(&mut replay), []);
    let report = replay.finish();
    assert_eq!(report.threads.len(), THREADS);
    let mut truth = Truth::default();
    for thread in report.threads {
        let index = thread.thread as usize;
        truth.increments[index] = (thread.increments, thread.even_values);
        truth.failed_swaps[index] = thread.failed_swaps;
    }
    truth
}

#[test]
fn the_true_order_explains_every_value() {
    let (_folder, trace, _) = recorded(Recording {
        values: true,
        ..Recording::default()
    });
    let report = checked(&trace);
    assert_eq!(
        report.verdict(),
        Verdict::Passed,
        "{:?}",
        report.mismatches.first()
    );
    assert_eq!(report.accesses_without_value, 0);
    assert_eq!(report.accesses_with_value, trace.summary().accesses);
    assert!(report.bytes_compared > 10_000 && report.bytes_learned <= 8 * synthetic::WORDS as u64);
}

#[test]
fn no_order_does_not() {
    let recording = Recording {
        values: true,
        order: Order::None,
        ..Recording::default()
    };
    let (_folder, trace, _) = recorded(recording);
    let report = checked(&trace);
    assert!(report.mismatch_count > 100, "{report:?}");
}

#[test]
fn increments_are_recounted_in_the_true_order_only() {
    let (_folder, trace, truth) = recorded(Recording::default());
    assert_eq!(replayed(&trace), truth);
    let (_folder, trace, truth) = recorded(Recording {
        order: Order::None,
        ..Recording::default()
    });
    let replayed = replayed(&trace);
    assert_ne!(replayed.increments, truth.increments);
    // How many there were does not depend on the order.
    assert_eq!(
        replayed.increments.map(|counts| counts.0),
        truth.increments.map(|counts| counts.0)
    );
    assert_eq!(replayed.failed_swaps, truth.failed_swaps);
}

#[test]
fn a_trace_that_was_cut_off_is_checked_as_far_as_it_goes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.unspool");
    record(
        &path,
        Recording {
            values: true,
            ..Recording::default()
        },
    );
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() * 3 / 4]).unwrap();
    let trace = Trace::open(&path).unwrap();
    let mut check = ValueCheck::new(&trace.threads());
    let problems = trace.merged().deliver(&mut check);
    let report = check.finish(&problems);
    assert_eq!(report.verdict(), Verdict::PartlyChecked);
    assert!(report.accesses_after_loss > 0 && report.unexplained_after_loss > 0);
    let all = trace.summary().accesses;
    assert_eq!(
        report.accesses_with_value, all,
        "all that is there is looked at"
    );
    // Without that knowledge the missing writes look like a wrong order.
    let mut check = ValueCheck::new(&[]);
    trace.merged().deliver(&mut check);
    assert_eq!(check.finish(&[]).verdict(), Verdict::Failed);
}

#[test]
fn a_trace_without_values_checks_nothing() {
    let (_folder, trace, _) = recorded(Recording::default());
    let report = checked(&trace);
    assert_eq!((report.accesses_with_value, report.bytes_compared), (0, 0));
    assert_eq!(report.accesses_without_value, trace.summary().accesses);
    assert_eq!(report.verdict(), Verdict::PartlyChecked);
}
