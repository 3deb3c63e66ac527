//! The format of pprof.
//!
//! Source: `proto/profile.proto` of <https://github.com/google/pprof>.

mod message;

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;
use rustc_hash::FxHashMap;
use unspool_profile_record::{Rate, Recording, Sample, Source};

use self::message::{Function, Label, Line, Location, Mapping, Profile, ValueType};
use crate::named_paths::{NamedPaths, Step};
use crate::unit::Unit;

/// Texts by their numbers, of which 0 is the empty one.
struct Strings {
    numbers: FxHashMap<String, i64>,
    all: Vec<String>,
}

impl Strings {
    fn new() -> Strings {
        let mut strings = Strings {
            numbers: FxHashMap::default(),
            all: Vec::new(),
        };
        strings.number("");
        strings
    }

    fn number(&mut self, text: &str) -> i64 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.all.len() as i64;
        self.numbers.insert(text.to_owned(), number);
        self.all.push(text.to_owned());
        number
    }
}

struct Building<'a> {
    recording: &'a Recording,
    paths: &'a NamedPaths<'a>,
    strings: Strings,
    profile: Profile,
    functions: FxHashMap<(i64, i64), u64>,
    /// Frames that are locations already.
    locations: FxHashMap<u32, u64>,
    mappings: FxHashMap<u32, u64>,
}

/// Call paths with how often each was found and for how much, by process and thread (labels `pid`,
/// `tid`, `thread`, and `rank` in an MPI job). Inlined functions are lines of one location. Compressed, as pprof writes it.
///
/// # Errors
/// If it is too large for memory.
pub fn pprof(paths: &NamedPaths<'_>) -> std::io::Result<Vec<u8>> {
    let mut building = Building {
        recording: paths.recording,
        paths,
        strings: Strings::new(),
        profile: Profile::default(),
        functions: FxHashMap::default(),
        locations: FxHashMap::default(),
        mappings: FxHashMap::default(),
    };
    building.begin();
    building.samples();
    let Building {
        mut profile,
        strings,
        ..
    } = building;
    profile.string_table = strings.all;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&profile.encode_to_vec())?;
    encoder.finish()
}

impl Building<'_> {
    fn begin(&mut self) {
        let mut value = |kind: &str, unit: &str| ValueType {
            kind: self.strings.number(kind),
            unit: self.strings.number(unit),
        };
        let settings = self.recording.settings;
        let period_ns = settings.map_or(0, |settings| settings.period_ns);
        let of_time = |name| (name, "nanoseconds", period_ns);
        let unit = Unit::of(self.recording);
        let (name, unit, period) = match (&unit, settings.map(|settings| settings.source)) {
            (Unit::Events { event, .. }, _) => {
                let period = match event.rate {
                    Rate::Period(period) => period,
                    Rate::Frequency(_) => 0,
                };
                (event.name.as_str(), "count", period)
            }
            (Unit::Time, Some(Source::WallTimers)) => of_time("wall"),
            (Unit::Time, Some(Source::KernelWaits)) => of_time("off-cpu"),
            (Unit::Time, _) => of_time("cpu"),
        };
        self.profile.sample_type = vec![value("samples", "count"), value(name, unit)];
        self.profile.period_type = Some(value(name, unit));
        self.profile.period = i64::try_from(period).unwrap_or(i64::MAX);
        self.profile.time_nanos = self.recording.header.start_unix_ns as i64;
        let ending = self.recording.ending;
        self.profile.duration_nanos = ending.map_or(0, |ending| ending.elapsed_ns as i64);
        self.profile.default_sample_type = self.strings.number(name);
        let comment = self.strings.number(&self.paths.command().join(" "));
        self.profile.comment.push(comment);
    }

    fn samples(&mut self) {
        // By path and thread: how often, and how long.
        let mut added: FxHashMap<(Option<u32>, u32, u32), usize> = FxHashMap::default();
        for sample in &self.recording.samples {
            let key = (sample.node, sample.pid, sample.tid);
            let next = self.profile.sample.len();
            let place = *added.entry(key).or_insert(next);
            if place == next {
                let new = self.sample(sample);
                self.profile.sample.push(new);
            }
            let value = &mut self.profile.sample[place].value;
            value[0] += 1;
            value[1] = value[1].saturating_add(sample.weight as i64);
        }
    }

    /// A sample of which nothing has been counted yet.
    fn sample(&mut self, sample: &Sample) -> message::Sample {
        let frames = self.paths.frames(sample);
        let location_id = frames.into_iter().map(|frame| self.location(frame));
        let location_id = location_id.collect();
        let number = |key, num: u32| Label {
            key,
            num: num.into(),
            ..Label::default()
        };
        let name = self.paths.thread_name((sample.pid, sample.tid));
        let rank = self.paths.rank(sample.pid);
        let mut label = vec![
            number(self.strings.number("pid"), sample.pid),
            number(self.strings.number("tid"), sample.tid),
            Label {
                key: self.strings.number("thread"),
                str: self.strings.number(name),
                ..Label::default()
            },
        ];
        label.extend(rank.map(|rank| number(self.strings.number("rank"), rank)));
        message::Sample {
            location_id,
            value: vec![0, 0],
            label,
        }
    }

    fn location(&mut self, number: u32) -> u64 {
        if let Some(&known) = self.locations.get(&number) {
            return known;
        }
        let frame = self.recording.frames[&number];
        let mapping_id = frame.image.map_or(0, |image| self.mapping(image));
        let steps = self.paths.steps(number);
        let line = steps.map(|step| self.line(step)).collect();
        let id = self.profile.location.len() as u64 + 1;
        self.profile.location.push(Location {
            id,
            mapping_id,
            address: frame.address,
            line,
            is_folded: false,
        });
        self.locations.insert(number, id);
        id
    }

    fn line(&mut self, step: Step<'_>) -> Line {
        let name = self.strings.number(step.name);
        let file = step.line.map_or("", |line| line.file.as_str());
        let filename = self.strings.number(file);
        let next = self.profile.function.len() as u64 + 1;
        let function_id = *self.functions.entry((name, filename)).or_insert(next);
        if function_id == next {
            self.profile.function.push(Function {
                id: next,
                name,
                system_name: name,
                filename,
                start_line: 0,
            });
        }
        Line {
            function_id,
            line: step.line.map_or(0, |line| line.line.into()),
        }
    }

    fn mapping(&mut self, image: u32) -> u64 {
        let next = self.mappings.len() as u64 + 1;
        let id = *self.mappings.entry(image).or_insert(next);
        if id == next {
            let image = self.recording.images.get(&image);
            let path = image.map_or("", |image| &image.path);
            let build_id = image.map_or(&[][..], |image| &image.build_id);
            let build_id: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
            self.profile.mapping.push(Mapping {
                id,
                // Addresses are those of the file.
                memory_start: 0,
                memory_limit: u64::MAX >> 1,
                file_offset: 0,
                filename: self.strings.number(path),
                build_id: self.strings.number(&build_id),
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
            });
        }
        id
    }
}
