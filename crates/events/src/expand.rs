//! From the raw records of one thread to accesses and events with times.

use std::borrow::Borrow;
use std::ops::Range;
use std::sync::Arc;

use crate::batch::Batch;
use crate::clock::Clock;
use crate::event::{Event, InstructionEvent};
use crate::id::{PathId, ThreadId};
use crate::operand::{MissingWord, address_from, count_accesses, expand_instruction};
use crate::paths::{AccessingCode, BorrowedPath, Instruction, KnownPath, OwnedPath, PathTable};
use crate::problem::Problem;
use crate::raw::{Header, SpecialKind};
use crate::streams::{EventKind, Streams};
use crate::superblock::{CacheControl, Extent};
use unspool_container::Order;

/// Expands the records of one thread, in order.
#[derive(Debug)]
pub(crate) struct Expander {
    clock: Clock,
    /// Values for the next record.
    values: Vec<ValueRecord>,
    value_words: Vec<u64>,
    /// Whether executions of plain code are kept as they are.
    keeps_executions: bool,
    unknown_paths: u64,
    bad_records: u64,
}

/// What a values record says of the next record.
#[derive(Debug)]
struct ValueRecord {
    /// The number of the instruction.
    instruction: u64,
    /// Of which of its accesses there are values.
    of: ValuesOf,
    /// Which of the words they are.
    words: Range<usize>,
}

/// Of which accesses of an instruction a record has the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValuesOf {
    /// Of all.
    All,
    /// Of those whose extent is known from the code.
    Plain,
}

/// What the header of a record says, with its path looked up: what records with the same
/// header share. Owns its path or borrows it: counting the references of paths would be a
/// cost for observed threads.
#[derive(Debug, Clone)]
pub(crate) enum RecordKind<Known> {
    /// A path, or the first instructions of one.
    Path {
        /// The path.
        path: Known,
        /// How many of its accessing instructions were completed.
        instructions: usize,
    },
    /// An event.
    Event(EventKind),
    /// A stamp for this instruction of the next record.
    Stamp(u64),
    /// Values of this instruction of the next record.
    Values(u64, ValuesOf),
    /// No superblock has the path.
    UnknownPath,
    /// This version does not know the kind, or it contradicts its superblock.
    Unknown,
}

impl<'table> RecordKind<BorrowedPath<'table>> {
    /// Looks up what a header means.
    pub(crate) fn new(header: u64, paths: &'table PathTable, streams: &Streams) -> Self {
        match Header::decode(header) {
            Header::Path { .. } if !streams.reads_accesses() => RecordKind::Unknown,
            Header::Path { path, .. } => {
                paths
                    .get(path)
                    .map_or(RecordKind::UnknownPath, |path| RecordKind::Path {
                        instructions: path.accessing,
                        path,
                    })
            }
            Header::Special {
                kind: Some(kind),
                argument,
                ..
            } => match kind {
                SpecialKind::Event => RecordKind::Event(streams.event_kind(argument)),
                SpecialKind::Stamp => RecordKind::Stamp(argument),
                SpecialKind::Values => RecordKind::Values(argument, ValuesOf::All),
                SpecialKind::PlainValues => RecordKind::Values(argument, ValuesOf::Plain),
                SpecialKind::Partial => {
                    let instructions = (argument >> 24) as usize;
                    match paths.get(PathId(argument as u32 & 0xff_ffff)) {
                        None => RecordKind::UnknownPath,
                        Some(path) if instructions > path.code.accessing_instructions() => {
                            RecordKind::Unknown
                        }
                        Some(path) => RecordKind::Path { path, instructions },
                    }
                }
            },
            Header::Special { kind: None, .. } => RecordKind::Unknown,
        }
    }
}

