//! Which accesses nothing orders: vector clocks of threads and of the words by which they
//! synchronise, and records of accesses in shadow memory.
//!
//! The interface is batches of accesses by one thread, and what threads do between them. Nothing is
//! gone over twice: each call is about the thread that it names, and what it shares with others.

mod executions;
mod runs;

use smallvec::SmallVec;
use unspool_events::{Access, AccessFlags, AccessKind, ThreadId};

use super::cell::{Bytes, Record};
use super::clock::VectorClock;
use super::findings::{Circumstances, Findings, Meeting, Moment};
use super::known::Known;
use super::plans::Plans;
use super::program_parts::{PartKind, Parts};
use super::shadow::{Page, Shadow, parts};
use super::sites::{Origin, SiteId, Sites};
use super::threads::{NoSlot, Thread, Threads};
use super::words::Words;
use crate::call_paths::{CallPaths, ContextId, Follower};
use crate::heap::Heap;

/// What carries order besides words of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    /// Pipes, sockets and their like.
    Descriptors,
    /// Signals.
    Signals,
}

/// Which kinds of synchronisation are left out: for tests, which must notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blindness {
    /// Nothing is left out.
    None,
    /// Locked instructions, and plain accesses to the words that they touch.
    Words,
    /// That a thread begins behind its creation.
    Creation,
    /// That a thread's end is announced.
    Ends,
    /// Pipes, sockets and their like.
    Descriptors,
    /// Signals.
    Signals,
}

/// Finds races.
#[derive(Debug)]
pub(super) struct Detector {
    pub(super) threads: Threads,
    shadow: Shadow,
    pub(super) words: Words,
    channels: [VectorClock; 2],
    pub(super) sites: Sites,
    plans: Plans,
    pub(super) findings: Findings,
    pub(super) heap: Heap,
    /// What threads execute for OpenMP: each is a thread here.
    pub(super) parts: Parts,
    /// How many threads the process has had, or has created.
    threads_known: u32,
    moment: Moment,
    blindness: Blindness,
    most_bytes: usize,
    /// Accesses after which memory is measured again.
    next_measurement: u64,
    /// How often all was forgotten for want of memory.
    pub(super) forgotten: u64,
    /// How often it was for want of slots.
    pub(super) begun_anew: u64,
    /// Accesses that were checked.
    pub(super) checked: u64,
}

/// Accesses between two looks at how much memory there is.
const BETWEEN_MEASUREMENTS: u64 = 1 << 20;

/// What late edges may take of the memory: one part of so many.
const SHARE_OF_EDGES: usize = 8;
/// The same of blocks of the heap.
const SHARE_OF_BLOCKS: usize = 8;

/// An access to be checked.
#[derive(Debug, Clone, Copy)]
struct Checked {
    origin: Origin,
    context: ContextId,
    address: u64,
    size: u64,
    is_write: bool,
    time: u64,
}

/// What else looks at accesses of instructions while they are checked.
pub(super) trait Watch {
    /// Whether it does now.
    fn looks(&self) -> bool;

    /// An instruction accesses memory.
    fn access(&mut self, access: &Access, site: SiteId, sites: &Sites, heap: &mut Heap);
}

/// Nothing does.
impl Watch for () {
    #[inline]
    fn looks(&self) -> bool {
        false
    }

    fn access(&mut self, _: &Access, _: SiteId, _: &Sites, _: &mut Heap) {}
}

impl Detector {
    pub(super) fn new(most_bytes: u64, blindness: Blindness) -> Detector {
        let most_bytes = usize::try_from(most_bytes).unwrap_or(usize::MAX);
        Detector {
            threads: Threads::default(),
            shadow: Shadow::default(),
            words: Words::default(),
            channels: Default::default(),
            sites: Sites::default(),
            plans: Plans::default(),
            findings: Findings::new(most_bytes / SHARE_OF_EDGES),
            heap: Heap::new(most_bytes / SHARE_OF_BLOCKS),
            parts: Parts::default(),
            threads_known: 0,
            moment: Moment {
                generation: 0,
                number: 0,
            },
            blindness,
            most_bytes,
            next_measurement: BETWEEN_MEASUREMENTS,
            forgotten: 0,
            begun_anew: 0,
            checked: 0,
        }
    }

