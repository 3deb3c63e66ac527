//! Does the order of a trace explain every value that the program saw?
//!
//! A trace with values (recorded with `--verify`) is replayed, in its order, over a copy of
//! the program's memory. Every read must find what the last write left there. A byte that
//! was never written under observation is learned when it is first read. What the kernel
//! writes, maps and unmaps is forgotten.
//!
//! Shared mappings of one object are one memory. Where another process may have the object, too,
//! a read that this process's writes do not explain says nothing, and is counted as such. The same
//! holds for all memory once the program has queues of requests (`io_uring`, `io_submit`): the
//! kernel writes for them whenever it has something.
//!
//! Where records are missing (the threads of a trace that was cut off end at different times; a
//! chunk is damaged) writes are missing, too. From that time on a read that finds something
//! else says nothing, either.

mod changed_memory;
mod mappings;
mod memory;
mod report;
mod system_calls;

use rustc_hash::{FxHashMap, FxHashSet};
use unspool_events::{
    Access, AccessFlags, AccessKind, Event, Loss, Mapping, MemoryEffect, Module, Order, Problem,
    ProcessEvent, Sink, SyncOperation, Synchronisation, SystemCall, ThreadId, ThreadInfo,
};

use mappings::{Mappings, Place};
use memory::ShadowMemory;
pub use report::{Mismatch, ValueReport, Verdict};
use system_calls::{CallHistory, MappedObject, PendingCall};

/// Mismatches that are kept; further ones are counted only.
const MISMATCHES_KEPT: usize = 1 << 16;

/// Replays values. Takes the events in order of time.
#[derive(Debug)]
pub struct ValueCheck {
    /// After this time writes may be missing.
    complete_until: u64,
    /// Whether accesses of different threads have no order among each other.
    is_coarse: bool,
    /// Whether there have been two threads.
    has_threads: bool,
    /// The threads of which there are records; empty if that is not known.
    threads: FxHashSet<ThreadId>,
    /// How far each thread has been replayed.
    reached: FxHashMap<ThreadId, u64>,
    memory: ShadowMemory,
    mappings: Mappings,
    /// Pages that the kernel writes, and no thread: first byte and bytes of each group (`[vvar]`).
    clock_pages: Vec<(u64, u64)>,
    /// System calls that have not returned.
    calls: FxHashMap<ThreadId, PendingCall>,
    call_history: CallHistory,
    /// Accesses of the last instruction, of which the values may follow.
    waiting: Option<(ThreadId, Vec<Access>)>,
    report: ValueReport,
}

/// How a read compares with what is known.
#[derive(Debug, Default)]
struct Comparison {
    /// All bytes as they should have been.
    expected: Vec<u8>,
    /// Whether one of them was another, where nobody else writes.
    differs: bool,
    /// The same where others may write.
    differs_in_open: bool,
    /// Whether some of it could not be looked at.
    is_foreign: bool,
}

impl ValueCheck {
    /// Starts with nothing known but the threads, which tell until when the trace is complete. Of a
    /// run that goes on they are not known, and none are given: see [`ValueCheck::cut_off`].
    #[must_use]
    pub fn new(threads: &[ThreadInfo]) -> ValueCheck {
        ValueCheck {
            complete_until: end_of_complete(threads),
            is_coarse: false,
            has_threads: false,
            threads: threads.iter().map(|info| info.thread).collect(),
            reached: FxHashMap::default(),
            memory: ShadowMemory::default(),
            mappings: Mappings::default(),
            clock_pages: Vec::new(),
            calls: FxHashMap::default(),
            call_history: CallHistory::default(),
            waiting: None,
            report: ValueReport::default(),
        }
    }

    /// The same for records in this order; unless it is said, it is taken to place every access.
    #[must_use]
    pub fn with_order(mut self, order: Order) -> ValueCheck {
        self.is_coarse = order == Order::Timestamp;
        self
    }

    /// What came of it, given what of the trace could not be read.
    #[must_use]
    pub fn finish(mut self, problems: &[Problem]) -> ValueReport {
        self.settle_waiting();
        self.so_far(problems)
    }

