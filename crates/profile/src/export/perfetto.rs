//! The format of Perfetto.
//!
//! Source: `protos/perfetto/trace/perfetto_trace.proto` of <https://github.com/google/perfetto>.

mod message;

use prost::Message;
use rustc_hash::FxHashMap;
use unspool_profile_record::{Rate, Sample, Source};

use self::message::{
    BEGINS, CPU_CLOCK, Callstack, ENDS, Frame, InternedData, InternedString, Mapping, NEEDS_STATE,
    PerfSample, PerfSampleDefaults, Process, ProcessTree, STATE_BEGINS, Thread, ThreadDescriptor,
    Timebase, Trace, TracePacket, TracePacketDefaults, TrackDescriptor, TrackEvent,
    UNKNOWN_COUNTER, WALL_CLOCK,
};
use crate::named_paths::{NamedPaths, Step};
use crate::unit::Unit;

/// The writer of all packets: there is one.
const SEQUENCE: u32 = 1;

/// Samples of each thread at their times, with call paths; and, where they were recorded, waits as slices
/// on the tracks of their threads, with the call paths there.
#[must_use]
pub fn perfetto(paths: &NamedPaths<'_>) -> Vec<u8> {
    let mut building = Building {
        paths,
        interned: Interned::default(),
        packets: Vec::new(),
    };
    building.threads();
    building.samples();
    building.waits();
    let Building {
        interned,
        mut packets,
        ..
    } = building;
    // What numbers stand for comes before all that name them.
    packets.insert(
        0,
        TracePacket {
            interned_data: Some(interned.data),
            trace_packet_defaults: Some(defaults(paths)),
            ..packet(STATE_BEGINS)
        },
    );
    Trace { packet: packets }.encode_to_vec()
}

fn packet(sequence_flags: u32) -> TracePacket {
    TracePacket {
        trusted_packet_sequence_id: SEQUENCE,
        sequence_flags,
        ..TracePacket::default()
    }
}

fn defaults(paths: &NamedPaths<'_>) -> TracePacketDefaults {
    let settings = paths.recording.settings;
    let is_wall = settings.is_some_and(|settings| settings.source == Source::WallTimers);
    let (counter, name) = match is_wall {
        true => (WALL_CLOCK, "time in ns"),
        false => (CPU_CLOCK, "CPU time in ns"),
    };
    let unit = Unit::of(paths.recording);
    let (counter, period, name) = match &unit {
        Unit::Time => (
            counter,
            settings.map_or(0, |settings| settings.period_ns),
            name,
        ),
        // The name says more than numbers that not all events have.
        Unit::Events { event, .. } => match event.rate {
            Rate::Period(period) => (UNKNOWN_COUNTER, period, event.name.as_str()),
            Rate::Frequency(_) => (UNKNOWN_COUNTER, 0, event.name.as_str()),
        },
    };
    TracePacketDefaults {
        perf_sample_defaults: Some(PerfSampleDefaults {
            timebase: Some(Timebase {
                period,
                counter,
                name: name.to_owned(),
            }),
        }),
    }
}

/// The track of a thread.
fn track((pid, tid): (u32, u32)) -> u64 {
    u64::from(pid) << 32 | u64::from(tid)
}

/// The kernel's numbers are less than 2²².
fn signed(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

struct Building<'a> {
    paths: &'a NamedPaths<'a>,
    interned: Interned,
    packets: Vec<TracePacket>,
}

impl Building<'_> {
    /// Which processes and threads there are, and what they are called.
    fn threads(&mut self) {
        let recording = self.paths.recording;
        let mut threads: Vec<(u32, u32)> = recording.threads.keys().copied().collect();
        let waits = recording.waits.iter().flatten().map(|wait| &wait.sample);
        let sampled = recording.samples.iter().chain(waits);
        threads.extend(sampled.map(|sample| (sample.pid, sample.tid)));
        threads.sort_unstable();
        threads.dedup();
        let mut tree = ProcessTree::default();
        for &(pid, tid) in &threads {
            let name = self.paths.thread_name((pid, tid)).to_owned();
            if tree.processes.last().map(|last| last.pid) != Some(signed(pid)) {
                let name = self.paths.process_name(pid);
                tree.processes.push(Process {
                    pid: signed(pid),
                    cmdline: vec![match self.paths.rank(pid) {
                        Some(rank) => format!("rank {rank}: {name}"),
                        None => name.to_owned(),
                    }],
                });
            }
            tree.threads.push(Thread {
                tid: signed(tid),
                name: name.clone(),
                tgid: signed(pid),
            });
            self.packets.push(TracePacket {
                track_descriptor: Some(TrackDescriptor {
                    uuid: track((pid, tid)),
                    thread: Some(ThreadDescriptor {
                        pid: signed(pid),
                        tid: signed(tid),
                        thread_name: name,
                    }),
                }),
                ..packet(0)
            });
        }
        let times = recording.samples.iter().map(|sample| sample.time_ns);
        self.packets.push(TracePacket {
            process_tree: Some(tree),
            timestamp: times.min(),
            ..packet(0)
        });
    }

    fn samples(&mut self) {
        let recording = self.paths.recording;
        if recording
            .settings
            .is_some_and(|settings| settings.source == Source::KernelWaits)
        {
            return;
        }
        for ((pid, tid), samples) in self.paths.by_thread() {
            let mut counted_ns = 0_u64;
            for sample in samples {
                counted_ns = counted_ns.saturating_add(sample.weight);
                let callstack_iid = self.interned.callstack(self.paths, sample);
                self.packets.push(TracePacket {
                    timestamp: Some(sample.time_ns),
                    perf_sample: Some(PerfSample {
                        pid,
                        tid,
                        callstack_iid,
                        timebase_count: counted_ns,
                    }),
                    ..packet(NEEDS_STATE)
                });
            }
        }
    }

    fn waits(&mut self) {
        for wait in self.paths.recording.waits.iter().flatten() {
            let sample = &wait.sample;
            let name = match wait.is_preempted {
                true => "has no processor".to_owned(),
                false => format!("waits in {}", self.innermost(sample)),
            };
            let event = TrackEvent {
                track_uuid: track((sample.pid, sample.tid)),
                ..TrackEvent::default()
            };
            let begins = TrackEvent {
                kind: BEGINS,
                categories: vec!["off-cpu".to_owned()],
                name: Some(name),
                callstack_iid: self.interned.callstack(self.paths, sample),
                ..event.clone()
            };
            let ends = TrackEvent {
                kind: ENDS,
                ..event
            };
            let from_ns = sample.time_ns.saturating_sub(sample.weight);
            for (time_ns, event) in [(from_ns, begins), (sample.time_ns, ends)] {
                self.packets.push(TracePacket {
                    timestamp: Some(time_ns),
                    track_event: Some(event),
                    ..packet(NEEDS_STATE)
                });
            }
        }
    }

    /// The function that a sample was in.
    fn innermost(&self, sample: &Sample) -> &str {
        let frame = self.paths.frames(sample).first().copied();
        let step = frame.and_then(|frame| self.paths.steps(frame).next());
        step.map_or("[unknown]", |step| step.name)
    }
}