    /// Accesses of one thread that follow each other, or of a part that it executes.
    pub(super) fn accesses(
        &mut self,
        (thread, id): (ThreadId, ThreadId),
        batch: &[Access],
        paths: &mut CallPaths,
        watch: &mut impl Watch,
    ) {
        let mut path = paths.thread(thread);
        self.follow(id, batch, &mut path, watch);
        if let Some(last) = batch.last() {
            path.is_at(last.pc);
        }
        self.stay_in_bounds();
    }

    fn follow(
        &mut self,
        id: ThreadId,
        batch: &[Access],
        path: &mut Follower<'_>,
        watch: &mut impl Watch,
    ) {
        let mut rest = batch;
        while let [access, after @ ..] = rest {
            let is_atomic = access.flags.contains(AccessFlags::ATOMIC);
            let is_alone = self.is_alone();
            if !is_atomic && !is_alone {
                let ordinary = self.ordinary(id, rest, path, watch);
                if ordinary != 0 {
                    rest = &rest[ordinary..];
                    continue;
                }
            }
            if watch.looks() {
                let (origin, size) = (Origin::Instruction(access.pc), access.size.into());
                let site = self.sites.number(origin, size, path.context());
                watch.access(access, site, &self.sites, &mut self.heap);
            }
            if is_atomic {
                self.atomic(id, access);
            } else if !is_alone {
                self.plain(
                    id,
                    Checked {
                        origin: Origin::Instruction(access.pc),
                        context: path.context(),
                        address: access.address,
                        size: u64::from(access.size),
                        is_write: access.kind == AccessKind::Write,
                        time: access.time,
                    },
                );
            }
            path.access(access);
            rest = after;
        }
    }

    /// The kernel accesses memory for a thread, in the system call with this number.
    pub(super) fn kernel_accesses(
        &mut self,
        id: ThreadId,
        (call, context): (u32, ContextId),
        is_write: bool,
        (address, size): (u64, u64),
        time: u64,
    ) {
        if !self.is_alone() {
            let origin = Origin::SystemCall(call);
            self.plain(
                id,
                Checked {
                    origin,
                    context,
                    address,
                    size,
                    is_write,
                    time,
                },
            );
        }
    }

    /// A locked instruction reads or writes.
    fn atomic(&mut self, id: ThreadId, access: &Access) {
        if self.blindness == Blindness::Words {
            return;
        }
        self.moment.number += 1;
        let is_write = access.kind == AccessKind::Write;
        if is_write && access.flags.contains(AccessFlags::FAILED_CAS) {
            return;
        }
        for (cell, bytes) in parts(access.address, u64::from(access.size)) {
            self.learn(cell, bytes);
            let Some(thread) = self.threads.get(id) else {
                return;
            };
            for part in self.words.parts(cell, bytes) {
                match is_write {
                    true => part.clock.join(&thread.clock),
                    false => thread.clock.join(&part.clock),
                }
            }
        }
        match is_write {
            true => self.threads.is_told(id),
            false => self.has_learnt(),
        }
    }

    /// Threads synchronise by this word.
    pub(super) fn learn_word(&mut self, address: u64, size: u64) {
        if self.blindness != Blindness::Words {
            for (cell, bytes) in parts(address, size) {
                self.learn(cell, bytes);
            }
        }
    }

    fn learn(&mut self, cell: u64, bytes: Bytes) {
        let (page, splits) = self.shadow.page(cell);
        let has_exactly = |words: &mut Words| words.parts(cell, bytes).all(|p| p.bytes == bytes);
        if page.is_synchronising(cell)
            && self.words.bytes_of(cell) & bytes == bytes
            && has_exactly(&mut self.words)
        {
            return;
        }
        page.set_synchronising(cell, true);
        let before = page.cells[Page::cell(cell)].forget(bytes, splits);
        let part = self.words.add(cell, bytes);
        // Who has stored there may have done so to be seen: what it had done by then is known to
        // whoever reads that, and nothing of what it did next.
        for record in before.iter().filter(|record| record.is_write()) {
            let (slot, last) = (record.epoch.slot(), record.epoch.clock());
            let mut known = self.threads.clock_of(slot).cloned().unwrap_or_default();
            known.set(slot, last);
            part.clock.join(&known);
            self.threads.is_told(self.threads.owner(record.epoch));
        }
    }