impl RecordKind<BorrowedPath<'_>> {
    /// The same, without a borrowed path.
    pub(crate) fn into_owned(self) -> RecordKind<OwnedPath> {
        match self {
            RecordKind::Path { path, instructions } => RecordKind::Path {
                path: path.to_owned(),
                instructions,
            },
            RecordKind::Event(kind) => RecordKind::Event(kind),
            RecordKind::Stamp(instruction) => RecordKind::Stamp(instruction),
            RecordKind::Values(instruction, of) => RecordKind::Values(instruction, of),
            RecordKind::UnknownPath => RecordKind::UnknownPath,
            RecordKind::Unknown => RecordKind::Unknown,
        }
    }
}

impl Expander {
    /// Starts a thread at time 0.
    pub(crate) fn new(order: Order) -> Expander {
        Expander {
            clock: Clock::new(order, 0),
            values: Vec::new(),
            value_words: Vec::new(),
            keeps_executions: false,
            unknown_paths: 0,
            bad_records: 0,
        }
    }

    /// Continues at another place, where the thread's time is this.
    pub(crate) fn restart(&mut self, time: u64) {
        self.clock.reset(time);
        self.forget_values();
    }

    /// From now on executions of plain code are kept as they are, or they are not.
    pub(crate) fn keep_executions(&mut self, keeps: bool) {
        self.keeps_executions = keeps;
    }

    /// Appends what a record means to the batch.
    #[inline]
    pub(crate) fn expand(
        &mut self,
        kind: &RecordKind<OwnedPath>,
        words: &[u64],
        batch: &mut Batch,
    ) {
        match kind {
            RecordKind::Path { path, instructions } => {
                self.expand_path(path, *instructions, words, batch);
            }
            RecordKind::Event(kind) => {
                let time = self.clock.event();
                self.forget_values();
                match *kind {
                    EventKind::PassedOver(stream) => batch.push_passed_over(time, stream),
                    EventKind::Unknown => self.bad_records += 1,
                    EventKind::Of(stream, kind) => match Event::decode(stream, kind, words) {
                        Ok(event) => batch.push_event(time, event),
                        Err(_) => self.bad_records += 1,
                    },
                }
            }
            RecordKind::Stamp(instruction) => match words {
                [time] => self.clock.stamp(*instruction, *time),
                _ => self.bad_records += 1,
            },
            RecordKind::Values(instruction, of) => self.add_values(*instruction, *of, words),
            RecordKind::UnknownPath => {
                self.unknown_paths += 1;
                batch.note_dependence();
                self.clock.end_of_path(0);
                self.forget_values();
            }
            RecordKind::Unknown => self.bad_records += 1,
        }
    }

    /// Keeps values until their record comes. What does not fit into one record of values is
    /// continued in the next.
    fn add_values(&mut self, instruction: u64, of: ValuesOf, words: &[u64]) {
        let start = self.value_words.len();
        self.value_words.extend_from_slice(words);
        let end = self.value_words.len();
        match self.values.last_mut() {
            Some(last) if last.instruction == instruction && last.of == of => last.words.end = end,
            _ => self.values.push(ValueRecord {
                instruction,
                of,
                words: start..end,
            }),
        }
    }

    #[inline]
    fn expand_path(&mut self, path: &OwnedPath, count: usize, words: &[u64], batch: &mut Batch) {
        let code = &*path.code;
        let is_stamped = self.clock.has_stamps();
        let careful = is_stamped || !self.values.is_empty();
        if self.keeps_executions
            && !careful
            && count > 0
            && let Some(needed) = code.plain_words(count)
            && needed <= words.len()
        {
            batch.push_execution(&path.code, count, self.clock.time(), words);
            self.clock.pass(count as u64);
            return;
        }
        let mut complete = true;
        for (index, instruction) in code.instructions()[..count].iter().enumerate() {
            if is_stamped && self.clock.is_stamped(index) {
                batch.note_dependence();
            }
            let time = self.clock.instruction(index, instruction.ticket_in(words));
            if complete {
                complete = push_events(instruction, words, time, batch).is_ok();
            }
            let first_access = batch.accesses.len();
            if complete {
                complete =
                    expand_instruction(code, instruction, words, time, &mut batch.accesses).is_ok();
                if careful && complete && !self.values.is_empty() {
                    self.attach_values(path, index, words, first_access, time, batch);
                }
            }
        }
        if is_stamped && self.clock.is_stamped_behind(count) {
            batch.note_dependence();
        }
        self.clock.end_of_path(count);
        if careful {
            self.forget_values();
        }
        self.bad_records += u64::from(!complete);
    }

