//! Timers inside the program as a source: a library is loaded into it, whose threads write to slots
//! of a file ([`unspool_sample_slots`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use unspool_profile_record::Counted;
use unspool_sample_slots::{SLOTS, VARIABLE, header, slot, state};

use crate::kernel_record::{KernelRecord, What};
use crate::ring::Ring;
use crate::sampling::Sampling;
use crate::slot_file::SlotFile;
use crate::source::{Read, Source};

/// Between two readings of all slots.
const ROUND: Duration = Duration::from_millis(10);
/// Every so many readings it is looked which threads have gone without a word.
const LOOKED_AFTER: u32 = 50;

/// What the library has left out of a run, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// No process has loaded it.
    pub everything: bool,
    /// Threads that found all slots taken.
    pub without_slot: u64,
    /// Threads for whose samples there was no memory.
    pub without_memory: u64,
    /// Threads for which the kernel made no timer.
    pub without_timer: u64,
    /// Processes in another PID namespace.
    pub elsewhere: u64,
}

/// A slot that is read.
struct Followed {
    pid: u32,
    tid: u32,
    generation: u64,
    ring: Ring,
    /// Of the samples that were taken out.
    weight: u64,
    lost: u64,
}

/// All slots.
pub(crate) struct Timers {
    file: SlotFile,
    period_ns: u64,
    followed: BTreeMap<usize, Followed>,
    has_seen_any: bool,
    counted: Counted,
    rounds: u32,
}

impl Timers {
    /// By timers of this clock.
    pub(crate) fn new(sampling: &Sampling, clock: i32) -> io::Result<Timers> {
        Ok(Timers {
            file: SlotFile::new(sampling, clock)?,
            period_ns: sampling.period_ns(),
            followed: BTreeMap::new(),
            has_seen_any: false,
            counted: Counted::default(),
            rounds: 0,
        })
    }

    /// Tells the library where the file is, in a command and all that it starts.
    pub(crate) fn join(&self, command: &mut Command) {
        let variable = VARIABLE.to_str().expect("ASCII");
        command.env(variable, self.file.path());
    }

    /// What was left out.
    pub(crate) fn left_out(&self) -> LeftOut {
        let count = |place| self.file.word(place).load(Ordering::Acquire);
        LeftOut {
            everything: !self.has_seen_any,
            without_slot: count(header::WITHOUT_SLOT),
            without_memory: count(header::WITHOUT_MEMORY),
            without_timer: count(header::WITHOUT_TIMER),
            elsewhere: count(header::ELSEWHERE),
        }
    }

    /// Follows the slots that are new; gives those whose threads have ended.
    fn look(&mut self, each: &mut dyn FnMut(Read)) -> Vec<usize> {
        let mut ended = Vec::new();
        for number in 0..SLOTS {
            let (stage, pid) = state::parts(self.file.state(number).load(Ordering::Acquire));
            if !matches!(stage, state::USED | state::ENDED) {
                continue;
            }
            if !self.followed.contains_key(&number) {
                // Without memory it is tried again the next time.
                let Ok(ring) = self.file.ring(number) else {
                    continue;
                };
                let new = Followed {
                    pid,
                    tid: u32::try_from(ring.word(slot::TID)).unwrap_or(0),
                    generation: ring.word(slot::GENERATION),
                    ring,
                    weight: 0,
                    lost: 0,
                };
                self.has_seen_any = true;
                // A process that executes another program has no thread of the old one any more.
                let is_gone = |old: &Followed| old.pid == pid && old.generation < new.generation;
                self.release_those(is_gone, each);
                self.followed.insert(number, new);
            }
            if stage == state::ENDED {
                ended.push(number);
            }
        }
        ended
    }

    /// Gives all slots back of which this is true.
    fn release_those(&mut self, is_meant: impl Fn(&Followed) -> bool, each: &mut dyn FnMut(Read)) {
        let meant = self.followed.iter().filter(|(_, slot)| is_meant(slot));
        let meant: Vec<usize> = meant.map(|(number, _)| *number).collect();
        for number in meant {
            self.release(number, each);
        }
    }

