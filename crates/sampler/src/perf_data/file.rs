//! The format of `perf.data`, as far as samples need it, read from bytes that may say anything.
//!
//! Source: `tools/perf/Documentation/perf.data-file-format.txt` and `include/uapi/linux/perf_event.h` of
//! Linux.

mod compressed;
mod parts;

use std::collections::HashMap;

use unspool_container::bytes::{ByteReader, Malformed};

use self::compressed::{Compressed, is_compressed};
pub(super) use self::parts::is_perf_data;
use self::parts::{BUILD_IDS, COMMAND_LINE, FIRST_OF_PERF, Parts, record};
use crate::kernel_record::{
    KernelRecord, LOST, MMAP2, SAMPLE, Sampled, What, is_in_kernel, registers, text,
};

/// Kinds of records beside those that [`KernelRecord`] knows.
const MMAP: u32 = 1;

/// Bits of an attribute's flags.
const EXCLUDES_KERNEL: u64 = 1 << 5;
const IS_FREQUENCY: u64 = 1 << 10;
const ALL_HAVE_IDS: u64 = 1 << 18;

/// Bits of what a sample has.
const IP: u64 = 1;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDRESS: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const BRANCHES: u64 = 1 << 11;
const REGISTERS: u64 = 1 << 12;
const STACK: u64 = 1 << 13;
const IDENTIFIER: u64 = 1 << 16;

/// Bits of what a read value has, and of branches.
const ENABLED: u64 = 1;
const RUNNING: u64 = 1 << 1;
const READ_ID: u64 = 1 << 2;
const GROUP: u64 = 1 << 3;
const READ_LOST: u64 = 1 << 4;
const BRANCH_INDEX: u64 = 1 << 17;

/// In a call chain, what follows is of the program; and marks of other kinds are greater than this.
const OF_PROGRAM: u64 = -512_i64 as u64;
const MARKS: u64 = -4096_i64 as u64;

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PerfDataError {
    /// It does not begin as such a file.
    #[error("it is no file of perf record")]
    NotPerfData,
    /// Its header lies about its parts.
    #[error("its header is damaged")]
    Damaged,
    /// Nothing in it stands for time.
    #[error("its samples ({0}) do not stand for time")]
    NoTime(String),
    /// What event a sample is of, or when and of which thread it was taken, is not told.
    #[error("its samples do not tell their event, thread and time")]
    Unnamed,
    /// What is made of it cannot be written.
    #[error("what is read of it cannot be written")]
    Write,
}

/// An event, and what its records look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    kind: u32,
    number: u64,
    /// Events, or samples in a second.
    period: u64,
    fields: u64,
    read_format: u64,
    flags: u64,
    branch_fields: u64,
    registers: u64,
    pub(super) stack_bytes: u32,
    ids: Vec<u64>,
}

impl Event {
    fn read(bytes: &[u8], ids: &[u8]) -> Event {
        let word = |offset: usize| -> u64 {
            let word = bytes.get(offset..offset + 8);
            word.and_then(|word| word.try_into().ok())
                .map_or(0, u64::from_le_bytes)
        };
        let (ids, _) = ids.as_chunks();
        Event {
            kind: word(0) as u32,
            number: word(8),
            period: word(16),
            fields: word(24),
            read_format: word(32),
            flags: word(40),
            branch_fields: word(72),
            registers: word(80),
            stack_bytes: word(88) as u32,
            ids: ids.iter().map(|&id| u64::from_le_bytes(id)).collect(),
        }
    }

    /// The time that a sample stands for, where it has not said how often the event has come; none
    /// where samples stand for no time. Samples of a clock do, and those of cycles that are taken so many
    /// times in a second.
    pub(super) fn period_ns(&self) -> Option<u64> {
        let is_frequency = self.flags & IS_FREQUENCY != 0;
        let of_frequency = 1_000_000_000 / self.period.max(1);
        match (self.kind, self.number, is_frequency) {
            (1, 0 | 1, false) => Some(self.period),
            (1, 0 | 1, true) | (0, 0, true) => Some(of_frequency),
            _ => None,
        }
    }