    /// Gives the accesses of instruction `index`, the last ones of the batch, their values.
    fn attach_values(
        &mut self,
        path: &OwnedPath,
        index: usize,
        words: &[u64],
        first_access: usize,
        time: u64,
        batch: &mut Batch,
    ) {
        if first_access == batch.accesses.len() {
            return;
        }
        let mut records = self.values.iter();
        let Some(record) = records.find(|record| record.instruction == index as u64) else {
            return;
        };
        let sizes = match record.of {
            ValuesOf::Plain => plain_sizes(path, index, words),
            ValuesOf::All => {
                let accesses = &batch.accesses[first_access..];
                accesses.iter().map(|access| access.size as usize).collect()
            }
        };
        let values = &self.value_words[record.words.clone()];
        batch.push_values(time, first_access, &sizes, values);
    }

    fn forget_values(&mut self) {
        self.values.clear();
        self.value_words.clear();
    }

    /// What could not be understood so far.
    pub(crate) fn problems(&self, thread: ThreadId) -> impl Iterator<Item = Problem> {
        let unknown = Problem::UnknownPath {
            thread,
            records: self.unknown_paths,
        };
        let bad = Problem::BadRecord {
            thread,
            records: self.bad_records,
        };
        let unknown = (self.unknown_paths > 0).then_some(unknown);
        unknown
            .into_iter()
            .chain((self.bad_records > 0).then_some(bad))
    }
}

/// Moves the clock of a thread over a record, as expanding it does.
pub(crate) fn keep_time<AnyCode: Borrow<Arc<AccessingCode>>>(
    kind: &RecordKind<KnownPath<AnyCode>>,
    words: &[u64],
    clock: &mut Clock,
) {
    match kind {
        RecordKind::Path { path, instructions } => {
            let code: &AccessingCode = path.code.borrow();
            if clock.has_stamps() || code.has_tickets() {
                for index in 0..*instructions {
                    clock.instruction(index, code.ticket_in(index, words));
                }
                clock.end_of_path(*instructions);
            } else {
                clock.pass(*instructions as u64);
            }
        }
        RecordKind::Event(_) => {
            clock.event();
        }
        RecordKind::Stamp(instruction) => {
            if let [time] = words {
                clock.stamp(*instruction, *time);
            }
        }
        RecordKind::UnknownPath => clock.end_of_path(0),
        RecordKind::Values(..) | RecordKind::Unknown => {}
    }
}

/// Appends what an instruction is beside its accesses.
#[inline]
fn push_events(
    instruction: &Instruction,
    words: &[u64],
    time: u64,
    batch: &mut Batch,
) -> Result<(), MissingWord> {
    let pc = instruction.pc;
    if let Some(size) = instruction.fetched {
        batch.push_event(time, InstructionEvent::Fetch { pc, size }.into());
    }
    let event = match instruction.cache_control {
        None => return Ok(()),
        Some(CacheControl::Fence(fence)) => InstructionEvent::Fence { fence, pc },
        Some(CacheControl::Line { operation, address }) => InstructionEvent::CacheLine {
            operation,
            pc,
            address: address_from(address, words)?,
        },
    };
    batch.push_event(time, event.into());
    Ok(())
}

/// The bytes of each access of an instruction whose extent is known from the code; 0 of the
/// other ones.
fn plain_sizes(path: &OwnedPath, instruction: usize, words: &[u64]) -> Vec<usize> {
    let mut sizes = Vec::new();
    for operand in path.code.operands(&path.code.instructions()[instruction]) {
        if operand.extent == Extent::Plain {
            sizes.push(operand.size as usize);
        } else {
            let accesses = count_accesses(operand, words).unwrap_or(0);
            sizes.resize(sizes.len() + accesses, 0);
        }
    }
    sizes
}
