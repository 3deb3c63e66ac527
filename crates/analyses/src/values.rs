//! Does the order of a trace explain every value that the program saw?
//!
//! A trace with values (recorded with `--verify`) is replayed, in its order, over a copy of
//! the program's memory. Every read must find what the last write left there. A byte that
//! was never written under observation is learned when it is first read. What the kernel
//! writes, maps and unmaps is forgotten, and shared mappings, which other processes may
//! write, are not checked.
//!
//! The threads of a trace that was cut off end at different times. After the first of these
//! ends writes are missing, and so nothing is checked any more.

mod memory;
mod ranges;
mod system_calls;

use rustc_hash::FxHashMap;
use serde::Serialize;
use unspool_events::{
    Access, AccessFlags, AccessKind, Event, Module, Sink, SyncOperation, ThreadId, ThreadInfo,
};

use memory::ShadowMemory;
use ranges::Ranges;
use system_calls::{CallHistory, Effect, PendingCall};

/// Mismatches that are kept; further ones are counted only.
const MISMATCHES_KEPT: usize = 1 << 16;

/// The kernel updates the clock pages before its own code page, however many it has.
const CLOCK_PAGES_BYTES: u64 = 16 * 4096;

/// Replays values. Takes the events in order of time.
#[derive(Debug)]
pub struct ValueCheck {
    /// Until when nothing is missing.
    complete_until: u64,
    memory: ShadowMemory,
    /// Memory that others write: it is never checked.
    foreign: Ranges,
    /// System calls that have not returned.
    calls: FxHashMap<ThreadId, PendingCall>,
    call_history: CallHistory,
    /// Accesses of the last instruction, of which the values may follow.
    waiting: Option<(ThreadId, Vec<Access>)>,
    report: ValueReport,
}

/// What the replay came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ValueReport {
    /// Accesses of which the value was recorded.
    pub accesses_with_value: u64,
    /// Accesses of which it was not: what they wrote is unknown afterwards.
    pub accesses_without_value: u64,
    /// Bytes that were written.
    pub bytes_written: u64,
    /// Bytes that were read and compared.
    pub bytes_compared: u64,
    /// Bytes that were read and learned, because nothing was known of them.
    pub bytes_learned: u64,
    /// Bytes that were read from memory that others write.
    pub bytes_not_checked: u64,
    /// Bytes that a system call wrote or unmapped.
    pub bytes_forgotten: u64,
    /// Accesses after the time until which the trace is complete.
    pub accesses_not_checked: u64,
    /// Reads that found something else than the order explains.
    pub mismatch_count: u64,
    /// Reads that did too, while a system call was writing there.
    pub explained_by_system_calls: u64,
    /// The first mismatches.
    pub mismatches: Vec<Mismatch>,
}

impl ValueReport {
    /// Whether the order explains everything.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.mismatch_count == 0
    }
}

/// A read that the order does not explain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// When.
    pub time: u64,
    /// Which thread read.
    pub thread: u32,
    /// By which instruction.
    pub pc: u64,
    /// From where.
    pub address: u64,
    /// Whether the instruction is atomic.
    pub atomic: bool,
    /// The bytes that the replay has there.
    pub expected: Vec<u8>,
    /// The bytes that the program saw.
    pub seen: Vec<u8>,
}

impl ValueCheck {
    /// Starts with nothing known. The modules tell where the kernel's clock pages are; the
    /// threads, until when the trace is complete.
    #[must_use]
    pub fn new(modules: &[Module], threads: &[ThreadInfo]) -> ValueCheck {
        let cut_off = threads.iter().filter(|thread| !thread.finished);
        let mut foreign = Ranges::default();
        for module in modules.iter().filter(|module| module.path == b"[vdso]") {
            foreign.add(
                module.base.saturating_sub(CLOCK_PAGES_BYTES),
                CLOCK_PAGES_BYTES,
            );
        }
        ValueCheck {
            complete_until: cut_off
                .map(|thread| thread.end_time)
                .min()
                .unwrap_or(u64::MAX),
            memory: ShadowMemory::default(),
            foreign,
            calls: FxHashMap::default(),
            call_history: CallHistory::default(),
            waiting: None,
            report: ValueReport::default(),
        }
    }

    /// What came of it.
    #[must_use]
    pub fn finish(mut self) -> ValueReport {
        self.settle_waiting();
        self.report
    }

    /// Reads and writes of the last instruction are unknown: no values followed it.
    fn settle_waiting(&mut self) {
        if let Some((_, accesses)) = self.waiting.take() {
            accesses
                .iter()
                .for_each(|access| self.without_value(access));
        }
    }

    fn without_value(&mut self, access: &Access) {
        self.report.accesses_without_value += 1;
        if access.kind == AccessKind::Write {
            self.memory.forget(access.address, u64::from(access.size));
        }
    }