    /// Takes the rest out of a slot to which nobody writes, and gives it back.
    fn release(&mut self, number: usize, each: &mut dyn FnMut(Read)) {
        let Some(mut followed) = self.followed.remove(&number) else {
            return;
        };
        followed.take_out(each);
        let expirations = followed.ring.word(slot::EXPIRATIONS);
        let sampled = followed.weight / self.period_ns.max(1);
        let told = sampled.saturating_add(followed.lost);
        if expirations > told {
            // A thread that was ended in the middle of a sample.
            each(Ok(followed.record(What::Lost(expirations - told))));
        }
        let began_ns = followed.ring.word(slot::BEGAN_NS);
        let used_ns = followed.ring.word(slot::LATEST_NS).saturating_sub(began_ns);
        let counted = &mut self.counted;
        // A program can write anything to what it shares.
        for (sum, more) in [
            (&mut counted.expirations, expirations),
            (&mut counted.sampled, sampled),
            (&mut counted.without_room, followed.lost),
            (&mut counted.used_ns, used_ns),
        ] {
            *sum = sum.saturating_add(more);
        }
        self.file
            .state(number)
            .store(state::FREE, Ordering::Release);
    }

    /// What processes with new samples have mapped meanwhile.
    fn mappings(&self) -> BTreeMap<u32, Vec<u8>> {
        let with_samples = self.followed.values().filter(|slot| slot.ring.has_more());
        let processes: BTreeSet<u32> = with_samples.map(|slot| slot.pid).collect();
        let own = self.file.path().as_os_str().as_encoded_bytes();
        let read = |pid| {
            let text = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
            // A process that has begun to execute another program has nothing of ours yet.
            let is_joined = text.windows(own.len()).any(|part| part == own);
            is_joined.then_some((pid, text))
        };
        processes.into_iter().filter_map(read).collect()
    }

    /// Gives slots back whose threads have gone without a word: were killed, or ended with their
    /// process.
    fn look_after(&mut self, each: &mut dyn FnMut(Read)) {
        let exists = |pid: u32, tid: u32| Path::new(&format!("/proc/{pid}/task/{tid}")).exists();
        self.release_those(|slot| !exists(slot.pid, slot.tid), each);
        for number in 0..SLOTS {
            let state = self.file.state(number);
            let (stage, pid) = state::parts(state.load(Ordering::Acquire));
            if stage == state::TAKEN && !exists(pid, pid) {
                state.store(state::FREE, Ordering::Release);
            }
        }
    }
}

impl Followed {
    fn record(&self, what: What) -> KernelRecord {
        KernelRecord {
            time_ns: 0,
            pid: self.pid,
            tid: self.tid,
            what,
        }
    }

    fn take_out(&mut self, each: &mut dyn FnMut(Read)) {
        let weight = &mut self.weight;
        self.ring.drain(|bytes| {
            let Some(read) = KernelRecord::read(bytes).transpose() else {
                return;
            };
            if let Ok(KernelRecord {
                what: What::Sampled(sampled),
                ..
            }) = &read
            {
                *weight = weight.saturating_add(sampled.weight);
            }
            each(read);
        });
        let lost = self.ring.word(slot::LOST);
        if lost > self.lost {
            each(Ok(self.record(What::Lost(lost - self.lost))));
            self.lost = lost;
        }
    }
}

impl Source for Timers {
    fn wait(&self) {
        std::thread::sleep(ROUND);
    }

    fn drain(&mut self, each: &mut dyn FnMut(Read)) {
        let ended = self.look(each);
        let mut mappings = self.mappings();
        let mut first_ns: BTreeMap<u32, u64> = BTreeMap::new();
        let mut noted = |read: Read| {
            if let Ok(record) = &read {
                match record.what {
                    // What was read may be of the program before it.
                    What::Named {
                        is_execution: true, ..
                    } => {
                        mappings.remove(&record.pid);
                    }
                    What::Sampled(_) => {
                        let first = first_ns.entry(record.pid).or_insert(record.time_ns);
                        *first = record.time_ns.min(*first);
                    }
                    _ => {}
                }
            }
            each(read);
        };
        for followed in self.followed.values_mut() {
            followed.take_out(&mut noted);
        }
        for number in ended {
            self.release(number, &mut noted);
        }
        self.rounds += 1;
        if self.rounds.is_multiple_of(LOOKED_AFTER) {
            self.look_after(&mut noted);
        }
        for (pid, text) in mappings {
            if let Some(&time_ns) = first_ns.get(&pid) {
                each(Ok(KernelRecord {
                    time_ns,
                    pid,
                    tid: pid,
                    what: What::Mappings(text),
                }));
            }
        }
    }

    fn finish(&mut self, each: &mut dyn FnMut(Read)) -> Option<Counted> {
        self.release_those(|_| true, each);
        let left_out = self.left_out();
        // A program can write anything to what it shares.
        self.counted.threads_left_out = [left_out.without_memory, left_out.without_timer]
            .into_iter()
            .fold(left_out.without_slot, u64::saturating_add);
        Some(self.counted)
    }
}

#[cfg(test)]
mod tests;
