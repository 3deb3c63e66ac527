//! Collects the information from a trace.

use rustc_hash::FxHashMap;
use unspool_events::stream::StreamNumber;
use unspool_events::{
    Access, AccessFlags, AccessKind, Event, KnownStream, Layout, Problem, Sink, StreamInfo,
    ThreadEvent, ThreadId, ThreadInfo, Trace, Understanding,
};

use super::{
    FunctionInformation, Information, KindCounts, ModuleInformation, SCHEMA_VERSION,
    StreamInformation, ThreadInformation, Totals,
};
use crate::description::{hexadecimal, lossy};
use crate::event_row::kind_name;

impl Information {
    /// Reads all of the trace, so that kinds are counted and all damage is found.
    #[must_use]
    pub fn read_all(trace: &Trace) -> Information {
        let mut counter = Counter::default();
        let mut problems = trace.problems().to_vec();
        for thread in trace.threads() {
            for problem in trace.thread(thread.thread).deliver(&mut counter) {
                // Damage that was found on opening is found again on reading.
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
        }
        Information::with(trace, &problems, Some(counter))
    }

    /// Reads only the header, the tables and the index.
    #[must_use]
    pub fn read_index(trace: &Trace) -> Information {
        Information::with(trace, trace.problems(), None)
    }

    fn with(trace: &Trace, problems: &[Problem], counter: Option<Counter>) -> Information {
        let header = trace.header();
        let labels = counter.as_ref().map(|counter| &counter.labels);
        let threads = trace.threads();
        let in_place = trace.layout() == Layout::InPlace;
        Information {
            schema: "unspool-information",
            version: SCHEMA_VERSION,
            program: lossy(&header.program),
            arguments: header
                .arguments
                .iter()
                .map(|argument| lossy(argument))
                .collect(),
            order: header.order.name(),
            granule: header.granule,
            options: header.options.iter().cloned().collect(),
            process: header.process,
            parent_process: header.parent_process,
            start_unix_ns: header.start_unix_ns,
            tool_version: header.tool_version.clone(),
            complete: trace.is_complete(),
            problems: problems.iter().map(ToString::to_string).collect(),
            totals: totals(trace, &threads),
            in_place,
            streams: streams(trace, counter.as_ref()),
            threads: threads
                .iter()
                .map(|info| {
                    thread_information(info, labels.and_then(|labels| labels.get(&info.thread)))
                })
                .collect(),
            modules: trace
                .modules()
                .iter()
                .map(|module| ModuleInformation {
                    module: module.id.0,
                    path: lossy(&module.path),
                    base: format!("{:#x}", module.base),
                    size: module.size,
                    build_id: hexadecimal(&module.build_id),
                })
                .collect(),
            functions: trace
                .functions()
                .iter()
                .map(|function| FunctionInformation {
                    function: function.id.0,
                    name: function.name.clone(),
                    address: format!("{:#x}", function.address),
                })
                .collect(),
            // Blocks of other streams have no accesses to be counted.
            counts: counter.filter(|_| !in_place).map(|counter| counter.counts),
        }
    }
}

fn streams(trace: &Trace, counter: Option<&Counter>) -> Vec<StreamInformation> {
    let inform = |info: &StreamInfo| {
        let records = counter.map(|counter| counter.records_of(info));
        StreamInformation {
            records: records.filter(|_| info.understanding != Understanding::Blocks),
            ..stream_information(info)
        }
    };
    trace.streams().iter().map(inform).collect()
}

fn stream_information(info: &StreamInfo) -> StreamInformation {
    let declaration = info.declaration.as_ref();
    StreamInformation {
        stream: info.number.0,
        name: declaration.map(|stream| stream.name.to_string()),
        schema_version: declaration.map(|stream| stream.version),
        in_blocks: info.blocks > 0 || info.understanding == Understanding::Blocks,
        understood: match info.understanding {
            Understanding::Known => Some(true),
            Understanding::NewerThan(_) | Understanding::Unknown => Some(false),
            Understanding::Blocks => None,
        },
        records: None,
        blocks: info.blocks,
        block_bytes: info.block_bytes,
    }
}

/// Measurements that say why a recording ended early: the number of what was too much for it.
const ENDINGS: [(&str, &str); 4] = [
    (
        "ended_at_threads",
        "the program wanted more threads at one time than",
    ),
    (
        "ended_at_thread_numbers",
        "the program wanted more threads one after the other than",
    ),
    (
        "ended_for_want_of_memory",
        "there was no memory for a further thread's trace buffer, whose words are",
    ),
    (
        "ended_at_homes",
        "there was no address space for the order of memory that was mapped more than once; GiB that had some:",
    ),
];

fn totals(trace: &Trace, threads: &[ThreadInfo]) -> Totals {
    let summary = trace.summary();
    let measured = |name: &str| {
        let named = trace.measurements().iter().find(|one| one.name == name);
        named.map(|measurement| measurement.value)
    };
    let (processor_ns, native_processor_ns) =
        (measured("processor_ns"), measured("native_processor_ns"));
    Totals {
        threads: summary.threads,
        accesses: summary.accesses,
        accessing_instructions: summary.instructions,
        executed_instructions: summary.executed,
        events: summary.events,
        superblocks: summary.superblocks,
        chunks: threads.iter().map(|thread| thread.chunks).sum(),
        raw_words: summary.raw_words,
        dropped_words: summary.dropped_words,
        file_bytes: summary.file_bytes,
        bytes_per_access: (summary.accesses > 0)
            .then(|| summary.file_bytes as f64 / summary.accesses as f64),
        translated_code_bytes: measured("translated_code_bytes"),
        code_cache_flushes: measured("code_cache_flushes"),
        path_ids_begun_anew: measured("path_ids_begun_anew"),
        epochs_begun_anew: measured("epochs_begun_anew"),
        ended_early: ENDINGS
            .iter()
            .find_map(|&(name, why)| measured(name).map(|most| format!("{why} {most}"))),
        buffer_bytes: measured("buffer_bytes"),
        processor_ns,
        wall_ns: measured("wall_ns"),
        native_processor_ns,
        native_wall_ns: measured("native_wall_ns"),
        slowdown: processor_ns
            .zip(native_processor_ns.filter(|&native| native > 0))
            .map(|(observed, native)| observed as f64 / native as f64),
    }
}

fn thread_information(info: &ThreadInfo, label: Option<&Label>) -> ThreadInformation {
    ThreadInformation {
        thread: info.thread.0,
        os_thread: label.and_then(|label| label.os_thread),
        registered_number: label.and_then(|label| label.number),
        name: label.and_then(|label| label.name.clone()),
        start_time: info.start_time,
        end_time: info.end_time,
        finished: info.finished,
        accesses: info.accesses,
        accessing_instructions: info.instructions,
        events: info.events,
        chunks: info.chunks,
        file_bytes: info.file_bytes,
    }
}

/// What events say of a thread.
#[derive(Debug, Default)]
struct Label {
    os_thread: Option<u32>,
    number: Option<i64>,
    name: Option<String>,
}

/// Counts everything.
#[derive(Debug, Default)]
struct Counter {
    counts: KindCounts,
    labels: FxHashMap<ThreadId, Label>,
    /// Records of streams other than accesses, by number.
    records: FxHashMap<StreamNumber, u64>,
}

impl Counter {
    /// How many records a stream has. What is understood has the number here that it has in files
    /// that are written, whatever it has in this one.
    fn records_of(&self, info: &StreamInfo) -> u64 {
        let name = info.declaration.as_ref().map_or("", |stream| &stream.name);
        let known = KnownStream::named(name).filter(|_| info.understanding == Understanding::Known);
        match known {
            Some(KnownStream::Accesses) => self.counts.reads + self.counts.writes,
            known => {
                let number = known.map_or(info.number, KnownStream::number);
                self.records.get(&number).copied().unwrap_or(0)
            }
        }
    }
}

impl Sink for Counter {
    fn accesses(&mut self, _: ThreadId, batch: &[Access]) {
        // Sums without branches, so that this keeps up with the decoder.
        let mut writes = 0;
        let mut atomics = 0;
        let mut non_temporal = 0;
        let mut bytes_written = 0;
        let mut bytes = 0;
        let mut failed = 0;
        for access in batch {
            let write = u64::from(access.kind == AccessKind::Write);
            let size = u64::from(access.size);
            writes += write;
            bytes_written += size * write;
            bytes += size;
            atomics += u64::from(access.flags.contains(AccessFlags::ATOMIC));
            non_temporal += u64::from(access.flags.contains(AccessFlags::NON_TEMPORAL));
            failed += u64::from(
                access
                    .flags
                    .contains(AccessFlags::FAILED_CAS.with(AccessFlags::FIRST)),
            );
        }
        let counts = &mut self.counts;
        counts.writes += writes;
        counts.reads += batch.len() as u64 - writes;
        counts.bytes_written += bytes_written;
        counts.bytes_read += bytes - bytes_written;
        counts.atomic_accesses += atomics;
        counts.non_temporal_accesses += non_temporal;
        counts.failed_compare_and_swaps += failed;
    }

    fn event(&mut self, thread: ThreadId, _: u64, event: &Event) {
        *self.counts.events.entry(kind_name(event)).or_default() += 1;
        *self.records.entry(event.stream().number()).or_default() += 1;
        match event {
            Event::Thread(ThreadEvent::Start { os_thread, .. }) => {
                self.labels.entry(thread).or_default().os_thread = Some(*os_thread);
            }
            Event::Thread(ThreadEvent::Registered { number, name }) => {
                let label = self.labels.entry(thread).or_default();
                label.number = Some(*number);
                label.name = (!name.is_empty()).then(|| name.clone());
            }
            _ => {}
        }
    }

    fn passed_over(&mut self, _: ThreadId, _: u64, stream: StreamNumber) {
        *self.records.entry(stream).or_default() += 1;
    }

    fn values(&mut self, _: ThreadId, _: &[Access], values: &[&[u8]]) {
        self.counts.values += values.iter().filter(|value| !value.is_empty()).count() as u64;
    }
}