/// What packets name by numbers, from 1 on.
#[derive(Default)]
struct Interned {
    data: InternedData,
    names: FxHashMap<String, u64>,
    files: FxHashMap<String, u64>,
    mappings: FxHashMap<u32, u64>,
    /// The frames of a frame of the recording, outermost function first.
    frames: FxHashMap<u32, Vec<u64>>,
    callstacks: FxHashMap<u32, u64>,
}

/// The number of a text, which is added if it is new.
fn text(known: &mut FxHashMap<String, u64>, all: &mut Vec<InternedString>, text: &str) -> u64 {
    if let Some(&iid) = known.get(text) {
        return iid;
    }
    let iid = all.len() as u64 + 1;
    known.insert(text.to_owned(), iid);
    all.push(InternedString {
        iid,
        str: text.as_bytes().to_vec(),
    });
    iid
}

impl Interned {
    /// The call path of a sample; none where nothing is known.
    fn callstack(&mut self, paths: &NamedPaths<'_>, sample: &Sample) -> Option<u64> {
        let node = sample.node?;
        if let Some(&known) = self.callstacks.get(&node) {
            return Some(known);
        }
        let mut frame_ids = Vec::new();
        for frame in paths.frames(sample).into_iter().rev() {
            frame_ids.extend_from_slice(self.frames(paths, frame));
        }
        let iid = self.data.callstacks.len() as u64 + 1;
        self.data.callstacks.push(Callstack { iid, frame_ids });
        self.callstacks.insert(node, iid);
        Some(iid)
    }

    fn frames(&mut self, paths: &NamedPaths<'_>, number: u32) -> &[u64] {
        if !self.frames.contains_key(&number) {
            let frame = paths.recording.frames[&number];
            let mapping_id = frame.image.map_or(0, |image| self.mapping(paths, image));
            let steps = paths.steps(number);
            let mut added: Vec<u64> = steps
                .map(|step| self.frame(step, mapping_id, frame.address))
                .collect();
            added.reverse();
            self.frames.insert(number, added);
        }
        &self.frames[&number]
    }

    fn frame(&mut self, step: Step<'_>, mapping_id: u64, rel_pc: u64) -> u64 {
        let data = &mut self.data;
        let iid = data.frames.len() as u64 + 1;
        let frame = Frame {
            iid,
            function_name_id: text(&mut self.names, &mut data.function_names, step.name),
            mapping_id,
            rel_pc,
            source_path_iid: step
                .line
                .map(|line| text(&mut self.files, &mut data.source_paths, &line.file)),
            line_number: step.line.map(|line| line.line),
        };
        data.frames.push(frame);
        iid
    }

    fn mapping(&mut self, paths: &NamedPaths<'_>, number: u32) -> u64 {
        let data = &mut self.data;
        let next = data.mappings.len() as u64 + 1;
        let iid = *self.mappings.entry(number).or_insert(next);
        if iid == next {
            let image = paths.recording.images.get(&number);
            let path = image.map_or("", |image| &image.path);
            data.mapping_paths.push(InternedString {
                iid,
                str: path.as_bytes().to_vec(),
            });
            data.build_ids.push(InternedString {
                iid,
                str: image.map_or(Vec::new(), |image| image.build_id.clone()),
            });
            data.mappings.push(Mapping {
                iid,
                build_id: iid,
                // Addresses are those of the file.
                end: u64::MAX >> 1,
                path_string_ids: vec![iid],
            });
        }
        iid
    }
}
