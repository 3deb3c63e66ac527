//! From bytes to [`ProcessRecord`].

use crate::Kind;
use crate::layout::{
    self, BLOCK_BYTES, BLOCK_HEADER_BYTES, HEADER_BYTES, NONE, block, construct, entry, frame,
    header, runtime, span, thread,
};
use crate::process::{ClockKind, Construct, Module, Problem, ProcessRecord, Runtimes, Span};

/// Why a file cannot be read at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is something else.
    #[error("this is no record of an OpenMP program")]
    NotARecord,
    /// It was written by another version.
    #[error(
        "the record has version {found}, and this command reads version {}",
        layout::VERSION
    )]
    UnknownVersion {
        /// The version found.
        found: u64,
    },
}

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
        if bytes.len() < HEADER_BYTES || word(bytes, header::MAGIC) != layout::MAGIC {
            return Err(ReadError::NotARecord);
        }
        let version = word(bytes, header::VERSION);
        if version != layout::VERSION {
            return Err(ReadError::UnknownVersion { found: version });
        }
        let mut record = read_header(bytes);
        if !record.ended {
            record.extend_to(end_ns);
            record.problems.push(Problem::EndedAbruptly);
        }
        let mut threads: Vec<Vec<OpenFrame>> = Vec::new();
        let blocks = word(bytes, header::BLOCKS);
        let present = (bytes.len() - HEADER_BYTES) / BLOCK_BYTES;
        if blocks > present as u64 {
            record.damaged(
                "header",
                format!("{blocks} blocks are counted, {present} are there"),
            );
        }
        let content = &bytes[HEADER_BYTES..];
        for (number, block) in content.chunks_exact(BLOCK_BYTES).enumerate() {
            if number as u64 >= blocks {
                break;
            }
            record.read_block(number as u64, block, &mut threads);
        }
        for frames in &threads {
            record.close(frames);
        }
        record.drop_orphans();
        Ok(record)
    }

    /// Moves the end of a process that could not say when it ended.
    fn extend_to(&mut self, end_ns: Option<u64>) {
        let Some(end_ns) = end_ns.filter(|end| *end > self.last_ns) else {
            return;
        };
        let more_ns = end_ns - self.last_ns;
        let more = match (self.clock, self.duration_ns()) {
            (ClockKind::Monotonic, _) | (_, 0) => more_ns,
            (ClockKind::Processor, duration) => {
                let ticks = self.last_ticks.saturating_sub(self.start_ticks);
                (more_ns as f64 * (ticks as f64 / duration as f64)) as u64
            }
        };
        self.last_ns = end_ns;
        self.last_ticks = self.last_ticks.saturating_add(more);
    }

    fn damaged(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.problems.push(Problem::Damaged {
            place: place.into(),
            what: what.into(),
        });
    }

    fn read_block(&mut self, number: u64, bytes: &[u8], threads: &mut Vec<Vec<OpenFrame>>) {
        let place = || format!("block {number}");
        let used = word(bytes, block::USED);
        let owner = word(bytes, block::OWNER);
        match word(bytes, block::KIND) {
            // Counted, but its owner had not come to use it.
            0 => {}
            block::THREAD => {
                // Where more are open than there is room for, the innermost are not known.
                let open = usize::try_from(used)
                    .unwrap_or(usize::MAX)
                    .min(thread::FRAME_LIMIT);
                let records = bytes[thread::FRAMES..]
                    .chunks_exact(frame::BYTES)
                    .take(open);
                let frames = records.map(|bytes| OpenFrame {
                    construct: word(bytes, frame::CONSTRUCT),
                    begin: word(bytes, frame::BEGIN),
                    nested: word(bytes, frame::NESTED),
                    waited: word(bytes, frame::WAITED),
                });
                threads.push(frames.collect());
            }
            block::CONSTRUCTS => {
                let limit = construct::IN_BLOCK as u64;
                if used > limit {
                    self.damaged(
                        place(),
                        format!("{used} constructs where {limit} have room"),
                    );
                }
                let records = bytes[BLOCK_HEADER_BYTES..].chunks_exact(construct::BYTES);
                for (index, bytes) in records.take(used.min(limit) as usize).enumerate() {
                    self.read_construct((number << 16) | index as u64, owner, bytes);
                }
            }
            block::ENTRIES => {
                let room = (BLOCK_BYTES - BLOCK_HEADER_BYTES) as u64;
                if used > room {
                    self.damaged(
                        place(),
                        format!("{used} bytes of entries where {room} have room"),
                    );
                }
                let end = BLOCK_HEADER_BYTES + used.min(room) as usize;
                self.read_entries(number, &bytes[BLOCK_HEADER_BYTES..end]);
            }
            block::SPANS => {
                let limit = span::IN_BLOCK as u64;
                if used > limit {
                    self.damaged(place(), format!("{used} spans where {limit} have room"));
                }
                let records = bytes[BLOCK_HEADER_BYTES..].chunks_exact(span::BYTES);
                self.spans
                    .extend(records.take(used.min(limit) as usize).map(|bytes| Span {
                        construct: word(bytes, span::CONSTRUCT),
                        begin: word(bytes, span::BEGIN),
                        end: word(bytes, span::END),
                        wait: word(bytes, span::WAIT),
                    }));
            }
            unknown => self.damaged(place(), format!("unknown kind {unknown}")),
        }
    }

    fn read_construct(&mut self, number: u64, thread: u64, bytes: &[u8]) {
        let kind = word(bytes, construct::KIND);
        if kind == 0 {
            // The process ended while the record was being made: nothing was counted yet.
            return;
        }
        let Some(kind) = u32::try_from(kind).ok().and_then(Kind::from_number) else {
            self.damaged(
                format!("construct {number:#x}"),
                format!("unknown kind {kind}"),
            );
            return;
        };
        let parent = word(bytes, construct::PARENT);
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
            startup: word(bytes, construct::STARTUP),
            team: word(bytes, construct::TEAM),
            last_arrivals: word(bytes, construct::LAST_ARRIVALS),
            path_total: word(bytes, construct::PATH_TOTAL),
            path_wait: word(bytes, construct::PATH_WAIT),
            last_wait: word(bytes, construct::LAST_WAIT),
            iterations: word(bytes, construct::ITERATIONS),
            place: word(bytes, construct::PLACE),
            path: word(bytes, construct::PATH),
        });
    }

    fn read_entries(&mut self, number: u64, mut rest: &[u8]) {
        while rest.len() >= 8 {
            let what = half_word(rest, 0);
            let length = half_word(rest, 4) as usize;
            let Some(bytes) = rest[8..].get(..length) else {
                self.damaged(format!("block {number}"), "an entry reaches past its end");
                return;
            };
            if !self.read_entry(what, bytes) {
                self.damaged(
                    format!("block {number}"),
                    format!("an entry of kind {what} with {length} bytes means nothing"),
                );
            }
            rest = rest.get(8 + length.next_multiple_of(8)..).unwrap_or(&[]);
        }
    }

    fn read_entry(&mut self, what: u32, bytes: &[u8]) -> bool {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match what {
            entry::MODULE if bytes.len() >= 24 => self.modules.push(Module {
                start: word(bytes, 0),
                end: word(bytes, 8),
                bias: word(bytes, 16),
                path: text(&bytes[24..]),
            }),
            entry::ARGUMENTS => {
                let words = bytes
                    .strip_suffix(&[0])
                    .unwrap_or(bytes)
                    .split(|byte| *byte == 0);
                self.arguments = words.map(text).collect();
            }
            entry::PATH if bytes.len() >= 8 => {
                let addresses = bytes[8..].chunks_exact(8).map(|bytes| word(bytes, 0));
                self.paths.push((word(bytes, 0), addresses.collect()));
            }
            entry::NAME if bytes.len() >= 8 => self.names.push((word(bytes, 0), text(&bytes[8..]))),
            _ => return false,
        }
        true
    }

    /// Leaves, at the last moment, what a thread had not left.
    fn close(&mut self, frames: &[OpenFrame]) {
        let end = self.last_ticks;
        let mut unknown = 0;
        let mut inner = 0;
        for open in frames.iter().rev() {
            let total = end.saturating_sub(open.begin);
            let elsewhere = open
                .nested
                .saturating_add(open.waited)
                .saturating_add(inner);
            inner = total;
            let found = self
                .constructs
                .binary_search_by_key(&open.construct, |one| one.number);
            let Ok(index) = found else {
                unknown += 1;
                continue;
            };
            let own = total.saturating_sub(elsewhere);
            let one = &mut self.constructs[index];
            one.count = one.count.saturating_add(1);
            one.total = one.total.saturating_add(total);
            one.own = one.own.saturating_add(own);
            one.longest = one.longest.max(total);
            one.own_longest = one.own_longest.max(own);
        }
        if unknown > 0 {
            self.damaged(
                "threads",
                format!("{unknown} open constructs are not described"),
            );
        }
    }

    /// The construct with this number.
    #[must_use]
    pub fn find(&self, number: u64) -> Option<&Construct> {
        let index = self
            .constructs
            .binary_search_by_key(&number, |one| one.number);
        index.ok().map(|index| &self.constructs[index])
    }

    /// Lets constructs whose parent is damaged stand alone; breaks circles of parents.
    fn drop_orphans(&mut self) {
        let mut orphans = Vec::new();
        for (index, one) in self.constructs.iter().enumerate() {
            // A parent is made before its children of the same thread, so that its number is
            // the smaller one: no circle can pass this.
            let sound = one
                .parent
                .is_none_or(|parent| parent < one.number && self.find(parent).is_some());
            if !sound {
                orphans.push(index);
            }
        }
        if !orphans.is_empty() {
            self.damaged(
                "constructs",
                format!("{} have no sound parent", orphans.len()),
            );
        }
        for index in orphans {
            self.constructs[index].parent = None;
        }
    }
}

