//! Each format is read by its own rules, and by nothing that wrote it.

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::Value;
use unspool_profile_record::{Recording, Settings, Source, Wait};

use super::{firefox, perfetto, pprof, speedscope};
use crate::named_paths::NamedPaths;
use crate::profile::Profile;
use crate::recordings::of_paths;

/// Paths, outermost function first, and nanoseconds.
type Times = BTreeMap<String, u64>;

fn recording() -> Recording {
    of_paths(&[
        (&["main", "left", "burn"], 3_000_000),
        (&["main", "right", "burn"], 1_000_000),
        (&["main", "left", "burn"], 2_000_000),
        (&["main"], 500),
    ])
}

fn expected() -> Times {
    let paths = [
        ("main+0x10;left+0x10;burn+0x10", 5_000_000),
        ("main+0x10;right+0x10;burn+0x10", 1_000_000),
        ("main+0x10", 500),
    ];
    paths.map(|(path, ns)| (path.to_owned(), ns)).into()
}

/// The fields of a protobuf message by their numbers: integers, or bytes.
#[derive(Default)]
struct Fields {
    integers: BTreeMap<u64, Vec<u64>>,
    bytes: BTreeMap<u64, Vec<Vec<u8>>>,
}

/// The wire format (<https://protobuf.dev/programming-guides/encoding>).
fn fields(mut message: &[u8]) -> Fields {
    let mut fields = Fields::default();
    while !message.is_empty() {
        let tag = varint(&mut message);
        match tag & 7 {
            0 => {
                let value = varint(&mut message);
                fields.integers.entry(tag >> 3).or_default().push(value);
            }
            2 => {
                let length = varint(&mut message) as usize;
                let (value, rest) = message.split_at(length);
                fields
                    .bytes
                    .entry(tag >> 3)
                    .or_default()
                    .push(value.to_vec());
                message = rest;
            }
            other => panic!("wire type {other}"),
        }
    }
    fields
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = message[0];
        *message = &message[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

impl Fields {
    fn integer(&self, field: u64) -> u64 {
        self.integers.get(&field).map_or(0, |values| values[0])
    }

    fn packed(&self, field: u64) -> Vec<u64> {
        let mut values = Vec::new();
        for part in self.bytes.get(&field).into_iter().flatten() {
            let mut rest = part.as_slice();
            while !rest.is_empty() {
                values.push(varint(&mut rest));
            }
        }
        values
    }

    fn messages(&self, field: u64) -> Vec<Fields> {
        let all = self.bytes.get(&field).into_iter().flatten();
        all.map(|bytes| fields(bytes)).collect()
    }
}

#[test]
fn pprof_has_paths_from_the_innermost_frame_out() {
    let mut bytes = Vec::new();
    let compressed = pprof(&NamedPaths::new(&recording())).unwrap();
    let mut decoder = flate2::read::GzDecoder::new(compressed.as_slice());
    decoder.read_to_end(&mut bytes).unwrap();
    let profile = fields(&bytes);
    let strings: Vec<String> = profile.bytes[&6]
        .iter()
        .map(|text| String::from_utf8(text.clone()).unwrap())
        .collect();
    assert_eq!(strings[0], "");
    let text = |number: u64| strings[number as usize].as_str();
    let by_id = |field| -> BTreeMap<u64, Fields> {
        let all = profile.messages(field).into_iter();
        all.map(|message| (message.integer(1), message)).collect()
    };
    let (functions, locations, mappings) = (by_id(5), by_id(4), by_id(3));
    let kinds: Vec<(&str, &str)> = profile
        .messages(1)
        .iter()
        .map(|kind| (text(kind.integer(1)), text(kind.integer(2))))
        .collect();
    assert_eq!(kinds, [("samples", "count"), ("cpu", "nanoseconds")]);
    let mut times = Times::new();
    let mut counts = 0;
    for sample in profile.messages(2) {
        let mut path = Vec::new();
        for location in sample.packed(1) {
            let location = &locations[&location];
            assert!(mappings.contains_key(&location.integer(2)));
            for line in location.messages(4) {
                path.push(text(functions[&line.integer(1)].integer(2)));
            }
        }
        path.reverse();
        let values = sample.packed(2);
        counts += values[0];
        times.insert(path.join(";"), values[1]);
        let labels: Vec<(&str, u64)> = sample
            .messages(3)
            .iter()
            .map(|label| (text(label.integer(1)), label.integer(2) + label.integer(3)))
            .collect();
        assert_eq!(labels[..2], [("pid", 7), ("tid", 7)]);
        assert_eq!((labels[2].0, text(labels[2].1)), ("thread", "worker"));
    }
    assert_eq!((times, counts), (expected(), 4));
}

/// The paths of `perfetto`'s samples with what its counter has counted at each since the one before; and the
/// names of slices with their paths and how long they take.
fn of_perfetto(recording: &Recording) -> (Times, Times) {
    let trace = fields(&perfetto(&NamedPaths::new(recording)));
    let packets = trace.messages(1);
    let interned = &packets[0].messages(12)[0];
    let by_id = |field| -> BTreeMap<u64, Fields> {
        let all = interned.messages(field).into_iter();
        all.map(|message| (message.integer(1), message)).collect()
    };
    let (names, frames, callstacks) = (by_id(5), by_id(6), by_id(7));
    let (paths, mappings) = (by_id(17), by_id(19));
    let text = |message: &Fields| String::from_utf8(message.bytes[&2][0].clone()).unwrap();
    let path = |callstack: u64| {
        let frames = callstacks[&callstack].integers[&2]
            .iter()
            .map(|frame| &frames[frame]);
        let names = frames.map(|frame| {
            assert!(paths.contains_key(&mappings[&frame.integer(3)].integer(7)));
            text(&names[&frame.integer(2)])
        });
        names.collect::<Vec<_>>().join(";")
    };
    let (mut times, mut slices) = (Times::new(), Times::new());
    let mut counted = 0;
    let mut begun: Option<(String, u64)> = None;
    for packet in &packets[1..] {
        for sample in packet.messages(66) {
            assert_eq!((sample.integer(2), sample.integer(3)), (7, 7));
            *times.entry(path(sample.integer(4))).or_default() += sample.integer(6) - counted;
            counted = sample.integer(6);
        }
        for event in packet.messages(11) {
            assert_eq!(event.integer(11), 7 << 32 | 7);
            let time = packet.integer(8);
            if event.integer(9) == 1 {
                let name = String::from_utf8(event.bytes[&23][0].clone()).unwrap();
                begun = Some((format!("{name}: {}", path(event.integer(56))), time));
            } else {
                let (name, from) = begun.take().expect("a slice begins before it ends");
                slices.insert(name, time - from);
            }
        }
    }
    assert_eq!(begun, None);
    (times, slices)
}

#[test]
fn perfetto_has_samples_and_waits() {
    let mut recording = recording();
    assert_eq!(of_perfetto(&recording), (expected(), Times::new()));
    let (first, last) = (recording.samples[0], recording.samples[3]);
    let waits = [(first, false), (last, true)];
    let wait = |(sample, is_preempted)| Wait {
        sample,
        is_preempted,
    };
    recording.waits = Some(waits.map(wait).to_vec());
    recording.settings = Some(Settings {
        period_ns: 1_000_000,
        stack_bytes: 512,
        includes_kernel: true,
        source: Source::Kernel,
    });
    let slices = [
        (
            "waits in burn+0x10: main+0x10;left+0x10;burn+0x10",
            first.weight,
        ),
        ("has no processor: main+0x10", last.weight),
    ];
    let slices: Times = slices.map(|(name, ns)| (name.to_owned(), ns)).into();
    assert_eq!(of_perfetto(&recording), (expected(), slices.clone()));
    // Of waits alone there are no samples.
    let alone = recording.of_waits().unwrap();
    assert_eq!(of_perfetto(&alone), (Times::new(), slices));
}

#[test]
fn speedscope_has_a_weight_for_each_stack() {
    let profile = speedscope(&NamedPaths::new(&recording()));
    let schema = "https://www.speedscope.app/file-format-schema.json";
    assert_eq!(profile["$schema"], schema);
    let frames = profile["shared"]["frames"].as_array().unwrap();
    let thread = &profile["profiles"][0];
    assert_eq!(
        (&thread["type"], &thread["unit"]),
        (&"sampled".into(), &"nanoseconds".into())
    );
    assert!(thread["name"].as_str().unwrap().starts_with("worker"));
    let stacks = thread["samples"].as_array().unwrap();
    let weights = thread["weights"].as_array().unwrap();
    assert_eq!(stacks.len(), weights.len());
    let mut times = Times::new();
    for (stack, weight) in stacks.iter().zip(weights) {
        let name = |frame: &Value| {
            frames[frame.as_u64().unwrap() as usize]["name"]
                .as_str()
                .unwrap()
        };
        let path: Vec<&str> = stack.as_array().unwrap().iter().map(name).collect();
        *times.entry(path.join(";")).or_default() += weight.as_u64().unwrap();
    }
    let total: u64 = times.values().sum();
    assert_eq!(
        (&thread["startValue"], &thread["endValue"]),
        (&0.into(), &total.into())
    );
    assert_eq!(times, expected());
}

#[test]
fn firefox_has_tables_that_lead_to_names() {
    let profile = serde_json::to_value(firefox(&NamedPaths::new(&recording()))).unwrap();
    assert_eq!(profile["meta"]["symbolicated"], true);
    let thread = &profile["threads"][0];
    assert_eq!(
        (&thread["name"], &thread["pid"]),
        (&"worker".into(), &"7".into())
    );
    // Texts belong to a thread or to all, by the version of the format.
    let shared = &profile["shared"]["stringArray"];
    let strings = if shared.is_null() {
        &thread["stringArray"]
    } else {
        shared
    };
    let at = |table: &Value, column: &str, row: u64| table[column][row as usize].clone();
    let samples = &thread["samples"];
    let stacks = samples["stack"].as_array().unwrap();
    assert_eq!(stacks.len(), 4);
    let mut times = Times::new();
    for (row, stack) in stacks.iter().enumerate() {
        let mut path = Vec::new();
        let mut next = stack.as_u64();
        while let Some(stack) = next {
            let frame = at(&thread["stackTable"], "frame", stack).as_u64().unwrap();
            let function = at(&thread["frameTable"], "func", frame).as_u64().unwrap();
            let name = at(&thread["funcTable"], "name", function).as_u64().unwrap();
            path.push(strings[name as usize].as_str().unwrap());
            next = at(&thread["stackTable"], "prefix", stack).as_u64();
        }
        path.reverse();
        // Times are in microseconds there, to which half of one is nothing.
        let used = samples["threadCPUDelta"][row].as_u64().unwrap() * 1000;
        *times.entry(path.join(";")).or_default() += used;
    }
    let mut rounded = expected();
    *rounded.get_mut("main+0x10").unwrap() = 0;
    assert_eq!(times, rounded);
}

/// Each node has its time and that of those below, which are those that it called.
#[test]
fn trees_for_hatchet_are_nested() {
    let recording = of_paths(&[
        (&["a", "b"], 3_000_000_000),
        (&["a"], 1_000_000_000),
        (&["c"], 5),
    ]);
    let tree = super::hatchet(&Profile::new(&NamedPaths::new(&recording)));
    let [a, c] = tree.as_array().expect("a list").as_slice() else {
        panic!("{tree}");
    };
    let metrics = |node: &Value| {
        let of = |name: &str| node["metrics"][name].as_f64().expect("a number");
        (of("time"), of("time (inc)"))
    };
    assert_eq!(a["frame"]["name"], "a+0x10");
    assert_eq!(metrics(a), (1.0, 4.0));
    let children = a["children"].as_array().expect("a list");
    assert_eq!(children.len(), 1);
    assert_eq!(metrics(&children[0]), (3.0, 3.0));
    assert!(children[0].get("children").is_none());
    assert_eq!(metrics(c), (5e-9, 5e-9));
}