    /// As many of the accesses as lie in one page each, touch no word that threads synchronise by,
    /// and begin no epoch: that is most of them. Returns how many.
    fn ordinary(
        &mut self,
        id: ThreadId,
        batch: &[Access],
        path: &mut Follower<'_>,
        watch: &mut impl Watch,
    ) -> usize {
        let Some(thread) = self.threads.get(id).filter(|thread| !thread.is_told) else {
            return 0;
        };
        let epoch = thread.epoch();
        let mut met: SmallVec<[(u64, Record, Record); 2]> = SmallVec::new();
        let mut done = 0;
        for access in batch {
            let (address, size) = (access.address, u64::from(access.size));
            let is_write = access.kind == AccessKind::Write;
            if access.flags.contains(AccessFlags::ATOMIC) || !Page::holds(address, size) {
                break;
            }
            let (page, splits) = self.shadow.page(address);
            if page.has_synchronising(address, size) {
                break;
            }
            let origin = Origin::Instruction(access.pc);
            let site = self.sites.number(origin, size, path.context());
            if is_write && self.sites.will_stand_apart(site) {
                break;
            }
            for (cell, bytes) in parts(address, size) {
                let new = Record::new(epoch, bytes, is_write, site);
                let mut conflict = |first| met.push((cell, first, new));
                let records = &mut page.cells[Page::cell(cell)];
                records.access(new, &thread.clock, splits, &mut conflict);
            }
            watch.access(access, site, &self.sites, &mut self.heap);
            path.access(access);
            done += 1;
            if !met.is_empty() {
                break;
            }
        }
        self.moment.number += done as u64;
        self.checked += done as u64;
        if let Some(access) = batch[..done].last() {
            for (cell, first, second) in met {
                let origin = Origin::Instruction(access.pc);
                self.meet(id, (origin, access.time), cell, first, second);
            }
        }
        done
    }

    /// An access that is not locked.
    fn plain(&mut self, id: ThreadId, access: Checked) {
        self.leave_told_epoch(id);
        let Some(thread) = self.threads.get(id) else {
            return;
        };
        self.moment.number += 1;
        self.checked += 1;
        let site = self
            .sites
            .number(access.origin, access.size, access.context);
        let epoch = thread.epoch();
        let mut met: SmallVec<[(u64, Record, Record); 2]> = SmallVec::new();
        let mut synchronised = false;
        for (cell, bytes) in parts(access.address, access.size) {
            let (page, splits) = self.shadow.page(cell);
            let mut bytes = bytes;
            if page.is_synchronising(cell) {
                synchronised |= meet_words(&mut self.words, thread, cell, bytes, access.is_write);
                bytes &= !self.words.bytes_of(cell);
                if bytes == 0 {
                    continue;
                }
            }
            let new = Record::new(epoch, bytes, access.is_write, site);
            let mut conflict = |first| met.push((cell, first, new));
            let cell = &mut page.cells[Page::cell(cell)];
            cell.access(new, &thread.clock, splits, &mut conflict);
        }
        for (cell, first, second) in met {
            self.meet(id, (access.origin, access.time), cell, first, second);
        }
        if access.is_write && (synchronised || self.sites.stands_apart(site)) {
            self.threads.is_told(id);
        } else if synchronised {
            self.has_learnt();
        }
    }

