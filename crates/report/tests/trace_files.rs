//! Exports, merges and summaries of trace files, held to each other and to other programs.

mod synthetic;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use synthetic::{Recording, THREADS, record};
use unspool_events::{Sink, StreamReader, Trace};
use unspool_report::{
    CsvExporter, Information, JsonExporter, Names, TsvExporter, TsvOptions, merge_text,
};

fn recorded(recording: Recording) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.unspool");
    record(&path, recording);
    (folder, path)
}

/// Gives a whole trace to a sink: merged, or thread after thread.
fn deliver(trace: &Trace, ordered: bool, sink: &mut impl Sink) {
    let problems = match ordered {
        true => trace.merged().deliver(sink),
        false => {
            let threads = trace.threads();
            threads
                .iter()
                .flat_map(|info| trace.thread(info.thread).deliver(sink))
                .collect()
        }
    };
    assert_eq!(problems, []);
}

fn tsv(trace: &Trace, ordered: bool, change: impl FnOnce(&mut TsvOptions)) -> Vec<u8> {
    let mut options = TsvOptions::of_trace(trace.header());
    change(&mut options);
    let mut output = Vec::new();
    let mut exporter = TsvExporter::new(&mut output, Names::of_trace(trace), options);
    deliver(trace, ordered, &mut exporter);
    exporter.finish().unwrap();
    output
}

/// The text sorted by the system's `sort`, stably and by time alone.
fn sorted(text: &[u8]) -> Vec<u8> {
    let mut sort = Command::new("sort")
        .args(["-s", "-n", "-k1,1"])
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = sort.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(text).unwrap());
        let output = sort.wait_with_output().unwrap();
        assert!(output.status.success());
        output.stdout
    })
}

fn assert_same_text(left: &[u8], right: &[u8]) {
    let difference = left
        .split(|byte| *byte == b'\n')
        .zip(right.split(|byte| *byte == b'\n'))
        .position(|(left, right)| left != right);
    assert!(
        left == right,
        "{} and {} bytes, line {difference:?} differs",
        left.len(),
        right.len()
    );
}

#[test]
fn an_ordered_export_is_the_unordered_one_sorted() {
    for failed_cas in [false, true] {
        let (_folder, path) = recorded(Recording {
            failed_cas,
            ..Recording::default()
        });
        let trace = Trace::open(&path).unwrap();
        let unordered = tsv(&trace, false, |_| {});
        let ordered = tsv(&trace, true, |_| {});
        assert!(
            unordered != ordered,
            "the test trace needs threads that interleave"
        );
        assert_same_text(&sorted(&unordered), &ordered);
    }
}

#[test]
fn failed_swaps_are_writes_only_on_request() {
    let count = |failed_cas| {
        let (_folder, path) = recorded(Recording {
            failed_cas,
            ..Recording::default()
        });
        let text = tsv(&Trace::open(&path).unwrap(), true, |_| {});
        String::from_utf8(text).unwrap().matches("\tw\t").count()
    };
    assert!(count(false) > 0 && count(false) < count(true));
}

#[test]
fn a_binary_stream_a_text_stream_and_a_file_merge_to_the_same_text() {
    let (_folder, path) = recorded(Recording::default());
    let trace = Trace::open(&path).unwrap();
    let from_file = tsv(&trace, true, |options| {
        options.times = false;
        options.thread_syncs = false;
    });

    let reader = StreamReader::new(File::open(&path).unwrap()).unwrap();
    let options = TsvOptions {
        times: false,
        thread_syncs: false,
        ..TsvOptions::of_trace(reader.header())
    };
    let mut from_stream = Vec::new();
    let mut exporter = TsvExporter::new(&mut from_stream, Names::new(), options);
    let summary = reader.deliver(&mut exporter).summary;
    exporter.finish().unwrap();
    assert_eq!(summary.accesses, trace.summary().accesses);
    assert_same_text(&from_stream, &from_file);

    let mut from_text = Vec::new();
    let text = tsv(&trace, true, |_| {});
    let merged = merge_text(text.as_slice(), &mut from_text, false).unwrap();
    assert_eq!((merged.late_lines, merged.unreadable_lines), (0, 0));
    assert!(merged.thread_syncs > 0);
    assert_same_text(&from_text, &from_file);
}

#[test]
fn a_stream_of_a_whole_trace_has_no_problems() {
    struct Nowhere;
    impl Sink for Nowhere {}
    let (_folder, path) = recorded(Recording::default());
    let reader = StreamReader::new(File::open(&path).unwrap()).unwrap();
    assert_eq!(reader.deliver(&mut Nowhere).problems, []);
}