fn read_header(bytes: &[u8]) -> ProcessRecord {
    let at = |offset| word(bytes, offset);
    let runtimes = at(header::RUNTIMES);
    let mut record = ProcessRecord {
        process: at(header::PROCESS),
        parent: at(header::PARENT),
        start_ns: at(header::START_NS),
        last_ns: at(header::LAST_NS),
        start_ticks: at(header::START_TICKS),
        last_ticks: at(header::LAST_TICKS),
        clock: match at(header::CLOCK) {
            0 => ClockKind::Processor,
            _ => ClockKind::Monotonic,
        },
        ended: at(header::ENDED) == 1,
        peak_threads: at(header::PEAK_THREADS),
        processors: at(header::PROCESSORS),
        runtimes: Runtimes {
            gomp: runtimes & runtime::GOMP != 0,
            ompt: runtimes & runtime::OMPT != 0,
            mpi: runtimes & runtime::MPI != 0,
        },
        rank: at(header::RANK).checked_sub(1),
        ranks: at(header::RANKS),
        cancelled: at(header::CANCELLED),
        ..ProcessRecord::default()
    };
    let counted = [
        (
            at(header::WITHOUT_ROOM),
            Problem::WithoutRoom as fn(u64) -> Problem,
        ),
        (at(header::TOO_DEEP), Problem::TooDeep),
        (at(header::UNMATCHED), Problem::Unmatched),
    ];
    for (count, problem) in counted {
        if count > 0 {
            record.problems.push(problem(count));
        }
    }
    record
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

#[cfg(test)]
mod tests;