    /// What has come of it until now, given what could not be understood.
    #[must_use]
    pub fn so_far(&self, problems: &[Problem]) -> ValueReport {
        let mut report = self.report.clone();
        // Where these records belong is not known.
        let is_anywhere = |problem: &Problem| {
            matches!(
                problem,
                Problem::UnknownPath { .. } | Problem::BadRecord { .. }
            )
        };
        if problems.iter().any(is_anywhere) {
            report.unexplained_after_loss += std::mem::take(&mut report.mismatch_count);
            report.mismatches.clear();
        }
        report
    }

    /// What the threads were, once they are known: those that were cut off may have written more.
    pub fn cut_off(&mut self, threads: &[ThreadInfo]) {
        self.settle_waiting();
        self.lose_after(end_of_complete(threads));
    }

    /// Reads and writes of the last instruction are unknown: no values followed it.
    fn settle_waiting(&mut self) {
        if let Some((_, accesses)) = self.waiting.take() {
            accesses
                .iter()
                .for_each(|access| self.without_value(access));
        }
    }

    /// Whether an access reads the kernel's clock. No order of threads explains what is there, and
    /// none could be wrong about it.
    fn reads_clock(&self, access: &Access) -> bool {
        let size = u64::from(access.size);
        let mut pages = self.clock_pages.iter();
        access.kind == AccessKind::Read
            && pages.any(|&(first, bytes)| overlap(first, bytes, access.address, size))
    }

    fn without_value(&mut self, access: &Access) {
        self.report.accesses_without_value += 1;
        if access.kind == AccessKind::Write {
            self.forget(access.address, u64::from(access.size));
        }
    }

    fn with_value(&mut self, thread: ThreadId, access: &Access, value: &[u8]) {
        if self.reads_clock(access) {
            self.report.clock_reads += 1;
            return;
        }
        self.report.accesses_with_value += 1;
        let is_foreign = match access.kind {
            AccessKind::Write => self.write(access.address, value),
            AccessKind::Read => self.read(thread, access, value),
        };
        self.report.foreign_accesses += u64::from(is_foreign);
    }

    /// Returns whether some of it is foreign.
    fn write(&mut self, address: u64, value: &[u8]) -> bool {
        let mut is_foreign = false;
        let mut rest = value;
        self.in_places(address, value.len(), |check, place, bytes| {
            let (part, after) = rest.split_at(bytes);
            rest = after;
            match place {
                Place::Own(kept) | Place::Open(kept) => {
                    check.memory.write(kept, part);
                    check.report.bytes_written += bytes as u64;
                }
                Place::Foreign => is_foreign = true,
            }
        });
        is_foreign
    }

    /// Returns whether some of it is foreign.
    fn read(&mut self, thread: ThreadId, access: &Access, value: &[u8]) -> bool {
        let found = self.compare(access.address, value);
        if !(found.differs || found.differs_in_open) {
            return found.is_foreign;
        }
        if access.time > self.complete_until {
            self.report.unexplained_after_loss += 1;
        } else if !found.differs {
            self.report.unexplained_in_open_memory += 1;
        } else if self.is_coarse && self.has_threads {
            self.report.unexplained_between_stamps += 1;
        } else {
            self.mismatch(thread, access, found.expected, value);
        }
        false
    }

    fn compare(&mut self, address: u64, value: &[u8]) -> Comparison {
        let mut found = Comparison::default();
        let mut rest = value;
        self.in_places(address, value.len(), |check, place, bytes| {
            let (part, after) = rest.split_at(bytes);
            rest = after;
            let (kept, is_open) = match place {
                Place::Own(kept) => (kept, false),
                Place::Open(kept) => (kept, true),
                Place::Foreign => {
                    found.is_foreign = true;
                    found.expected.extend_from_slice(part);
                    return;
                }
            };
            let piece = check.memory.compare_and_learn(kept, part);
            check.report.bytes_compared += piece.compared;
            check.report.bytes_learned += bytes as u64 - piece.compared;
            let differs = piece.expected.is_some();
            found.differs |= differs && !is_open;
            found.differs_in_open |= differs && is_open;
            let expected = piece.expected.as_deref().unwrap_or(part);
            found.expected.extend_from_slice(expected);
        });
        found
    }

    /// Calls `act` for each place where bytes of a range are kept, with their number.
    fn in_places(
        &mut self,
        address: u64,
        size: usize,
        mut act: impl FnMut(&mut ValueCheck, Place, usize),
    ) {
        if self.mappings.is_plain(address, size as u64) {
            return act(self, self.mappings.plain(address), size);
        }
        for (place, bytes) in self.mappings.places(address, size as u64) {
            act(self, place, bytes as usize);
        }
    }