#[test]
fn every_format_has_every_access_and_event() {
    let (_folder, path) = recorded(Recording {
        values: true,
        ..Recording::default()
    });
    let trace = Trace::open(&path).unwrap();
    let mut csv = Vec::new();
    let mut exporter = CsvExporter::new(&mut csv, Names::of_trace(&trace));
    deliver(&trace, true, &mut exporter);
    exporter.finish().unwrap();
    let mut json = Vec::new();
    let (header, modules, functions) = (trace.header(), trace.modules(), trace.functions());
    let mut exporter = JsonExporter::new(
        &mut json,
        Names::of_trace(&trace),
        header,
        modules,
        functions,
    );
    deliver(&trace, true, &mut exporter);
    exporter.finish().unwrap();

    let summary = trace.summary();
    // Each access has a value, so it has a line for itself and one for the value.
    let items = usize::try_from(2 * summary.accesses + summary.events).unwrap();
    assert!(summary.accesses > 3000 && summary.events > 10);
    let csv = String::from_utf8(csv).unwrap();
    let json = String::from_utf8(json).unwrap();
    assert_eq!(csv.lines().count(), items + 1);
    assert_eq!(json.lines().count(), items + 1);
    for (in_csv, in_json) in csv.lines().zip(json.lines()).skip(1) {
        let object: serde_json::Value = serde_json::from_str(in_json).unwrap();
        let columns: Vec<&str> = in_csv.split(',').collect();
        assert_eq!(
            columns[0],
            object["time"].to_string(),
            "{in_csv}\n{in_json}"
        );
        assert_eq!(
            columns[1],
            object["thread"].to_string(),
            "{in_csv}\n{in_json}"
        );
        assert_eq!(columns[2], object["kind"], "{in_csv}\n{in_json}");
        if let Some(address) = object["address"].as_str() {
            assert_eq!(columns[4], address, "{in_csv}\n{in_json}");
        }
    }
}

#[test]
fn information_counts_what_is_there() {
    let (_folder, path) = recorded(Recording {
        values: true,
        ..Recording::default()
    });
    let trace = Trace::open(&path).unwrap();
    let information = Information::read_all(&trace);
    let counts = information.counts.as_ref().unwrap();
    assert_eq!(counts.reads + counts.writes, information.totals.accesses);
    assert_eq!(counts.values, information.totals.accesses);
    assert_eq!(
        counts.events.values().sum::<u64>(),
        information.totals.events
    );
    assert_eq!(counts.events["thread_start"], THREADS as u64);
    assert!(counts.failed_compare_and_swaps > 0);
    assert_eq!(information.threads[1].os_thread, Some(101));
    assert!(information.complete && information.problems.is_empty());
    let file_bytes = std::fs::metadata(&path).unwrap().len();
    assert_eq!(information.totals.file_bytes, file_bytes);
    let json = serde_json::to_value(&information).unwrap();
    assert_eq!(json["version"], 1);
    assert_eq!(json["order"], "line-atomic");
    let text = information.to_string();
    for part in [
        "/usr/bin/simulated",
        "line-atomic",
        "verify = true",
        "whole",
        "push",
        "thread_sync",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert_eq!(Information::read_index(&trace).counts, None);
}

#[test]
fn a_cut_file_gives_what_is_left_and_says_so() {
    let (folder, path) = recorded(Recording::default());
    let whole = std::fs::read(&path).unwrap();
    let cut = folder.path().join("cut.unspool");
    let all = Information::read_all(&Trace::open(&path).unwrap())
        .totals
        .accesses;
    let mut previous = 0;
    for tenth in 2..10 {
        std::fs::write(&cut, &whole[..whole.len() * tenth / 10]).unwrap();
        let trace = Trace::open(&cut).unwrap();
        let information = Information::read_all(&trace);
        assert!(!information.complete && !information.problems.is_empty());
        assert!(information.to_string().contains("incomplete"));
        let counts = information.counts.unwrap();
        let left = counts.reads + counts.writes;
        assert!(
            left >= previous && left <= all,
            "{left} after {previous} of {all}"
        );
        previous = left;
        assert_exports_do_not_panic(&trace);
    }
    assert!(previous > all / 2);
}

#[test]
fn a_changed_byte_is_reported_and_the_rest_is_exported() {
    let (folder, path) = recorded(Recording {
        steps: 300,
        ..Recording::default()
    });
    let whole = std::fs::read(&path).unwrap();
    let damaged = folder.path().join("damaged.unspool");
    let mut reported = 0;
    let mut opened = 0;
    for position in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[position] ^= 0x41;
        std::fs::write(&damaged, bytes).unwrap();
        let Ok(trace) = Trace::open(&damaged) else {
            continue;
        };
        opened += 1;
        reported += u32::from(!Information::read_all(&trace).problems.is_empty());
        assert_exports_do_not_panic(&trace);
    }
    assert_eq!(reported, opened);
    assert!(opened > 20);
}

fn assert_exports_do_not_panic(trace: &Trace) {
    let options = TsvOptions::of_trace(trace.header());
    let mut exporter = TsvExporter::new(std::io::sink(), Names::of_trace(trace), options);
    trace.merged().deliver(&mut exporter);
    exporter.finish().unwrap();
}

#[test]
fn a_full_disk_is_an_error_and_not_silence() {
    let (_folder, path) = recorded(Recording::default());
    let trace = Trace::open(&path).unwrap();
    let full = File::options()
        .write(true)
        .open(Path::new("/dev/full"))
        .unwrap();
    let mut exporter = CsvExporter::new(full, Names::of_trace(&trace));
    deliver(&trace, true, &mut exporter);
    assert!(exporter.finish().is_err());
}