    /// Nothing orders two accesses.
    fn meet(
        &mut self,
        id: ThreadId,
        (origin, time): (Origin, u64),
        cell: u64,
        first: Record,
        second: Record,
    ) {
        let first_thread = self.threads.owner(first.epoch);
        if self.parts.keep_apart(first_thread, id, cell) {
            return;
        }
        let Some(thread) = self.threads.get(id) else {
            return;
        };
        let clock = thread.clock.clone();
        let writer = self.threads.clock_of(first.epoch.slot());
        // What the kernel does in a call is known when it returns. Who has learnt of the call
        // meanwhile came later.
        let is_of_kernel = matches!(origin, Origin::SystemCall(_));
        if is_of_kernel && writer.is_some_and(|clock| clock.covers(second.epoch)) {
            return;
        }
        let meeting = Meeting {
            cell,
            first,
            first_thread,
            second,
            second_thread: id,
            clock: &clock,
            time,
            moment: self.moment,
        };
        let is_read = first.is_write() && !second.is_write();
        if is_read && meeting.suspect().may_be_atomic(&self.sites) {
            let nothing = VectorClock::default();
            self.findings
                .add_late_edge(&meeting, writer.unwrap_or(&nothing));
        }
        let (threads, heap) = (&self.threads, &mut self.heap);
        self.findings.add(&meeting, &self.sites, || Circumstances {
            block: heap.tell(meeting.suspect().address()),
            locks: [first, second].map(|by| threads.locks_in(by.epoch).cloned()),
        });
        if second.is_write() {
            // If the word turns out to be one that threads synchronise by, this store has told what
            // came before it, and nothing of what comes.
            self.threads.is_told(id);
        }
    }

    /// A thread of the process begins, or is created.
    pub(super) fn knows_thread(&mut self) {
        self.threads_known = self.threads_known.saturating_add(1);
    }

    /// Whether nobody is there whom an access could meet. Where the process has one thread, parts of
    /// its program meet nobody, either: the C library leaves out its locks there.
    fn is_alone(&self) -> bool {
        self.threads_known < 2 || self.threads.is_alone()
    }

    /// A thread is created.
    pub(super) fn create(&mut self, creator: ThreadId, child: ThreadId) {
        self.threads.create(creator, child);
        if self.blindness == Blindness::Creation {
            self.threads.create(ThreadId(u32::MAX), child);
        }
        self.threads.is_told(creator);
    }

    /// A thread begins.
    pub(super) fn start(&mut self, id: ThreadId, parent: Option<ThreadId>) {
        let parent = parent.filter(|_| self.blindness != Blindness::Creation);
        if let Err(NoSlot) = self.threads.start(id, parent) {
            self.begin_anew();
            // All slots but those of running threads are free now.
            let _ = self.threads.start(id, parent);
        }
    }

    /// A thread's end is announced by this word.
    pub(super) fn announce_end(&mut self, id: ThreadId, word: u64) {
        const SIZE: u64 = 4;
        if word == 0 || self.blindness == Blindness::Ends {
            return;
        }
        self.learn_word(word, SIZE);
        self.release_word(id, word, SIZE);
    }

    /// What the thread has done is known to whoever reads this word.
    pub(super) fn release_word(&mut self, id: ThreadId, address: u64, size: u64) {
        if let Some(thread) = self.threads.get(id) {
            for (cell, bytes) in parts(address, size) {
                for part in self.words.parts(cell, bytes) {
                    part.clock.join(&thread.clock);
                }
            }
        }
        self.threads.is_told(id);
    }

    /// The thread knows what whoever released this word had done.
    pub(super) fn acquire_word(&mut self, id: ThreadId, address: u64, size: u64) {
        if let Some(thread) = self.threads.get(id) {
            for (cell, bytes) in parts(address, size) {
                for part in self.words.parts(cell, bytes) {
                    thread.clock.join(&part.clock);
                }
            }
        }
        self.has_learnt();
    }

    /// A part of the program begins in a thread, behind what is known there.
    pub(super) fn begin_part(
        &mut self,
        id: ThreadId,
        kind: PartKind,
        place: (ThreadId, u64),
        maker: (ThreadId, ContextId),
        after: &[Known],
    ) {
        self.parts.begin(id, kind, place, maker);
        let mut clock = VectorClock::default();
        for known in after {
            known.add_to(self.moment.generation, &mut clock);
        }
        self.threads.create_behind(id, clock);
        self.start(id, None);
    }