    fn with_value(&mut self, thread: ThreadId, access: &Access, value: &[u8]) {
        self.report.accesses_with_value += 1;
        let bytes = value.len() as u64;
        if self.foreign.touches(access.address, bytes) {
            self.memory.forget(access.address, bytes);
            self.report.bytes_not_checked += bytes;
            return;
        }
        match access.kind {
            AccessKind::Write => {
                self.memory.write(access.address, value);
                self.report.bytes_written += bytes;
            }
            AccessKind::Read => self.read(thread, access, value),
        }
    }

    fn read(&mut self, thread: ThreadId, access: &Access, value: &[u8]) {
        let found = self.memory.compare_and_learn(access.address, value);
        self.report.bytes_compared += found.compared;
        self.report.bytes_learned += value.len() as u64 - found.compared;
        let Some(expected) = found.expected else {
            return;
        };
        self.report.mismatch_count += 1;
        if self.report.mismatches.len() < MISMATCHES_KEPT {
            self.report.mismatches.push(Mismatch {
                time: access.time,
                thread: thread.0,
                pc: access.pc,
                address: access.address,
                atomic: access.flags.contains(AccessFlags::ATOMIC),
                expected,
                seen: value.to_vec(),
            });
        }
    }

    /// The kernel wrote here at some time since the thread's system call began: what others
    /// saw there meanwhile proves nothing.
    fn kernel_wrote(&mut self, thread: ThreadId, address: u64, size: u64) {
        self.forget(address, size);
        let Some(call) = self.calls.get(&thread) else {
            return;
        };
        let recent = call.mismatches_before.min(self.report.mismatches.len());
        let before = self.report.mismatches.len();
        let mut later = self.report.mismatches.split_off(recent);
        later.retain(|mismatch| {
            !overlap(mismatch.address, mismatch.seen.len() as u64, address, size)
        });
        self.report.mismatches.append(&mut later);
        let explained = (before - self.report.mismatches.len()) as u64;
        self.report.mismatch_count -= explained;
        self.report.explained_by_system_calls += explained;
    }

    fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Forget { address, size } => self.forget(address, size),
            Effect::Private { address, size } => {
                self.foreign.remove(address, size);
                self.forget(address, size);
            }
            Effect::Shared { address, size } => {
                self.foreign.add(address, size);
                self.forget(address, size);
            }
            Effect::Moved {
                from,
                from_size,
                to,
                to_size,
            } => {
                let shared = self.foreign.touches(from, from_size);
                self.apply(Effect::Private {
                    address: from,
                    size: from_size,
                });
                self.apply(match shared {
                    true => Effect::Shared {
                        address: to,
                        size: to_size,
                    },
                    false => Effect::Private {
                        address: to,
                        size: to_size,
                    },
                });
            }
        }
    }

    fn forget(&mut self, address: u64, size: u64) {
        self.memory.forget(address, size);
        self.report.bytes_forgotten = self.report.bytes_forgotten.saturating_add(size);
    }
}

/// Whether two ranges have a byte in common.
fn overlap(first: u64, first_size: u64, second: u64, second_size: u64) -> bool {
    second.wrapping_sub(first) < first_size || first.wrapping_sub(second) < second_size
}

impl Sink for ValueCheck {
    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        self.settle_waiting();
        let checked = batch.partition_point(|access| access.time <= self.complete_until);
        self.report.accesses_not_checked += (batch.len() - checked) as u64;
        let batch = &batch[..checked];
        let last_instruction = batch
            .iter()
            .rposition(|access| access.flags.contains(AccessFlags::FIRST))
            .unwrap_or(0);
        let (before, last) = batch.split_at(last_instruction);
        before.iter().for_each(|access| self.without_value(access));
        self.waiting = Some((thread, last.to_vec()));
    }

    fn event(&mut self, thread: ThreadId, _: u64, event: &Event) {
        self.settle_waiting();
        match event {
            Event::SystemMemory {
                write: true,
                address,
                size,
            } => {
                self.kernel_wrote(thread, *address, *size);
            }
            Event::SystemCallEntry { number, arguments } => {
                let mismatches_before = self.report.mismatches.len();
                let call = PendingCall {
                    number: *number,
                    arguments: *arguments,
                    mismatches_before,
                };
                if let Some(effect) = call.effect_at_entry() {
                    self.apply(effect);
                }
                self.calls.insert(thread, call);
            }
            Event::SystemCallExit { number, result } => {
                if let Some(call) = self.calls.remove(&thread)
                    && call.number == *number
                    && let Some(effect) = call.effect_at_exit(*result, &mut self.call_history)
                {
                    self.apply(effect);
                }
            }
            // The kernel clears the word that joiners wait for.
            Event::Sync {
                operation: SyncOperation::ThreadExit,
                object,
            } => {
                self.apply(Effect::Forget {
                    address: *object,
                    size: 4,
                });
            }
            _ => {}
        }
    }

    fn values(&mut self, thread: ThreadId, accesses: &[Access], values: &[&[u8]]) {
        if accesses
            .first()
            .is_some_and(|access| access.time > self.complete_until)
        {
            return;
        }
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
