//! Verify mode: the values of accesses, so that an order can be checked by replaying them.
//!
//! What an instruction reads is taken before it, what it writes behind it. Of a repeated string
//! instruction it is known only behind it how far it came: what it has read is taken there, too,
//! unless it writes; then its source is copied before, in case that both overlap. Such an
//! instruction is executed in chunks, so the copy is small.

use unspool_code_cache::cache::Exit;
use unspool_events::AccessKind;
use unspool_events::raw::{MAX_PATH_WORDS, MAX_SPECIAL_WORDS, SpecialKind, special_header};
use unspool_events::superblock::{AccessingInstruction, Extent, Operand};
use unspool_kernel::guarded;
use unspool_kernel::lock::Mutex;

use crate::check_sites::CHUNK;
use crate::clean_calls::ValueSite;
use crate::fragments::Repetition;
use crate::slots as trace_slots;
use crate::trace_buffer::TraceBuffer;
use unspool_engine::thread::Thread;

/// The most bytes whose values are recorded of a repeated string instruction that is not executed
/// in chunks, because it counts with 32 bits.
const LARGEST_WHOLE: u64 = 1 << 20;

/// A place in the code where values are taken.
#[derive(Debug, Clone)]
struct ValueCall {
    /// Number of the accessing instruction in its superblock.
    ordinal: usize,
    operands: Vec<Operand>,
    /// Whether the instruction has been executed.
    after: bool,
    /// The instruction transfers control, so this is the last chance; what it pushes.
    pushed: Option<u64>,
    /// Whether it is a repeated string instruction, of which a chunk is executed.
    in_chunks: bool,
}

/// What is kept of an instruction until it has been executed.
#[derive(Debug, Default)]
pub(crate) struct TakenBefore {
    /// The values that it reads.
    words: Vec<u64>,
    /// Of a repeated string instruction that moves.
    source: Option<MovedSource>,
}

/// What the source of a repeated string instruction held, as far as it could be read.
#[derive(Debug)]
struct MovedSource {
    /// In rising order of addresses, whatever the direction.
    bytes: Vec<u8>,
    /// Whether the first element is the last one here.
    downwards: bool,
}

impl MovedSource {
    /// What the first elements held, as many as have so many bytes together.
    fn first(&self, size: usize) -> Option<&[u8]> {
        match self.downwards {
            false => self.bytes.get(..size),
            true => self.bytes.get(self.bytes.len().checked_sub(size)?..),
        }
    }
}

impl ValueCall {
    /// Whether the instruction writes.
    fn moves(&self) -> bool {
        let mut operands = self.operands.iter();
        operands.any(|operand| operand.kind == AccessKind::Write)
    }
}

/// The places where values are taken.
#[derive(Debug, Default)]
pub(crate) struct ValueCalls(Mutex<Vec<ValueCall>>);

impl ValueCalls {
    /// Adds a place.
    pub(crate) fn add(
        &self,
        ordinal: usize,
        instruction: &AccessingInstruction,
        after: bool,
        pushed: Option<u64>,
        in_chunks: bool,
    ) -> ValueSite {
        let mut calls = self.0.lock();
        let site = ValueSite::at(calls.len());
        calls.push(ValueCall {
            ordinal,
            operands: instruction.operands.clone(),
            after,
            pushed,
            in_chunks,
        });
        site
    }

    /// No translation is left that has any.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    fn get(&self, site: ValueSite) -> ValueCall {
        self.0.lock()[site.place()].clone()
    }

    /// Takes values: those read before the instruction, those written after it; then puts a
    /// values record before the record in the making. Says whether the buffer was emptied for that.
    pub(crate) fn serve(
        &self,
        thread: &mut Thread,
        (buffer, taken): (&mut TraceBuffer, &mut TakenBefore),
        (site, exit): (ValueSite, &Exit),
        checks_owners: bool,
    ) -> bool {
        let call = self.get(site);
        let register = exit.binding.buffer();
        let start = thread.register(register);
        if !call.after {
            *taken = take_before(thread, &call, buffer.words_at(start), checks_owners);
        }
        if !call.after && call.pushed.is_none() {
            return false;
        }
        let taken = std::mem::take(taken);
        let moved = insert_values(buffer, taken, start, MAX_PATH_WORDS, &call);
        thread.set_register(register, moved);
        moved < start
    }

    /// A repeated string instruction was left in its middle; what it has done counts. The record of
    /// it starts at `start`. Returns where it starts now.
    pub(crate) fn take_mid_fragment(
        &self,
        buffer: &mut TraceBuffer,
        taken: &mut TakenBefore,
        start: u64,
        repetition: &Repetition,
    ) -> u64 {
        let Some(site) = repetition.values else {
            return start;
        };
        let words = usize::from(repetition.progress.0);
        let taken = std::mem::take(taken);
        insert_values(buffer, taken, start, words, &self.get(site))
    }
}

fn take_before(
    thread: &Thread,
    call: &ValueCall,
    record: &[u64],
    checks_owners: bool,
) -> TakenBefore {
    let mut taken = TakenBefore::default();
    for operand in &call.operands {
        if let Extent::Repeat { before, .. } = operand.extent {
            let rounds = record.get(usize::from(before)).copied().unwrap_or(0);
            let rounds = rounds - rest(thread, call, operand, rounds, checks_owners);
            if call.moves() && operand.kind == AccessKind::Read {
                taken.source = copy_source(thread, operand, record, rounds);
            }
        } else if operand.kind == AccessKind::Read {
            take(&mut taken.words, operand, record);
        }
    }
    taken
}