    /// A part has ended: what it has done is known there.
    pub(super) fn end_part(&mut self, id: ThreadId, into: &[Known]) {
        for known in into {
            self.release_to(id, known);
        }
        self.parts.end(id);
        self.end(id);
    }

    /// What the thread has done is known there.
    pub(super) fn release_to(&mut self, id: ThreadId, known: &Known) {
        if let Some(thread) = self.threads.get(id) {
            known.add(self.moment.generation, &thread.clock);
        }
        self.threads.is_told(id);
    }

    /// The thread knows what is known there.
    pub(super) fn acquire_from(&mut self, id: ThreadId, known: &Known) {
        if let Some(thread) = self.threads.get(id) {
            known.add_to(self.moment.generation, &mut thread.clock);
        }
        self.has_learnt();
    }

    /// A thread has ended.
    pub(super) fn end(&mut self, id: ThreadId) {
        self.threads.end(id);
    }

    /// What the thread has done is known to whoever gets something through the channel. What it
    /// does until [`Detector::is_told`] still belongs to that.
    pub(super) fn give(&mut self, id: ThreadId, channel: Channel) {
        if self.is_blind_to(channel) {
            return;
        }
        self.leave_told_epoch(id);
        if let Some(thread) = self.threads.get(id) {
            self.channels[channel as usize].join(&thread.clock);
        }
    }

    /// The thread has got something through the channel.
    pub(super) fn take(&mut self, id: ThreadId, channel: Channel) {
        if let Some(thread) = self.threads.get(id) {
            thread.clock.join(&self.channels[channel as usize]);
        }
        self.has_learnt();
    }

    fn is_blind_to(&self, channel: Channel) -> bool {
        match channel {
            Channel::Descriptors => self.blindness == Blindness::Descriptors,
            Channel::Signals => self.blindness == Blindness::Signals,
        }
    }

    /// The thread begins its next epoch if others may have been told of this one.
    #[inline]
    fn leave_told_epoch(&mut self, id: ThreadId) {
        let is_told = |thread: &mut Thread| thread.is_told;
        if self.threads.get(id).is_some_and(is_told) && self.threads.advance(id).is_err() {
            self.begin_anew();
        }
    }

    /// What the thread does from now on is not in what others have been told.
    pub(super) fn is_told(&mut self, id: ThreadId) {
        self.threads.is_told(id);
    }

    fn has_learnt(&mut self) {
        if self.threads.is_last() {
            self.threads.look_whether_alone();
        }
    }

    /// The memory of a range is other memory now.
    pub(super) fn forget(&mut self, address: u64, size: u64) {
        let words = &mut self.words;
        self.shadow
            .forget(address, size, |cell, bytes| words.remove(cell, bytes) != 0);
    }

    /// Forgets who accessed what where that has grown too large.
    fn stay_in_bounds(&mut self) {
        if self.moment.number < self.next_measurement {
            return;
        }
        self.next_measurement = self.moment.number + BETWEEN_MEASUREMENTS;
        let bytes = self.shadow.bytes() + self.words.bytes() + self.findings.bytes();
        if bytes > self.most_bytes {
            self.forgotten += 1;
            self.shadow.forget_all();
        }
    }

    /// All slots are taken: nothing that came before is known any more.
    fn begin_anew(&mut self) {
        self.begun_anew += 1;
        self.moment.generation += 1;
        self.shadow.forget_all();
        self.words.forget_clocks();
        self.channels = Default::default();
        self.threads.begin_anew();
    }
}

/// A plain access to a cell by which threads synchronise. Returns whether it meets their words.
fn meet_words(
    words: &mut Words,
    thread: &mut Thread,
    cell: u64,
    bytes: Bytes,
    is_write: bool,
) -> bool {
    let mut meets = false;
    for part in words.parts(cell, bytes) {
        meets = true;
        match is_write {
            // Whoever reads this value learns of this thread alone.
            true if part.bytes & !bytes == 0 => part.clock.become_copy_of(&thread.clock),
            true => part.clock.join(&thread.clock),
            false => thread.clock.join(&part.clock),
        }
    }
    meets
}
