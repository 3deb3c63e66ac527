//! The database is read back by another reader of the format than the one that wrote it: this one follows
//! the pointers as the specification has them.

use std::collections::BTreeMap;

use unspool_profile_record::{Event, EventCount, Rate, RecordedEvent};

use super::*;
use crate::recordings::of_threads;

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn number(&self, at: u64, bytes: usize) -> u64 {
        let at = at as usize;
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&self.0[at..at + bytes]);
        u64::from_le_bytes(word)
    }

    fn pointer(&self, at: u64) -> u64 {
        assert_eq!(at % 8, 0, "pointers are aligned");
        self.number(at, 8)
    }

    fn float(&self, at: u64) -> f64 {
        f64::from_bits(self.number(at, 8))
    }

    fn text(&self, at: u64) -> String {
        let bytes = &self.0[at as usize..];
        let length = bytes.iter().position(|byte| *byte == 0).unwrap();
        String::from_utf8(bytes[..length].to_vec()).unwrap()
    }

    /// Where a section is and where it ends; all sections lie within the file.
    fn section(&self, number: u64) -> (u64, u64) {
        let (size, start) = (
            self.pointer(16 + 16 * number),
            self.pointer(24 + 16 * number),
        );
        assert!(start.is_multiple_of(8) && start + size <= self.0.len() as u64 - 8);
        (start, start + size)
    }
}

/// Paths of contexts by their numbers, outermost first.
fn contexts(meta: &Reader<'_>) -> BTreeMap<u64, Vec<String>> {
    let (start, end) = meta.section(3);
    let (list, count, size) = (
        meta.pointer(start),
        meta.number(start + 8, 2),
        meta.number(start + 10, 1),
    );
    let mut all = BTreeMap::new();
    let mut waiting = Vec::new();
    for entry in (0..count).map(|place| list + place * size) {
        let path = vec![meta.text(meta.pointer(entry + 0x18))];
        all.insert(meta.number(entry + 0x10, 4), path.clone());
        waiting.push((entry, path));
    }
    while let Some((at, path)) = waiting.pop() {
        let (bytes, first) = (meta.pointer(at), meta.pointer(at + 8));
        let mut next = first;
        while next < first + bytes {
            let (has, lexical) = (meta.number(next + 0x14, 1), meta.number(next + 0x16, 1));
            let words = meta.number(next + 0x17, 1);
            let word = meta.pointer(next + 0x20);
            let name = match (has, lexical) {
                (1, 0) => meta.text(meta.pointer(word)),
                (4, 3) => {
                    let module = meta.text(meta.pointer(word + 8));
                    format!("{module}+{:#x}", meta.pointer(next + 0x28))
                }
                other => panic!("{other:?}"),
            };
            let path = [&path[..], &[name]].concat();
            let known = all.insert(meta.number(next + 0x10, 4), path.clone());
            assert_eq!(known, None);
            waiting.push((next, path));
            next += 0x20 + 8 * words;
        }
        assert!(next == first + bytes && next <= end);
    }
    all
}

/// Names and scopes of metrics by their numbers.
fn metrics(meta: &Reader<'_>) -> BTreeMap<u64, (String, String)> {
    let (start, _) = meta.section(2);
    let (list, count) = (meta.pointer(start), meta.number(start + 8, 4));
    let sizes = [12, 13, 14].map(|at| meta.number(start + at, 1));
    assert_eq!(sizes, [0x20, 0x10, 0x18]);
    let mut all = BTreeMap::new();
    for metric in (0..count).map(|place| list + place * sizes[0]) {
        let name = meta.text(meta.pointer(metric));
        let (instances, count) = (meta.pointer(metric + 8), meta.number(metric + 0x18, 2));
        let (summaries, same) = (meta.pointer(metric + 0x10), meta.number(metric + 0x1a, 2));
        assert_eq!(count, same);
        for place in 0..count {
            let instance = instances + place * sizes[1];
            let scope = meta.text(meta.pointer(meta.pointer(instance)));
            let number = meta.number(instance + 8, 2);
            let summary = summaries + place * sizes[2];
            assert_eq!(meta.text(meta.pointer(summary + 8)), "$$");
            assert_eq!(meta.number(summary + 0x12, 2), number);
            all.insert(number, (name.clone(), scope));
        }
    }
    all
}

/// Values of a block by two numbers: that of the outer list and that of the inner.
fn block(file: &Reader<'_>, header: u64, key: usize, inner: usize) -> Vec<(u64, u64, f64)> {
    let (count, values) = (file.pointer(header), file.pointer(header + 8));
    let (keys, indices) = (file.number(header + 0x10, 4), file.pointer(header + 0x18));
    let index = |place: u64| indices + place * (key as u64 + 8);
    let begin = |place: u64| match place < keys {
        true => file.number(index(place) + key as u64, 8),
        false => count,
    };
    let mut all = Vec::new();
    for place in 0..keys {
        for value in begin(place)..begin(place + 1) {
            let at = values + value * (inner as u64 + 8);
            let number = file.number(at, inner);
            let outer = file.number(index(place), key);
            all.push((outer, number, file.float(at + inner as u64)));
        }
    }
    let sorted = all.is_sorted_by_key(|(outer, number, _)| (*outer, *number));
    assert!(sorted && all.len() as u64 == count);
    all
}