    fn mismatch(&mut self, thread: ThreadId, access: &Access, expected: Vec<u8>, seen: &[u8]) {
        self.report.mismatch_count += 1;
        if self.report.mismatches.len() < MISMATCHES_KEPT {
            self.report.mismatches.push(Mismatch {
                time: access.time,
                thread: thread.0,
                pc: access.pc,
                address: access.address,
                atomic: access.flags.contains(AccessFlags::ATOMIC),
                expected,
                seen: seen.to_vec(),
            });
        }
    }
}

/// The time until which every thread has its records.
fn end_of_complete(threads: &[ThreadInfo]) -> u64 {
    let cut_off = threads.iter().filter(|thread| !thread.finished);
    let ends = cut_off.map(|thread| thread.end_time);
    ends.min().unwrap_or(u64::MAX)
}

/// Whether two ranges have a byte in common.
fn overlap(first: u64, first_size: u64, second: u64, second_size: u64) -> bool {
    second.wrapping_sub(first) < first_size || first.wrapping_sub(second) < second_size
}

impl Sink for ValueCheck {
    fn module(&mut self, module: &Module) {
        if module.path.starts_with(b"[vvar") {
            self.clock_pages.push((module.base, module.size));
        }
    }

    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        self.settle_waiting();
        if let Some(last) = batch.last() {
            self.reached.insert(thread, last.time);
        }
        let complete = batch.partition_point(|access| access.time <= self.complete_until);
        self.report.accesses_after_loss += (batch.len() - complete) as u64;
        let last_instruction = batch
            .iter()
            .rposition(|access| access.flags.contains(AccessFlags::FIRST))
            .unwrap_or(0);
        let (before, last) = batch.split_at(last_instruction);
        before.iter().for_each(|access| self.without_value(access));
        self.waiting = Some((thread, last.to_vec()));
    }

    fn event(&mut self, thread: ThreadId, time: u64, event: &Event) {
        self.settle_waiting();
        match *event {
            Event::MemoryEffect(MemoryEffect {
                write: true,
                address,
                size,
            }) => self.kernel_wrote(thread, address, size),
            Event::SystemCall(SystemCall::Entry { number, arguments }) => {
                let call = PendingCall {
                    number,
                    arguments,
                    mismatches_before: self.report.mismatches.len(),
                    mapped: None,
                };
                if let Some(effect) = call.effect_at_entry() {
                    self.apply(effect);
                }
                if call.reaches_objects() {
                    self.mappings.open_all();
                }
                if call.queues_requests() {
                    self.mappings.open_everything();
                }
                self.calls.insert(thread, call);
            }
            Event::Mapping(Mapping::Shared {
                address,
                size,
                device,
                inode,
                offset,
                own,
            }) => {
                let mapped = MappedObject {
                    address,
                    size,
                    identity: (device, inode),
                    offset,
                    own,
                };
                match self.calls.get_mut(&thread) {
                    Some(call) => call.mapped = Some(mapped),
                    None => self.map_object(mapped),
                }
            }
            Event::SystemCall(SystemCall::Exit { number, result }) => {
                self.system_call_returns(thread, number, result);
            }
            Event::Process(ProcessEvent::Fork { .. }) => self.mappings.open_all(),
            Event::Synchronisation(Synchronisation {
                operation: SyncOperation::ThreadCreate,
                object,
            }) => self.thread_created(object, time),
            // The kernel clears the word that joiners wait for.
            Event::Synchronisation(Synchronisation {
                operation: SyncOperation::ThreadExit,
                object,
            }) => self.forget(object, 4),
            Event::Loss(Loss { .. }) => self.lost(thread, time),
            _ => {}
        }
        self.reached.insert(thread, time);
    }

    fn values(&mut self, thread: ThreadId, accesses: &[Access], values: &[&[u8]]) {
        match &self.waiting {
            Some((waiting, _)) if *waiting == thread => self.waiting = None,
            _ => self.settle_waiting(),
        }
        for (index, access) in accesses.iter().enumerate() {
            match values.get(index) {
                Some(value) if !value.is_empty() => self.with_value(thread, access, value),
                _ => self.without_value(access),
            }
        }
    }
}

#[cfg(test)]
mod tests;
