//! From bytes to [`ProcessRecord`].

use unspool_container::HeaderError;
use unspool_container::in_place::{Block, HEADER_BYTES, InPlace};
use unspool_container::stream::StreamNumber;

use crate::ConstructKind;
use crate::layout::{
    NONE, block, construct, description, frame, process_block, runtime, schedule, span, stream,
    thread_block,
};
use crate::process::{
    ClockKind, Construct, Module, Problem, ProcessRecord, Runtimes, Span, ThreadTime,
};

mod completion;

#[cfg(test)]
mod tests;

/// Why a file cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is something else.
    #[error("this is no record of an OpenMP program")]
    NotARecord,
    /// It was written before records were files of streams.
    #[error(
        "the record has version {found} of a format that is not read any more; \
         run the program again, or read the record with the version of unspool that wrote it"
    )]
    Outdated {
        /// The version that the file names.
        found: u64,
    },
    /// Its header cannot be used.
    #[error(transparent)]
    Header(HeaderError),
    /// What it says of the process has another schema than the one that is known.
    #[error(
        "the record's stream {stream} has schema version {found}; this command reads version {known}"
    )]
    UnknownSchema {
        /// The stream's name.
        stream: String,
        /// The version that the file declares.
        found: u32,
        /// The version that is read.
        known: u32,
    },
}

/// What files began with before they were files of streams.
const OUTDATED_MAGIC: [u8; 8] = *b"UNSPOMP\n";

/// A construct that a thread had entered and not left.
#[derive(Debug, Clone, Copy)]
struct OpenFrame {
    construct: u64,
    begin: u64,
    nested: u64,
    waited: u64,
}

impl ProcessRecord {
    /// Reads a file. `end_ns` is when the process ended by the monotonic clock, if the
    /// reader knows it: it serves where the process could not say so itself.
    ///
    /// # Errors
    /// If the bytes are no record, or one of another version. Damage is no error: it is
    /// listed in [`ProcessRecord::problems`].
    pub fn read(bytes: &[u8], end_ns: Option<u64>) -> Result<ProcessRecord, ReadError> {
        if bytes.len() >= 16 && bytes.starts_with(&OUTDATED_MAGIC) {
            let found = word(bytes, 8);
            return Err(ReadError::Outdated { found });
        }
        let file = InPlace::read(bytes).map_err(|error| match error {
            HeaderError::NotATrace | HeaderError::NotInPlace => ReadError::NotARecord,
            error => ReadError::Header(error),
        })?;
        let mut record = ProcessRecord::of_header(&file);
        let known = record.known_streams(&file)?;
        let is_process = |block: &&Block<'_>| block.stream == stream::PROCESS;
        match file.blocks.iter().find(is_process) {
            Some(found) => record.read_process(found),
            None => record.damaged("process", "its block is missing"),
        }
        if !record.ended {
            record.extend_to(end_ns);
            record.problems.push(Problem::EndedAbruptly);
        }
        for gap in &file.gaps {
            record.damaged(
                format!("bytes {} to {}", gap.offset, gap.offset + gap.length),
                gap.what,
            );
        }
        let mut threads: Vec<Vec<OpenFrame>> = Vec::new();
        for block in file
            .blocks
            .iter()
            .filter(|block| known.contains(&block.stream))
        {
            record.read_block(block, &mut threads);
        }
        record.put_in_order();
        for frames in &threads {
            record.close(frames);
        }
        record.drop_orphans();
        Ok(record)
    }

    /// What the header says.
    fn of_header(file: &InPlace<'_>) -> ProcessRecord {
        let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
        ProcessRecord {
            process: u64::from(file.header.process),
            arguments: file.header.arguments.iter().map(text).collect(),
            start_unix_ns: file.header.start_unix_ns,
            ..ProcessRecord::default()
        }
    }

    /// The streams whose blocks can be read. Those that this version does not know are left
    /// out, and so is one of another schema, which is a problem.
    fn known_streams(&mut self, file: &InPlace<'_>) -> Result<Vec<StreamNumber>, ReadError> {
        let mut readable = Vec::new();
        for known in stream::declarations() {
            match file.stream(&known.name) {
                Some(found) if found.version == known.version => readable.push(found.number),
                Some(found) => {
                    let unknown = ReadError::UnknownSchema {
                        stream: known.name.to_string(),
                        found: found.version,
                        known: known.version,
                    };
                    if known.number == stream::PROCESS {
                        return Err(unknown);
                    }
                    self.damaged(known.name, unknown.to_string());
                }
                None if known.number == stream::PROCESS => return Err(ReadError::NotARecord),
                None => {}
            }
        }
        Ok(readable)
    }

    fn damaged(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.problems.push(Problem::Damaged {
            place: place.into(),
            what: what.into(),
        });
    }