/// How many rounds of a repeated string instruction are to come behind this chunk. Where owners
/// are checked, that has been decided with the lines that were acquired; else it is here.
fn rest(
    thread: &Thread,
    call: &ValueCall,
    operand: &Operand,
    rounds: u64,
    checks_owners: bool,
) -> u64 {
    if !call.in_chunks {
        return 0;
    }
    let rest = &trace_slots::of(thread.slots()).rest;
    if !checks_owners {
        rest.set(rounds.saturating_sub(CHUNK / u64::from(operand.size)));
    }
    rest.get().min(rounds)
}

/// Copies the source of a repeated string instruction, as far as it can be read.
fn copy_source(
    thread: &Thread,
    operand: &Operand,
    record: &[u64],
    rounds: u64,
) -> Option<MovedSource> {
    const DIRECTION: u64 = 0x400;
    let size = u64::from(operand.size);
    let length = rounds.checked_mul(size).filter(is_recorded)?;
    let address = operand.address_in(record)?;
    let downwards = thread.slots().flags.get() & DIRECTION != 0;
    let mut bytes = vec![0; length as usize];
    if downwards {
        let end = address.wrapping_add(size);
        let read = read_backwards(end, &mut bytes);
        bytes.drain(..bytes.len() - read);
    } else {
        let read = read_onwards(address, &mut bytes);
        bytes.truncate(read);
    }
    Some(MovedSource { bytes, downwards })
}

/// Whether the value of an operand of so many bytes is recorded.
fn is_recorded(length: &u64) -> bool {
    *length <= CHUNK.max(LARGEST_WHOLE)
}

const PAGE: u64 = 4096;

/// Reads from an address on until a page cannot be read. Returns how many bytes were.
fn read_onwards(address: u64, bytes: &mut [u8]) -> usize {
    let mut done = 0;
    while done < bytes.len() {
        let at = address.wrapping_add(done as u64);
        let part = ((PAGE - at % PAGE) as usize).min(bytes.len() - done);
        if !guarded::read(at, &mut bytes[done..done + part]) {
            break;
        }
        done += part;
    }
    done
}

/// The same down from an address, into the end of `bytes`.
fn read_backwards(end: u64, bytes: &mut [u8]) -> usize {
    let mut left = bytes.len();
    while left > 0 {
        let until = end.wrapping_sub((bytes.len() - left) as u64);
        let part = ((until.wrapping_sub(1) % PAGE + 1) as usize).min(left);
        let from = until.wrapping_sub(part as u64);
        if !guarded::read(from, &mut bytes[left - part..left]) {
            break;
        }
        left -= part;
    }
    bytes.len() - left
}

/// Puts the values of an instruction before its record, which has `words` words at most. Returns
/// where the record starts now.
fn insert_values(
    buffer: &mut TraceBuffer,
    taken: TakenBefore,
    start: u64,
    words: usize,
    call: &ValueCall,
) -> u64 {
    let Some(values) = values_of(call, taken, buffer.words_at(start)) else {
        return start;
    };
    let mut records = Vec::with_capacity(values.len() + 1);
    for part in values.chunks(MAX_SPECIAL_WORDS) {
        let header = special_header(SpecialKind::Values, call.ordinal as u64, part.len());
        records.push(header);
        records.extend(part);
    }
    buffer.insert_before(start, words as u64, &records)
}

/// The values of an instruction that has been executed, or is left by way of its last operand.
/// Nothing if they are not known.
fn values_of(call: &ValueCall, taken: TakenBefore, record: &[u64]) -> Option<Vec<u64>> {
    // Reads stand before writes in an instruction's operands.
    let mut values = taken.words;
    for operand in &call.operands {
        match (operand.kind, operand.extent) {
            (AccessKind::Read, Extent::Repeat { .. }) if call.moves() => {
                let source = taken.source.as_ref()?;
                for (_, size) in operand.ranges(record)? {
                    push_bytes(&mut values, source.first(size as usize)?);
                }
            }
            (_, Extent::Repeat { .. }) => {
                let ranges = operand.ranges(record)?;
                let mut sizes = ranges.iter().map(|&(_, size)| u64::from(size));
                if !sizes.all(|size| is_recorded(&size)) {
                    return None;
                }
                take(&mut values, operand, record);
            }
            (AccessKind::Write, _) => match call.pushed {
                Some(pushed) => values.push(pushed),
                None => take(&mut values, operand, record),
            },
            (AccessKind::Read, _) => {}
        }
    }
    Some(values)
}

/// Appends what an operand's memory holds now, each access from a word on.
fn take(values: &mut Vec<u64>, operand: &Operand, record: &[u64]) {
    for (address, size) in operand.ranges(record).unwrap_or_default() {
        let mut bytes = vec![0; size as usize];
        // An operand that cannot be read faults in the program, and its record is never finished.
        let _ = guarded::read(address, &mut bytes);
        push_bytes(values, &bytes);
    }
}

fn push_bytes(values: &mut Vec<u64>, bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks();
    values.extend(whole.iter().map(|&word| u64::from_le_bytes(word)));
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        values.push(u64::from_le_bytes(last));
    }
}