    /// Whether its own count is time in nanoseconds.
    fn counts_time(&self) -> bool {
        matches!((self.kind, self.number), (1, 0 | 1))
    }

    pub(super) fn includes_kernel(&self) -> bool {
        self.flags & EXCLUDES_KERNEL == 0
    }

    /// What it is called where it is nothing better.
    fn name(&self) -> String {
        format!("type {}, number {}", self.kind, self.number)
    }
}

/// Where samples of several events have the identifier of theirs: at the start, or where all have the same
/// fields, among those.
fn id_offset(events: &[Event]) -> Option<usize> {
    if events.iter().all(|event| event.fields & IDENTIFIER != 0) {
        return Some(0);
    }
    let fields = events.first()?.fields;
    let is_same = events.iter().all(|event| event.fields == fields);
    let before = fields & (IP | TID | TIME | ADDRESS);
    (is_same && fields & ID != 0).then_some(8 * before.count_ones() as usize)
}

/// What a file says.
#[derive(Debug)]
pub(super) struct PerfData {
    /// What was typed.
    pub(super) command: Vec<Vec<u8>>,
    /// The event whose samples are taken.
    pub(super) event: Event,
    /// Build identifiers of files, by their paths.
    pub(super) build_ids: HashMap<Vec<u8>, Vec<u8>>,
    /// By time.
    pub(super) records: Vec<KernelRecord>,
    /// Samples of other events.
    pub(super) other_samples: u64,
    /// Whether there is more that cannot be read.
    pub(super) is_cut_off: bool,
}

impl PerfData {
    pub(super) fn read(file: &[u8]) -> Result<PerfData, PerfDataError> {
        let parts = Parts::of(file)?;
        let attributes = parts.attributes.iter();
        let events: Vec<Event> = attributes.map(|(it, ids)| Event::read(it, ids)).collect();
        if events.is_empty() {
            return Err(PerfDataError::Damaged);
        }
        let event = events.iter().find(|event| event.period_ns().is_some());
        let Some(event) = event.cloned() else {
            let names: Vec<String> = events.iter().map(Event::name).collect();
            return Err(PerfDataError::NoTime(names.join("; ")));
        };
        let has_thread = |event: &Event| event.fields & (TID | TIME) == TID | TIME;
        if !events.iter().all(has_thread) || (events.len() > 1 && id_offset(&events).is_none()) {
            return Err(PerfDataError::Unnamed);
        }
        let mut read = PerfData {
            command: Vec::new(),
            event,
            build_ids: HashMap::new(),
            records: Vec::new(),
            other_samples: 0,
            is_cut_off: parts.is_cut_off,
        };
        for (number, bytes) in parts.features {
            read.read_feature(number, bytes);
        }
        read.read_records(parts.records, &events);
        read.records.sort_by_key(KernelRecord::order);
        Ok(read)
    }

    /// What perf says beside the records. What is damaged there is left out: samples do not need it.
    fn read_feature(&mut self, number: u32, bytes: &[u8]) {
        let mut reader = ByteReader::new(bytes);
        let _ = match number {
            COMMAND_LINE => self.read_command(&mut reader),
            BUILD_IDS => self.read_build_ids(&mut reader),
            _ => Ok(()),
        };
    }

    fn read_command(&mut self, reader: &mut ByteReader<'_>) -> Result<(), Malformed> {
        for _ in 0..reader.u32()? {
            let length = reader.u32()? as usize;
            self.command.push(text(reader.take(length)?));
        }
        Ok(())
    }

    fn read_build_ids(&mut self, reader: &mut ByteReader<'_>) -> Result<(), Malformed> {
        while reader.remaining() > 0 {
            let _kind = reader.u32()?;
            let _bits = reader.u16()?;
            let length = usize::from(reader.u16()?);
            let mut body = ByteReader::new(reader.take(length.checked_sub(8).ok_or(Malformed)?)?);
            let _pid = body.u32()?;
            let id = body.take(24)?;
            let length = match id[20] {
                length @ 1..=20 => usize::from(length),
                _ => 20,
            };
            let path = text(body.take(body.remaining())?);
            self.build_ids.insert(path, id[..length].to_vec());
        }
        Ok(())
    }