    fn read_process(&mut self, found: &Block<'_>) {
        if found.payload.len() < process_block::BYTES - HEADER_BYTES {
            return self.damaged("process", "its block is too short");
        }
        let at = |offset: usize| word(found.payload, offset - HEADER_BYTES);
        self.parent = at(process_block::PARENT);
        self.start_ns = at(process_block::START_NS);
        self.last_ns = at(process_block::LAST_NS);
        self.start_ticks = at(process_block::START_TICKS);
        self.last_ticks = at(process_block::LAST_TICKS);
        self.clock = match at(process_block::CLOCK) {
            0 => ClockKind::Processor,
            _ => ClockKind::Monotonic,
        };
        self.ended = at(process_block::ENDED) == 1;
        self.peak_threads = at(process_block::PEAK_THREADS);
        self.processors = at(process_block::PROCESSORS);
        let runtimes = at(process_block::RUNTIMES);
        self.runtimes = Runtimes {
            gomp: runtimes & runtime::GOMP != 0,
            ompt: runtimes & runtime::OMPT != 0,
            mpi: runtimes & runtime::MPI != 0,
        };
        self.rank = at(process_block::RANK).checked_sub(1);
        self.ranks = at(process_block::RANKS);
        self.cancelled = at(process_block::CANCELLED);
        let counted = [
            Problem::WithoutRoom(at(process_block::WITHOUT_ROOM)),
            Problem::TooDeep(at(process_block::TOO_DEEP)),
            Problem::Unmatched(at(process_block::UNMATCHED)),
        ];
        let occurred = counted.into_iter().filter(Problem::occurred);
        self.problems.extend(occurred);
    }

    fn read_block(&mut self, found: &Block<'_>, threads: &mut Vec<Vec<OpenFrame>>) {
        let Some(part) = Part::of(found) else {
            let place = format!("block at byte {}", found.offset);
            return self.damaged(place, "it is too short");
        };
        match found.stream {
            stream::THREADS => {
                // Where more are open than there is room for, the innermost are not known.
                let open = usize::try_from(part.used).unwrap_or(usize::MAX);
                let frames = part
                    .content
                    .chunks_exact(frame::BYTES)
                    .take(open.min(frame::IN_BLOCK));
                threads.push(frames.map(OpenFrame::read).collect());
                let counted = part.content.get(thread_block::START - block::CONTENT..);
                if let Some(counted) = counted.filter(|bytes| bytes.len() >= 32) {
                    let at = |field: usize| word(counted, field - thread_block::START);
                    let time = ThreadTime {
                        ran_ns: at(thread_block::RAN_NS),
                        without_ns: at(thread_block::WITHOUT_NS),
                        stopped: at(thread_block::STOPPED),
                        preempted: at(thread_block::PREEMPTED),
                    };
                    self.threads.push((found.number + 1, time));
                }
            }
            stream::CONSTRUCTS => {
                let records = self.records(found, &part, construct::BYTES, "constructs");
                for (index, bytes) in records.enumerate() {
                    let number = found.number << 16 | index as u64;
                    self.read_construct(number, u64::from(found.thread.0), bytes);
                }
            }
            stream::DESCRIPTIONS => {
                let mut bytes = self.records(found, &part, 1, "bytes of descriptions");
                let used = bytes.by_ref().count();
                self.read_descriptions(found.number, &part.content[..used]);
            }
            stream::SPANS => {
                let records = self.records(found, &part, span::BYTES, "spans");
                self.spans.extend(records.map(read_span));
            }
            _ => {}
        }
    }