#[test]
fn values_are_the_same_by_thread_and_by_context() {
    const MS: u64 = 1_000_000;
    let mut recording = of_threads(&[
        &[(&["main", "work", "leaf"], 3 * MS), (&["main"], MS)],
        &[(&["main", "work"], 2 * MS)],
    ]);
    let mut faults = recording.samples[0];
    faults.weight = 40;
    recording.events.insert(
        5,
        RecordedEvent {
            event: Event {
                number: 5,
                name: "page-faults".to_owned(),
                rate: Rate::Period(1),
            },
            samples: vec![faults],
            counted: None::<EventCount>,
        },
    );
    let files: BTreeMap<_, _> = hpctoolkit(&NamedPaths::new(&recording))
        .into_iter()
        .collect();
    for (name, format, footer) in [
        ("meta.db", b"meta", b"_meta.db"),
        ("profile.db", b"prof", b"_prof.db"),
        ("cct.db", b"ctxt", b"__ctx.db"),
        ("trace.db", b"trce", b"trace.db"),
    ] {
        let file = &files[name];
        assert_eq!(&file[..16], [b"HPCTOOLKIT", &format[..], &[4, 0]].concat());
        assert!(file.ends_with(footer), "{name}");
    }
    let meta = Reader(&files["meta.db"]);
    let (contexts, metrics) = (contexts(&meta), metrics(&meta));
    let by_thread = Reader(&files["profile.db"]);
    let (start, _) = by_thread.section(0);
    let (list, count) = (by_thread.pointer(start), by_thread.number(start + 8, 4));
    assert_eq!(count, 3);
    let mut values = Vec::new();
    let mut sums: BTreeMap<(u64, u64), f64> = BTreeMap::new();
    for thread in 0..count {
        let header = list + thread * by_thread.number(start + 12, 1);
        let is_summary = by_thread.number(header + 0x28, 4) == 1;
        assert_eq!(is_summary, thread == 0);
        for (context, metric, value) in block(&by_thread, header, 4, 2) {
            let sum = sums.entry((context, metric)).or_default();
            match is_summary {
                true => *sum -= value,
                false => {
                    *sum += value;
                    values.push((context, metric, thread, value));
                }
            }
        }
    }
    assert!(sums.values().all(|rest| rest.abs() < 1e-12), "{sums:?}");
    let by_context = Reader(&files["cct.db"]);
    let (start, _) = by_context.section(0);
    let (list, count) = (by_context.pointer(start), by_context.number(start + 8, 4));
    assert_eq!(count, contexts.len() as u64 + 1);
    let mut others = Vec::new();
    for context in 0..count {
        let header = list + context * by_context.number(start + 12, 1);
        for (metric, thread, value) in block(&by_context, header, 2, 4) {
            others.push((context, metric, thread, value));
        }
    }
    values.sort_by_key(|(context, metric, thread, _)| (*context, *metric, *thread));
    assert_eq!(values, others);
    // What they are of, in words.
    let told: BTreeMap<(String, String, u64), f64> = values
        .iter()
        .map(|(context, metric, thread, value)| {
            let path = contexts
                .get(context)
                .map_or_else(String::new, |path| path.join("/"));
            let (name, scope) = &metrics[metric];
            ((format!("{name} {scope}"), path, *thread), *value)
        })
        .collect();
    let value = |metric: &str, path: &str, thread: u64| {
        let key = (metric.to_owned(), path.to_owned(), thread);
        told.get(&key).copied().unwrap_or(0.0)
    };
    let main = "main thread/main+0x10";
    let (main_thread, other) = (1, 2);
    let cpu = |scope: &str, path: &str, thread| {
        (1000.0 * value(&format!("CPUTIME (sec) {scope}"), path, thread)).round()
    };
    assert_eq!(cpu("execution", "", main_thread), 4.0);
    assert_eq!(cpu("execution", main, main_thread), 4.0);
    assert_eq!(cpu("function", main, main_thread), 1.0);
    assert_eq!(cpu("point", main, main_thread), 0.0);
    let of_other = "application thread/main+0x10";
    assert_eq!(cpu("execution", of_other, other), 2.0);
    assert_eq!(cpu("function", of_other, other), 0.0);
    assert_eq!(value("page-faults execution", main, main_thread), 40.0);
    assert_eq!(value("page-faults execution", of_other, other), 0.0);
}

#[test]
fn threads_are_somewhere_as_long_as_they_have_samples() {
    const MS: u64 = 1_000_000;
    let mut recording = of_threads(&[&[(&["f"], MS), (&["g"], MS), (&["g"], MS)]]);
    // The thread waits before its last sample.
    recording.samples[2].time_ns += 50 * MS;
    let files = hpctoolkit(&NamedPaths::new(&recording));
    let (_, trace) = files.iter().find(|(name, _)| *name == "trace.db").unwrap();
    let trace = Reader(trace);
    let (start, _) = trace.section(0);
    assert_eq!(
        (trace.number(start + 8, 4), trace.number(start + 12, 1)),
        (1, 0x18)
    );
    let header = trace.pointer(start);
    let (first, end) = (trace.pointer(header + 8), trace.pointer(header + 0x10));
    let elements: Vec<(u64, u64)> = (first..end)
        .step_by(12)
        .map(|at| (trace.number(at, 8), trace.number(at + 8, 4)))
        .collect();
    let zero = recording.header.start_unix_ns;
    let times: Vec<u64> = elements
        .iter()
        .map(|(time, _)| (time - zero) / MS)
        .collect();
    let places: Vec<bool> = elements.iter().map(|(_, context)| *context > 0).collect();
    assert_eq!(times, [0, 1, 2, 52, 53]);
    assert_eq!(places, [true, true, false, true, false]);
    let ends = [trace.pointer(start + 0x10), trace.pointer(start + 0x18)];
    assert_eq!(ends, [zero, zero + 53 * MS]);
}
