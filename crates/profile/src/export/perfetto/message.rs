//! `perfetto_trace.proto`, as far as it is written. Numbers `iid` name what is interned.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(super) packet: Vec<TracePacket>,
}

/// The state that numbers refer to begins with this packet.
pub(super) const STATE_BEGINS: u32 = 1;
/// It refers to that state.
pub(super) const NEEDS_STATE: u32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacket {
    #[prost(message, optional, tag = "2")]
    pub(super) process_tree: Option<ProcessTree>,
    /// In nanoseconds.
    #[prost(uint64, optional, tag = "8")]
    pub(super) timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    pub(super) trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    pub(super) track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub(super) interned_data: Option<InternedData>,
    #[prost(uint32, tag = "13")]
    pub(super) sequence_flags: u32,
    #[prost(message, optional, tag = "59")]
    pub(super) trace_packet_defaults: Option<TracePacketDefaults>,
    #[prost(message, optional, tag = "60")]
    pub(super) track_descriptor: Option<TrackDescriptor>,
    #[prost(message, optional, tag = "66")]
    pub(super) perf_sample: Option<PerfSample>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    pub(super) processes: Vec<Process>,
    #[prost(message, repeated, tag = "2")]
    pub(super) threads: Vec<Thread>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Process {
    #[prost(int32, tag = "1")]
    pub(super) pid: i32,
    #[prost(string, repeated, tag = "3")]
    pub(super) cmdline: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Thread {
    #[prost(int32, tag = "1")]
    pub(super) tid: i32,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(int32, tag = "3")]
    pub(super) tgid: i32,
}

/// `TYPE_SLICE_BEGIN` and `TYPE_SLICE_END`.
pub(super) const BEGINS: i32 = 1;
pub(super) const ENDS: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackEvent {
    #[prost(int32, tag = "9")]
    pub(super) kind: i32,
    #[prost(uint64, tag = "11")]
    pub(super) track_uuid: u64,
    #[prost(string, repeated, tag = "22")]
    pub(super) categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    pub(super) name: Option<String>,
    #[prost(uint64, optional, tag = "56")]
    pub(super) callstack_iid: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    pub(super) uuid: u64,
    #[prost(message, optional, tag = "4")]
    pub(super) thread: Option<ThreadDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ThreadDescriptor {
    #[prost(int32, tag = "1")]
    pub(super) pid: i32,
    #[prost(int32, tag = "2")]
    pub(super) tid: i32,
    #[prost(string, tag = "5")]
    pub(super) thread_name: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedData {
    #[prost(message, repeated, tag = "5")]
    pub(super) function_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "6")]
    pub(super) frames: Vec<Frame>,
    #[prost(message, repeated, tag = "7")]
    pub(super) callstacks: Vec<Callstack>,
    #[prost(message, repeated, tag = "16")]
    pub(super) build_ids: Vec<InternedString>,
    #[prost(message, repeated, tag = "17")]
    pub(super) mapping_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "18")]
    pub(super) source_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "19")]
    pub(super) mappings: Vec<Mapping>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct InternedString {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) str: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Mapping {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(uint64, tag = "2")]
    pub(super) build_id: u64,
    #[prost(uint64, tag = "5")]
    pub(super) end: u64,
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    pub(super) path_string_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Frame {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    #[prost(uint64, tag = "2")]
    pub(super) function_name_id: u64,
    #[prost(uint64, tag = "3")]
    pub(super) mapping_id: u64,
    /// The address in the file.
    #[prost(uint64, tag = "4")]
    pub(super) rel_pc: u64,
    #[prost(uint64, optional, tag = "5")]
    pub(super) source_path_iid: Option<u64>,
    #[prost(uint32, optional, tag = "6")]
    pub(super) line_number: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Callstack {
    #[prost(uint64, tag = "1")]
    pub(super) iid: u64,
    /// Outermost first.
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub(super) frame_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PerfSample {
    #[prost(uint32, tag = "2")]
    pub(super) pid: u32,
    #[prost(uint32, tag = "3")]
    pub(super) tid: u32,
    #[prost(uint64, optional, tag = "4")]
    pub(super) callstack_iid: Option<u64>,
    /// What the event has counted in its thread so far.
    #[prost(uint64, tag = "6")]
    pub(super) timebase_count: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TracePacketDefaults {
    #[prost(message, optional, tag = "12")]
    pub(super) perf_sample_defaults: Option<PerfSampleDefaults>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PerfSampleDefaults {
    #[prost(message, optional, tag = "1")]
    pub(super) timebase: Option<Timebase>,
}

/// `UNKNOWN_COUNTER`, `SW_CPU_CLOCK` and `SW_TASK_CLOCK`.
pub(super) const UNKNOWN_COUNTER: i32 = 0;
pub(super) const WALL_CLOCK: i32 = 1;
pub(super) const CPU_CLOCK: i32 = 3;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Timebase {
    #[prost(uint64, tag = "1")]
    pub(super) period: u64,
    #[prost(int32, tag = "4")]
    pub(super) counter: i32,
    #[prost(string, tag = "10")]
    pub(super) name: String,
}