    /// What is damaged ends what is read.
    fn read_records(&mut self, bytes: &[u8], events: &[Event]) {
        let mut compressed = None;
        let read = self.read_all(bytes, events, &mut compressed);
        let is_begun = compressed.is_some_and(|it: Compressed| it.is_cut_off());
        self.is_cut_off |= read.is_err() || is_begun;
    }

    fn read_all(
        &mut self,
        bytes: &[u8],
        events: &[Event],
        compressed: &mut Option<Compressed>,
    ) -> Result<(), Malformed> {
        let mut reader = ByteReader::new(bytes);
        while reader.remaining() > 0 {
            let (kind, bits, body) = record(&mut reader)?;
            if !is_compressed(kind) {
                self.take(kind, bits, body, events);
                continue;
            }
            let compressed = match compressed {
                Some(begun) => begun,
                None => compressed.insert(Compressed::new()?),
            };
            let records = compressed.unpack(kind, body)?;
            let mut reader = ByteReader::new(&records);
            while reader.remaining() > 0 {
                let (kind, bits, body) = record(&mut reader)?;
                self.take(kind, bits, body, events);
            }
        }
        Ok(())
    }

    /// Takes a record; one that makes no sense is lost.
    fn take(&mut self, kind: u32, bits: u16, body: &[u8], events: &[Event]) {
        if kind < FIRST_OF_PERF && self.read_record(kind, bits, body, events).is_err() {
            self.records.push(KernelRecord {
                time_ns: 0,
                pid: 0,
                tid: 0,
                what: What::Lost(1),
            });
        }
    }

    fn read_record(
        &mut self,
        kind: u32,
        bits: u16,
        body: &[u8],
        events: &[Event],
    ) -> Result<(), Malformed> {
        if kind == SAMPLE {
            let event = match events {
                [event] => event,
                events => {
                    let mut id = ByteReader::new(body);
                    id.take(id_offset(events).ok_or(Malformed)?)?;
                    let id = id.u64()?;
                    let of_id = |event: &&Event| event.ids.contains(&id);
                    events.iter().find(of_id).ok_or(Malformed)?
                }
            };
            match *event == self.event {
                true => self.records.push(sample(event, bits, body)?),
                false => self.other_samples += 1,
            }
            return Ok(());
        }
        // Behind all others stands whose they are, and when.
        let fields = events[0].fields;
        let behind = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER];
        let has_trailer = events[0].flags & ALL_HAVE_IDS != 0;
        let trailer = match has_trailer {
            true => behind.iter().filter(|field| fields & **field != 0).count() * 8,
            false => 0,
        };
        let end = body.len().checked_sub(trailer).ok_or(Malformed)?;
        let (body, trailer) = body.split_at(end);
        let mut trailer = ByteReader::new(trailer);
        let (pid, tid, time_ns) = match has_trailer {
            true => (trailer.u32()?, trailer.u32()?, trailer.u64()?),
            false => (0, 0, 0),
        };
        let what = match kind {
            MMAP if bits & IS_DATA != 0 => None,
            MMAP => mapped(&mut ByteReader::new(body))?,
            _ if kind == MMAP2 && bits & HAS_BUILD_ID != 0 => {
                let id = body.get(32..56).ok_or(Malformed)?;
                let length = usize::from(id[0]);
                let id = id.get(4..4 + length).ok_or(Malformed)?.to_vec();
                let path = text(body.get(64..).ok_or(Malformed)?);
                self.build_ids.insert(path, id);
                KernelRecord::what(kind, bits, (pid, tid), body)?
            }
            LOST => {
                let mut body = ByteReader::new(body);
                body.u64()?;
                Some((pid, tid, What::Lost(body.u64()?)))
            }
            _ => KernelRecord::what(kind, bits, (pid, tid), body)?,
        };
        if let Some((pid, tid, what)) = what {
            // What was there before has no time, and the kernel's own code no process.
            if pid != u32::MAX {
                self.records.push(KernelRecord {
                    time_ns,
                    pid,
                    tid,
                    what,
                });
            }
        }
        Ok(())
    }
}

/// A record of code that is mapped has the file's build identifier.
const HAS_BUILD_ID: u16 = 1 << 14;
/// A record of memory that is mapped is of data.
const IS_DATA: u16 = 1 << 13;