    /// The records of a block that are in use, of which there cannot be more than have room.
    fn records<'a>(
        &mut self,
        found: &Block<'_>,
        part: &Part<'a>,
        bytes: usize,
        what: &str,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let room = part.content.len() / bytes;
        if part.used > room as u64 {
            let place = format!("block at byte {}", found.offset);
            let what = format!("{} {what} where {room} have room", part.used);
            self.damaged(place, what);
        }
        let used = usize::try_from(part.used).unwrap_or(usize::MAX);
        part.content.chunks_exact(bytes).take(used)
    }

    fn read_construct(&mut self, number: u64, thread: u64, bytes: &[u8]) {
        let kind = word(bytes, construct::KIND);
        if kind == 0 {
            // The process ended while the record was being made: nothing was counted yet.
            return;
        }
        let Some(kind) = u32::try_from(kind)
            .ok()
            .and_then(ConstructKind::from_number)
        else {
            self.damaged(
                format!("construct {number:#x}"),
                format!("unknown kind {kind}"),
            );
            return;
        };
        let parent = word(bytes, construct::PARENT);
        // Fields that mean one thing in some kinds of constructs and another in others.
        let calls_runtime = matches!(
            kind,
            ConstructKind::Loop | ConstructKind::Sections | ConstructKind::TaskCreation
        );
        let of_runtime = |at| if calls_runtime { word(bytes, at) } else { 0 };
        let of_arrivals = |at| if calls_runtime { 0 } else { word(bytes, at) };
        self.constructs.push(Construct {
            number,
            thread,
            kind,
            parent: (parent != NONE).then_some(parent),
            address: word(bytes, construct::ADDRESS),
            detail: word(bytes, construct::DETAIL),
            count: word(bytes, construct::COUNT),
            total: word(bytes, construct::TOTAL),
            own: word(bytes, construct::OWN),
            wait: word(bytes, construct::WAIT),
            wait_longest: word(bytes, construct::WAIT_LONGEST),
            longest: word(bytes, construct::LONGEST),
            own_longest: word(bytes, construct::OWN_LONGEST),
            first: word(bytes, construct::FIRST),
            last: word(bytes, construct::LAST),
            startup: match kind {
                ConstructKind::Task => 0,
                _ => word(bytes, construct::STARTUP),
            },
            chain: match kind {
                ConstructKind::Task => word(bytes, construct::CHAIN),
                _ => 0,
            },
            team: match kind {
                ConstructKind::Loop => 0,
                _ => word(bytes, construct::TEAM),
            },
            schedule: match kind {
                ConstructKind::Loop => word(bytes, construct::SCHEDULE),
                _ => schedule::UNKNOWN,
            },
            last_arrivals: of_arrivals(construct::LAST_ARRIVALS),
            path_total: of_arrivals(construct::PATH_TOTAL),
            path_wait: of_arrivals(construct::PATH_WAIT),
            runtime_calls: of_runtime(construct::RUNTIME_CALLS),
            runtime_timed: of_runtime(construct::RUNTIME_TIMED),
            runtime_ticks: of_runtime(construct::RUNTIME_TICKS),
            last_wait: word(bytes, construct::LAST_WAIT),
            iterations: match kind {
                ConstructKind::Parallel => 0,
                _ => word(bytes, construct::ITERATIONS),
            },
            without_processor: word(bytes, construct::WITHOUT_PROCESSOR),
            wait_for_processor: word(bytes, construct::WAIT_FOR_PROCESSOR),
            startup_without_processor: match kind {
                ConstructKind::Parallel => word(bytes, construct::STARTUP_WITHOUT_PROCESSOR),
                _ => 0,
            },
            slot: word(bytes, construct::SLOT),
            path: word(bytes, construct::PATH),
        });
    }

    fn read_descriptions(&mut self, block: u64, mut rest: &[u8]) {
        let place = format!("block {block} of descriptions");
        while rest.len() >= 8 {
            let what = half_word(rest, 0);
            let length = half_word(rest, 4) as usize;
            let Some(bytes) = rest[8..].get(..length) else {
                return self.damaged(place, "a description reaches past its end");
            };
            if !self.read_description(what, bytes) {
                let what = format!("description {what} with {length} bytes means nothing");
                self.damaged(place.as_str(), what);
            }
            rest = rest
                .get(8 + length.next_multiple_of(8)..)
                .unwrap_or_default();
        }
    }

    fn read_description(&mut self, what: u32, bytes: &[u8]) -> bool {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match what {
            description::MODULE if bytes.len() >= 24 => self.modules.push(Module {
                start: word(bytes, 0),
                end: word(bytes, 8),
                bias: word(bytes, 16),
                path: text(&bytes[24..]),
            }),
            description::PATH if bytes.len() >= 8 => {
                let addresses = bytes[8..].chunks_exact(8).map(|bytes| word(bytes, 0));
                self.paths.push((word(bytes, 0), addresses.collect()));
            }
            description::NAME if bytes.len() >= 8 => {
                self.names.push((word(bytes, 0), text(&bytes[8..])));
            }
            _ => return false,
        }
        true
    }
}

/// What a block has behind its header.
struct Part<'a> {
    used: u64,
    content: &'a [u8],
}

impl<'a> Part<'a> {
    /// Offsets within a block count from its header, which is not part of the payload.
    fn of(found: &Block<'a>) -> Option<Part<'a>> {
        let content = found.payload.get(block::CONTENT - HEADER_BYTES..)?;
        let used = word(found.payload, block::USED - HEADER_BYTES);
        Some(Part { used, content })
    }
}

impl OpenFrame {
    fn read(bytes: &[u8]) -> OpenFrame {
        OpenFrame {
            construct: word(bytes, frame::CONSTRUCT),
            begin: word(bytes, frame::BEGIN),
            nested: word(bytes, frame::NESTED),
            waited: word(bytes, frame::WAITED),
        }
    }
}

fn read_span(bytes: &[u8]) -> Span {
    Span {
        construct: word(bytes, span::CONSTRUCT),
        begin: word(bytes, span::BEGIN),
        end: word(bytes, span::END),
        wait: word(bytes, span::WAIT),
    }
}

fn word(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(word)
}

fn half_word(bytes: &[u8], offset: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(word)
}
