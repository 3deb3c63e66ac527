//! What a trace holds, in numbers and names, for people and as JSON.

mod gather;
mod text;

use std::collections::BTreeMap;

use serde::Serialize;

/// The version of the JSON form. It grows when a field changes its meaning or goes away;
/// fields may be added without notice.
pub const SCHEMA_VERSION: u32 = 1;

/// What a trace holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Information {
    /// Always `unspool-information`.
    pub schema: &'static str,
    /// [`SCHEMA_VERSION`].
    pub version: u32,
    /// The path of the program.
    pub program: String,
    /// Its arguments, its own name first.
    pub arguments: Vec<String>,
    /// The order that the times hold.
    pub order: &'static str,
    /// Bytes of memory whose order was kept as one.
    pub granule: u32,
    /// The options of the observer.
    pub options: BTreeMap<String, String>,
    /// The kernel's id of the process.
    pub process: u32,
    /// The observed process that started it.
    pub parent_process: Option<u32>,
    /// When the trace began, in nanoseconds since 1970 (UTC).
    pub start_unix_ns: u64,
    /// The version of Unspool that recorded it.
    pub tool_version: String,
    /// Whether the trace was finished, rather than cut off.
    pub complete: bool,
    /// Whether the process that writes it fills it in place, in its memory.
    pub in_place: bool,
    /// What could not be read, in words.
    pub problems: Vec<String>,
    /// The totals.
    pub totals: Totals,
    /// What was counted by reading everything; nothing if only the index was read.
    pub counts: Option<KindCounts>,
    /// The streams that the file declares.
    pub streams: Vec<StreamInformation>,
    /// The threads.
    pub threads: Vec<ThreadInformation>,
    /// The modules.
    pub modules: Vec<ModuleInformation>,
    /// The traced functions.
    pub functions: Vec<FunctionInformation>,
}

/// The totals of a trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Totals {
    /// Threads.
    pub threads: u64,
    /// Accesses.
    pub accesses: u64,
    /// Executions of accessing instructions.
    pub accessing_instructions: u64,
    /// Executions of all instructions on recorded paths.
    pub executed_instructions: u64,
    /// Events.
    pub events: u64,
    /// Superblocks.
    pub superblocks: u64,
    /// Chunks.
    pub chunks: u64,
    /// Words that were recorded.
    pub raw_words: u64,
    /// Words that were lost.
    pub dropped_words: u64,
    /// Size of the file.
    pub file_bytes: u64,
    /// Size of the file for each access; nothing where there are no accesses.
    pub bytes_per_access: Option<f64>,
    /// Program code that was translated; nothing, here and below, where the trace does not tell.
    pub translated_code_bytes: Option<u64>,
    /// How often the code cache was full and started anew.
    pub code_cache_flushes: Option<u64>,
    /// How often path ids began anew, because many had been used.
    pub path_ids_begun_anew: Option<u64>,
    /// How often the epochs of read-shared lines began anew.
    pub epochs_begun_anew: Option<u64>,
    /// Why the recording ended before the program did; nothing where it did not.
    pub ended_early: Option<String>,
    /// The trace buffers of all threads, at their greatest.
    pub buffer_bytes: Option<u64>,
    /// Processor time of the observed run.
    pub processor_ns: Option<u64>,
    /// Its duration.
    pub wall_ns: Option<u64>,
    /// Processor time of the native run that it is compared with.
    pub native_processor_ns: Option<u64>,
    /// The duration of the native run.
    pub native_wall_ns: Option<u64>,
    /// Processor time of the observed run for each unit of the native one's.
    pub slowdown: Option<f64>,
}

/// What was counted by reading everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct KindCounts {
    /// Reads.
    pub reads: u64,
    /// Writes, also those of failed compare-and-swaps.
    pub writes: u64,
    /// Accesses by atomic instructions.
    pub atomic_accesses: u64,
    /// Accesses whose data is to bypass the caches.
    pub non_temporal_accesses: u64,
    /// Compare-and-swaps that failed.
    pub failed_compare_and_swaps: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Accesses with a recorded value.
    pub values: u64,
    /// Events by the name of their kind.
    pub events: BTreeMap<&'static str, u64>,
}

/// One thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ThreadInformation {
    /// Its number in the trace.
    pub thread: u32,
    /// The kernel's id, if everything was read.
    pub os_thread: Option<u32>,
    /// The program's number for it, if it has one and everything was read.
    pub registered_number: Option<i64>,
    /// The program's name for it.
    pub name: Option<String>,
    /// The time before its first item.
    pub start_time: u64,
    /// The time after its last item.
    pub end_time: u64,
    /// Whether its stream was finished, rather than cut off.
    pub finished: bool,
    /// Accesses.
    pub accesses: u64,
    /// Executions of accessing instructions.
    pub accessing_instructions: u64,
    /// Events.
    pub events: u64,
    /// Chunks.
    pub chunks: u64,
    /// Bytes in the file.
    pub file_bytes: u64,
}

/// One stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StreamInformation {
    /// What stands for it in the file.
    pub stream: u16,
    /// Its name; nothing where the file has blocks of a stream that it does not declare.
    pub name: Option<String>,
    /// The version of its schema.
    pub schema_version: Option<u32>,
    /// Whether it has blocks of its own, instead of records among those of threads.
    pub in_blocks: bool,
    /// Whether its records are understood here. Blocks are, by the command that is about them.
    pub understood: Option<bool>,
    /// Its records; nothing where they were not counted.
    pub records: Option<u64>,
    /// Its blocks.
    pub blocks: u64,
    /// Bytes of its blocks.
    pub block_bytes: u64,
}

/// One module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModuleInformation {
    /// Its number in the trace.
    pub module: u32,
    /// Its file.
    pub path: String,
    /// Where it was mapped, as `0x…`.
    pub base: String,
    /// Bytes of address space.
    pub size: u64,
    /// Its build-id in hexadecimal; empty where it has none.
    pub build_id: String,
}

/// One traced function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionInformation {
    /// Its number in the trace.
    pub function: u32,
    /// Its name.
    pub name: String,
    /// Its first instruction, as `0x…`.
    pub address: String,
}