/// Code that is mapped, in the older form, which is of code unless it says otherwise.
fn mapped(body: &mut ByteReader<'_>) -> Result<Option<(u32, u32, What)>, Malformed> {
    let (pid, tid) = (body.u32()?, body.u32()?);
    let (start, length, offset) = (body.u64()?, body.u64()?, body.u64()?);
    let path = text(body.take(body.remaining())?);
    let what = What::Mapped {
        start,
        length,
        offset,
        path,
    };
    Ok(Some((pid, tid, what)))
}

fn sample(event: &Event, bits: u16, body: &[u8]) -> Result<KernelRecord, Malformed> {
    let mut reader = ByteReader::new(body);
    let has = |field: u64| event.fields & field != 0;
    let word = |field: u64, reader: &mut ByteReader<'_>| match has(field) {
        true => reader.u64().map(Some),
        false => Ok(None),
    };
    word(IDENTIFIER, &mut reader)?;
    let ip = word(IP, &mut reader)?;
    let (pid, tid) = (reader.u32()?, reader.u32()?);
    let time_ns = reader.u64()?;
    for field in [ADDRESS, ID, STREAM_ID, CPU] {
        word(field, &mut reader)?;
    }
    let counted = word(PERIOD, &mut reader)?;
    if has(READ) {
        skip_read(event.read_format, &mut reader)?;
    }
    let is_in_kernel = is_in_kernel(bits);
    let mut frames = Vec::new();
    if has(CALLCHAIN) {
        let count = reader.u64()?;
        let mut is_of_program = false;
        for _ in 0..count {
            match reader.u64()? {
                OF_PROGRAM => is_of_program = true,
                MARKS.. => is_of_program = false,
                address if is_of_program => frames.push(address),
                _ => {}
            }
        }
    }
    if has(RAW) {
        let length = reader.u32()? as usize;
        reader.take(length)?;
    }
    if has(BRANCHES) {
        let count = reader.u64()?;
        if event.branch_fields & BRANCH_INDEX != 0 {
            reader.u64()?;
        }
        let bytes = count.checked_mul(24).ok_or(Malformed)?;
        reader.take(usize::try_from(bytes).map_err(|_| Malformed)?)?;
    }
    let mut found = None;
    if has(REGISTERS) && reader.u64()? != 0 {
        found = Some(registers(event.registers, &mut reader)?);
    }
    let (mut stack, mut room) = (&[][..], 0);
    if has(STACK) {
        room = usize::try_from(reader.u64()?).map_err(|_| Malformed)?;
        stack = reader.take(room)?;
        if room > 0 {
            let filled = usize::try_from(reader.u64()?).map_err(|_| Malformed)?;
            stack = stack.get(..filled).ok_or(Malformed)?;
        }
    }
    if frames.is_empty() && found.is_none() && !is_in_kernel {
        frames.extend(ip);
    }
    if found.is_some() && !stack.is_empty() {
        // The chain is the kernel's guess by frame pointers.
        frames.clear();
    }
    let period_ns = event.period_ns().unwrap_or(0);
    Ok(KernelRecord {
        time_ns,
        pid,
        tid,
        what: What::Sampled(Sampled {
            is_in_kernel,
            weight: counted.filter(|_| event.counts_time()).unwrap_or(period_ns),
            is_cut_off: !stack.is_empty() && stack.len() == room,
            registers: found,
            stack: stack.to_vec(),
            frames,
        }),
    })
}

fn skip_read(format: u64, reader: &mut ByteReader<'_>) -> Result<(), Malformed> {
    let words = |fields: u64| u64::from((format & fields).count_ones());
    let (times, each) = (words(ENABLED | RUNNING), 1 + words(READ_ID | READ_LOST));
    let count = match format & GROUP {
        0 => times + each,
        _ => {
            let values = reader.u64()?;
            times + values.checked_mul(each).ok_or(Malformed)?
        }
    };
    let bytes = count.checked_mul(8).ok_or(Malformed)?;
    reader.take(usize::try_from(bytes).map_err(|_| Malformed)?)?;
    Ok(())
}

#[cfg(test)]
mod tests;
