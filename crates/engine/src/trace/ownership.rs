//! Line-atomic order at run time: who owns which line, and how ownership moves.
//!
//! The protocol is that of biased ownership with safe points (Bond et al., *Octet*, OOPSLA
//! 2013). Each line has a 32-bit owner word:
//!
//! | word | state |
//! |---|---|
//! | 0 | nobody has touched the line |
//! | t + 1 | exclusive to thread t |
//! | 2³⁰ + t + 1 | in transit to thread t |
//! | 2³² − 1 − e | read-shared since epoch e |
//!
//! A thread that wants another's line marks it *in transit*, then makes sure that the owner
//! has passed a safe point since: it asks (the owner's `poll` slot) and waits until the
//! owner's epoch moves, or finds the owner *safe*, which means out of translated code. The
//! owner publishes its clock at every safe point, and the new owner's clock is set past it.
//! (The clock bounds the times of all the thread's lines, those that it has acquired and
//! not yet accessed included.)
//! A thread that waits is itself safe, so there is no deadlock; if lines were taken from it
//! meanwhile, it leaves its superblock and checks everything anew.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use unspool_events::Event;
use unspool_events::raw::{Header, SpecialKind, special_header};

use super::thread_trace::ThreadTrace;
use super::{Tracer, lock};
use crate::cache::{Exit, FLAGS, Loan};
use crate::layout;
use crate::operands::{MemoryOperand, Shape};
use crate::plan::TracePlan;
use crate::process::Process;
use crate::thread::Thread;
use crate::translate::ownership::CheckSite;

/// Marks services of this module among services.
pub(super) const SERVICE_BIT: u32 = 1 << 31;
const POLL: u32 = SERVICE_BIT | 0x7fff_ffff;

const TRANSIT: u32 = 1 << 30;
const SHARED: u32 = 1 << 31;
/// The most threads that a trace can tell apart.
const MOST_THREADS: u64 = 1 << 20;
const ADDRESS_BITS: u32 = 47;
const SAFE: u64 = 1;
const EPOCH: u64 = 2;
const EPOCH_BITS: u64 = 0xffff_fffe;
const TAKEN: u64 = 1 << 32;

/// How an address leads to its owner word: shifted, then perhaps masked.
#[derive(Debug, Clone, Copy)]
pub struct LineLayout {
    /// log₂ of the bytes of a line.
    pub shift: u8,
    /// The number of owner words minus one, if lines share them.
    pub mask: Option<u32>,
}

/// What a thread shows to the others.
#[repr(C, align(64))]
struct Public {
    /// Bit 0: safe. Bits 1 to 31 count the safe points passed, bits 32 to 63 how often lines
    /// were taken while the thread was safe.
    state: AtomicU64,
    /// The thread's time at its last safe point.
    clock: AtomicU64,
    /// Address of the thread's poll slot; 0 once it has ended.
    poll: AtomicU64,
    /// A time that the thread has to reach before it goes on (`--max-skew`).
    floor: AtomicU64,
}

/// The owners of all lines.
#[derive(Debug)]
pub(super) struct Ownership {
    layout: LineLayout,
    /// Address of the array of [`Public`].
    threads: u64,
    thread_count: AtomicU64,
    /// Whether translated code checks owners: not before there is a second thread.
    checking: AtomicBool,
    /// Read-shared epochs begun.
    epoch: AtomicU32,
    /// Not less than the time of any transition to read-shared.
    shared_clock: AtomicU64,
    /// For a line (hashed): whether its last transfer was for a read.
    read_last: Box<[AtomicU8]>,
    sites: std::sync::Mutex<Vec<CheckSite>>,
    /// For each path, its accessing instructions: address of an array of bytes.
    path_lengths: u64,
}

/// The thread's own view of its time.
#[derive(Debug, Default)]
pub(super) struct Clock {
    /// Up to where the buffer's records have been counted.
    pub(super) counted: u64,
    /// The time after them.
    time: u64,
    /// Stamps that belong to the next record: (accessing instruction, time).
    stamps: Vec<(u64, u64)>,
}

impl Ownership {
    pub(super) fn reserve(plan: &TracePlan) -> std::io::Result<Ownership> {
        const HASHED_WORDS: u64 = 1 << 20;
        const MOST_HASHED_WORDS: u64 = 1 << 24;
        const SMALLEST_DIRECT: u32 = 64;
        let private = libc::PROT_READ | libc::PROT_WRITE;
        let shift = plan.granule.trailing_zeros() as u8;
        let hashed = plan.locks != 0 || plan.granule < SMALLEST_DIRECT;
        let words = if plan.locks == 0 {
            HASHED_WORDS
        } else {
            plan.locks.next_power_of_two()
        };
        let words = words.min(MOST_HASHED_WORDS);
        let low_end = layout::OWNER_WORDS + ((layout::LIBRARY_END >> 6) << 2);
        debug_assert_eq!(low_end, layout::BRANCH_TABLE);
        let mut threads = 0;
        let mut path_lengths = 0;
        if plan.order == unspool_events::Order::LineAtomic {
            layout::map_fixed(layout::OWNER_WORDS, low_end - layout::OWNER_WORDS, private)?;
            if !hashed {
                let start = layout::BRANCH_TABLE + layout::BRANCH_TABLE_SIZE;
                let end = layout::OWNER_WORDS + ((1_u64 << ADDRESS_BITS >> shift) << 2) + 4096;
                layout::map_fixed(start, end - start, private)?;
            }
            threads = map_anywhere(MOST_THREADS * size_of::<Public>() as u64)?;
            path_lengths = map_anywhere(u64::from(unspool_events::raw::PATH_IDS))?;
        }
        Ok(Ownership {
            layout: LineLayout {
                shift,
                mask: hashed.then_some(words as u32 - 1),
            },
            threads,
            thread_count: AtomicU64::new(0),
            checking: AtomicBool::new(false),
            epoch: AtomicU32::new(0),
            shared_clock: AtomicU64::new(0),
            read_last: (0..1 << 16).map(|_| AtomicU8::new(0)).collect(),
            sites: std::sync::Mutex::default(),
            path_lengths,
        })
    }

    /// Keeps the lock, for a fork.
    pub(super) fn freeze(&self) -> std::sync::MutexGuard<'_, Vec<CheckSite>> {
        lock(&self.sites)
    }

    fn is_on(&self) -> bool {
        self.threads != 0
    }

    fn is_checking(&self) -> bool {
        self.checking.load(Ordering::Relaxed)
    }

    fn public(&self, thread: u32) -> &Public {
        if u64::from(thread) >= MOST_THREADS {
            crate::finish::fatal(
                "the program starts more threads than a trace in line-atomic order can tell apart",
            );
        }
        // SAFETY: the array is mapped for the life of the process and has MOST_THREADS
        // elements, all of atomics.
        unsafe { &*(self.threads as *const Public).add(thread as usize) }
    }

    fn word(&self, line: u64) -> &AtomicU32 {
        // SAFETY: lines come from `line_of`, which checks that the word is mapped.
        unsafe { AtomicU32::from_ptr((layout::OWNER_WORDS + line * 4) as *mut u32) }
    }

    /// The number of the owner word of an address; `None` for addresses that user memory
    /// cannot have (the access will fault).
    fn line_of(&self, address: u64) -> Option<u64> {
        let line = address >> self.layout.shift;
        if let Some(mask) = self.layout.mask {
            return Some(line & u64::from(mask));
        }
        let reserved = (layout::LIBRARY_END
            ..(layout::BRANCH_TABLE + layout::BRANCH_TABLE_SIZE - layout::OWNER_WORDS) << 4)
            .contains(&address)
            && self.layout.shift == 6;
        (address >> ADDRESS_BITS == 0 && !reserved).then_some(line)
    }

    fn path_length(&self, path: u32) -> u64 {
        // SAFETY: the array has a byte for each path id.
        u64::from(unsafe { *((self.path_lengths + u64::from(path)) as *const u8) })
    }

    pub(super) fn define_paths(&self, first: u32, paths: &[unspool_events::superblock::Path]) {
        if !self.is_on() {
            return;
        }
        for (index, path) in paths.iter().enumerate() {
            // SAFETY: as above; no thread executes the path before it is defined.
            unsafe {
                *((self.path_lengths + u64::from(first) + index as u64) as *mut u8) =
                    path.accessing as u8
            };
        }
    }
}

fn map_anywhere(size: u64) -> std::io::Result<u64> {
    // SAFETY: a new private mapping.
    let mapped = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            size as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        Err(std::io::Error::last_os_error())
    } else {
        Ok(mapped as u64)
    }
}

impl Tracer {
    /// How addresses lead to owner words.
    pub(crate) fn line_layout(&self) -> LineLayout {
        self.ownership.layout
    }

    /// The service that answers other threads.
    pub(crate) fn poll_detail(&self) -> u32 {
        POLL
    }

    /// Whether code that is translated now checks owners.
    pub(crate) fn checks_owners(&self) -> bool {
        self.ownership.is_checking()
    }

    /// The only thread is about to create the second one. Up to here its program order is
    /// the whole order, so nothing was checked and nobody owns a line; the second thread's
    /// time begins after all of it. From here on code checks, so it is translated anew.
    pub(super) fn begin_sharing(&self) {
        if self.ownership.is_on() && !self.ownership.is_checking() {
            let mut code = Process::get().code();
            self.ownership.checking.store(true, Ordering::Relaxed);
            code.cache.clear();
        }
    }

    /// Adds a place where ownership is checked; returns the service that acquires it.
    pub(crate) fn add_check_site(&self, site: CheckSite) -> u32 {
        let mut sites = lock(&self.ownership.sites);
        sites.push(site);
        SERVICE_BIT | (sites.len() as u32 - 1)
    }

    /// A thread starts: its time begins after everything its creator did.
    pub(super) fn adopt(&self, thread: &mut Thread, parent: Option<u32>) {
        let ownership = &self.ownership;
        if !ownership.is_on() {
            return;
        }
        let public = ownership.public(thread.number);
        ownership
            .thread_count
            .fetch_max(u64::from(thread.number) + 1, Ordering::SeqCst);
        // SAFETY: the slots and the trace belong to this thread.
        unsafe {
            let word = u64::from(thread.number) + 1;
            (*thread.slots).owner_word = word | word << 32;
            (*thread.slots).shared_seen = u64::from(u32::MAX);
            (*thread.slots).poll = 0;
            public
                .poll
                .store(&raw const (*thread.slots).poll as u64, Ordering::SeqCst);
            let trace = &mut *thread.trace;
            trace.clock.counted = trace.base;
            if let Some(parent) = parent {
                let time = ownership.public(parent).clock.load(Ordering::SeqCst) + 1;
                trace.append(&[special_header(SpecialKind::Stamp, 0, 1), time]);
            }
        }
        public.state.fetch_and(!SAFE, Ordering::SeqCst);
    }

    /// A thread has ended: whatever it owned can be taken without asking.
    pub(super) fn release(&self, thread: &mut Thread) {
        if self.ownership.is_on() {
            publish(self, thread);
            self.ownership
                .public(thread.number)
                .poll
                .store(0, Ordering::SeqCst);
        }
    }

    /// The thread leaves translated code for a while that may be long.
    pub(super) fn enter_safe(&self, thread: &mut Thread) {
        if self.ownership.is_on() {
            publish(self, thread);
        }
    }

    /// The thread comes back.
    pub(super) fn leave_safe(&self, thread: &mut Thread) {
        if !self.ownership.is_on() {
            return;
        }
        let public = self.ownership.public(thread.number);
        public.state.fetch_and(!SAFE, Ordering::SeqCst);
        let floor = public.floor.swap(0, Ordering::SeqCst);
        if floor > public.clock.load(Ordering::SeqCst) {
            // SAFETY: the trace belongs to this thread.
            let trace = unsafe { &mut *thread.trace };
            trace.append(&[special_header(SpecialKind::Stamp, 0, 1), floor]);
            let mut words = Vec::new();
            Event::ThreadSync.encode(&mut words);
            trace.append(&words);
        }
    }

    /// In a forked child: the other threads are gone.
    pub(super) fn forget_others(&self) {
        if self.ownership.is_on() {
            for thread in 0..self.ownership.thread_count.load(Ordering::SeqCst) as u32 {
                self.ownership
                    .public(thread)
                    .state
                    .fetch_or(SAFE, Ordering::SeqCst);
                self.ownership
                    .public(thread)
                    .poll
                    .store(0, Ordering::SeqCst);
            }
            self.ownership.checking.store(false, Ordering::Relaxed);
            lock(&self.ownership.sites).clear();
        }
    }

    /// A buffer was emptied: threads that are too far behind are told to catch up.
    pub(super) fn keep_close(&self, thread: &mut Thread) {
        let ownership = &self.ownership;
        if !ownership.is_on() || self.plan.max_skew == 0 {
            return;
        }
        // SAFETY: the trace belongs to this thread.
        let time = unsafe { (*thread.trace).clock.time };
        for other in 0..ownership.thread_count.load(Ordering::Relaxed) as u32 {
            let public = ownership.public(other);
            let poll = public.poll.load(Ordering::SeqCst);
            if other == thread.number || poll == 0 {
                continue;
            }
            if public.clock.load(Ordering::Relaxed) + self.plan.max_skew < time {
                public
                    .floor
                    .fetch_max(time - self.plan.max_skew / 4, Ordering::SeqCst);
                ask(poll);
            }
        }
    }
}

/// Publishes the thread's time and marks it safe. Its state must be out of the cache.
fn publish(tracer: &Tracer, thread: &mut Thread) {
    // SAFETY: the trace belongs to this thread.
    let trace = unsafe { &mut *thread.trace };
    let position = trace.position();
    trace.count_time(position);
    let public = tracer.ownership.public(thread.number);
    public.clock.store(trace.clock.bound(), Ordering::SeqCst);
    public.state.fetch_or(SAFE, Ordering::SeqCst);
}

fn ask(poll: u64) {
    // SAFETY: the slot belongs to a thread that is listed; slots of ended threads stay
    // mapped as long as anybody may ask, because their address is withdrawn first.
    unsafe { AtomicU64::from_ptr(poll as *mut u64) }.store(1, Ordering::SeqCst);
}

impl ThreadTrace {
    /// Counts the records up to `end`, so that the thread's time is known there.
    pub(super) fn count_time(&mut self, end: u64) {
        let Some(tracer) = Process::try_get().and_then(|process| process.trace.as_ref()) else {
            return;
        };
        if !tracer.ownership.is_on() {
            return;
        }
        let mut at = self.clock.counted;
        while at < end {
            // SAFETY: whole records lie between `counted` and `end`, in this thread's buffer.
            let header = unsafe { *(at as *const u64) };
            match Header::decode(header) {
                Header::Path { path, words } => {
                    let length = tracer.ownership.path_length(path.0);
                    self.clock.advance(length);
                    at += 8 * (words as u64 + 1);
                }
                Header::Special {
                    kind,
                    argument,
                    words,
                } => {
                    match kind {
                        Some(SpecialKind::Stamp) => {
                            // SAFETY: as above; a stamp has one word.
                            let time = unsafe { *((at + 8) as *const u64) };
                            self.clock.stamps.push((argument, time));
                        }
                        Some(SpecialKind::Event) => self.clock.advance_to_event(),
                        Some(SpecialKind::Partial) => self.clock.advance(argument >> 24 & 0xffff),
                        _ => {}
                    }
                    at += 8 * (words as u64 + 1);
                }
            }
        }
        self.clock.counted = end;
    }

    /// Puts a record before the one in the making, which starts at `start` and moves up.
    pub(super) fn insert_before(&mut self, start: u64, record: &[u64]) -> u64 {
        const WORD: u64 = 8;
        const LARGEST_RECORD: u64 = 128 * WORD;
        let size = record.len() as u64 * WORD;
        let mut start = start;
        if start + size + LARGEST_RECORD > self.end {
            // Make room: everything before the record goes to the encoder.
            self.count_time(start);
            self.hand_over(start);
            let rest = (self.end - start).min(LARGEST_RECORD) as usize;
            // SAFETY: both ranges lie in the buffer.
            unsafe { std::ptr::copy(start as *const u8, self.base as *mut u8, rest) };
            self.clock.counted = self.base;
            start = self.base;
        }
        let rest = (self.end - start - size).min(LARGEST_RECORD) as usize;
        // SAFETY: both ranges lie in the buffer.
        unsafe {
            std::ptr::copy(start as *const u8, (start + size) as *mut u8, rest);
            std::ptr::copy_nonoverlapping(record.as_ptr(), start as *mut u64, record.len());
        }
        start + size
    }
}

impl Clock {
    /// `length` accessing instructions or events happen, with the stamps that wait for them.
    /// Stamps beyond the last of them move the time afterwards, as a reader has it.
    #[inline]
    fn advance(&mut self, length: u64) {
        if self.stamps.is_empty() {
            self.time += length;
            return;
        }
        self.time = self.midway(length);
        for (_, time) in self.stamps.drain(..).filter(|stamp| stamp.0 >= length) {
            self.time = self.time.max(time);
        }
    }

    /// An event happens; all stamps are its own.
    fn advance_to_event(&mut self) {
        self.time += 1;
        for (_, time) in self.stamps.drain(..) {
            self.time = self.time.max(time);
        }
    }

    /// The time after the first `length` accessing instructions of the record in the making.
    fn midway(&self, length: u64) -> u64 {
        let (mut time, mut done) = (self.time, 0);
        for &(ordinal, stamp) in &self.stamps {
            if ordinal < length {
                time = (time + (ordinal + 1).saturating_sub(done)).max(stamp);
                done = ordinal + 1;
            }
        }
        time + length.saturating_sub(done)
    }

    /// A time not before that of any line of the thread's: stamps that wait count, because
    /// their lines may be taken before they are accessed.
    fn bound(&self) -> u64 {
        self.stamps
            .iter()
            .fold(self.time, |time, stamp| time.max(stamp.1))
    }

    /// The least time that accessing instruction `ordinal` has by its own stamp.
    fn stamp_of(&self, ordinal: u64) -> u64 {
        self.stamps
            .iter()
            .filter(|stamp| stamp.0 == ordinal)
            .map(|stamp| stamp.1)
            .max()
            .unwrap_or(0)
    }
}

/// Somebody asked this thread, or a check failed. Returns where the thread goes on in the
/// cache, or none if it has to leave the superblock.
pub(super) fn serve(tracer: &Tracer, thread: &mut Thread, exit: &Exit) -> Option<u64> {
    let resume = u64::from(exit.stub);
    let register = exit.warmth.buffer_register();
    // SAFETY: the trace belongs to this thread, or to its parent that waits.
    let trace = unsafe { &mut *thread.trace };
    let start = thread.register(register);
    trace.count_time(start);
    if exit.detail == POLL {
        answer(tracer, thread, trace.clock.bound());
        return Some(resume);
    }
    let site = lock(&tracer.ownership.sites)[(exit.detail & !SERVICE_BIT) as usize];
    let ordinal = site.ordinal as u64;
    let before = trace.clock.midway(ordinal);
    let mut acquisition = Acquisition {
        tracer,
        thread,
        now: before,
        bound: trace.clock.bound().max(before),
        least: 0,
        lost: false,
        nowhere: false,
    };
    for (address, size, write) in extents(acquisition.thread, &site) {
        acquisition.acquire_range(address, size, write);
    }
    let Acquisition {
        least,
        lost,
        nowhere,
        ..
    } = acquisition;
    if lost {
        leave_superblock(thread, resume - 1, &site);
        // The instruction comes first in the next record.
        trace.append(&[special_header(SpecialKind::Stamp, 0, 1), least]);
        return None;
    }
    let natural = trace.clock.stamp_of(ordinal).max(before + 1);
    if least > natural {
        let record = [special_header(SpecialKind::Stamp, ordinal, 1), least];
        let start = trace.insert_before(start, &record);
        thread.set_register(register, start);
        trace.count_time(start);
    }
    Some(if nowhere { site.passed } else { resume })
}

/// Before the engine writes program memory on the kernel's behalf: takes the lines, so that
/// whoever sees the values comes later. The thread is out of the cache; the next event gets
/// its time.
pub(super) fn own(tracer: &Tracer, thread: &mut Thread, address: u64, size: u64) {
    if !tracer.ownership.is_checking() || thread.trace.is_null() {
        return;
    }
    // SAFETY: the trace belongs to this thread, or to its parent that waits.
    let trace = unsafe { &mut *thread.trace };
    let position = trace.position();
    trace.count_time(position);
    let now = trace.clock.time;
    let mut acquisition = Acquisition {
        tracer,
        thread,
        now,
        bound: trace.clock.bound(),
        least: 0,
        lost: false,
        nowhere: false,
    };
    acquisition.acquire_range(address, size, true);
    let least = acquisition.least;
    if least > now + 1 {
        trace.append(&[special_header(SpecialKind::Stamp, 0, 1), least]);
    }
}

/// Lines of earlier checks are gone: the rest of the superblock is entered anew.
fn leave_superblock(thread: &mut Thread, at: u64, site: &CheckSite) {
    let code = Process::get().code();
    let position = code
        .cache
        .position_of_pc(at, site.pc)
        .expect("the check belongs to the fragment");
    super::leave_midway(thread, &code.cache, 0, position);
    for loan in code.cache.loans_at(position.fragment, at) {
        thread.return_loan(loan);
    }
    if site.flags_live {
        let slot = crate::translate::record::FLAGS_SPILL;
        thread.return_loan(Loan {
            start: 0,
            end: 0,
            register: FLAGS,
            slot,
        });
    }
    thread.set_pc(site.pc);
}

/// Passes a safe point.
fn answer(tracer: &Tracer, thread: &mut Thread, time: u64) {
    let public = tracer.ownership.public(thread.number);
    // SAFETY: the slot belongs to this thread; others store to it atomically.
    unsafe { AtomicU64::from_ptr(&raw mut (*thread.slots).poll) }.store(0, Ordering::SeqCst);
    public.clock.store(time, Ordering::SeqCst);
    public.state.fetch_add(EPOCH, Ordering::SeqCst);
}

/// The ranges that an instruction is about to access.
fn extents(thread: &Thread, site: &CheckSite) -> Vec<(u64, u64, bool)> {
    let operand = &site.operand;
    let address = effective_address(thread, operand);
    let size = u64::from(operand.size);
    let range = match operand.shape {
        Shape::Plain => {
            let first = address.wrapping_add(site.first as u64);
            (first, (site.last - site.first + 1) as u64)
        }
        Shape::Repeat { count, .. } => {
            let count = register_value(thread, count);
            let backwards = direction_flag(thread);
            let bytes = count.saturating_mul(size);
            let first = if backwards {
                address.wrapping_sub(bytes).wrapping_add(size)
            } else {
                address
            };
            (first, bytes)
        }
        Shape::BitString { number } => {
            let bits = register_value(thread, number);
            let number = match operand.size {
                2 => i64::from(bits as i16),
                4 => i64::from(bits as i32),
                _ => bits as i64,
            };
            let element = number.div_euclid(8 * size as i64);
            (address.wrapping_add((element * size as i64) as u64), size)
        }
        Shape::AlignedDown => (address & !(size - 1), size),
        Shape::Masked { count, .. } | Shape::Compressed { count, .. } => {
            (address, size * u64::from(count))
        }
        Shape::AnyOf { .. } | Shape::Tile { .. } => (address, size),
        Shape::Indexed {
            index,
            index_size,
            count,
            ..
        } => {
            return indexed(
                thread, address, size, operand, index, index_size, count, site.write,
            );
        }
    };
    vec![(range.0, range.1, site.write)]
}

#[expect(clippy::too_many_arguments, reason = "the fields of one operand")]
fn indexed(
    thread: &Thread,
    address: u64,
    size: u64,
    operand: &MemoryOperand,
    index: iced_x86::Register,
    index_size: u8,
    count: u8,
    write: bool,
) -> Vec<(u64, u64, bool)> {
    let bytes = crate::signals::frame::vector_register(thread.slots, index.number());
    (0..usize::from(count))
        .map(|element| {
            let at = element * usize::from(index_size);
            let number = match index_size {
                4 => i64::from(i32::from_le_bytes(
                    bytes[at..at + 4].try_into().expect("four bytes"),
                )),
                _ => i64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes")),
            };
            let offset = number.wrapping_mul(i64::from(operand.scale));
            (address.wrapping_add(offset as u64), size, write)
        })
        .collect()
}

fn direction_flag(thread: &Thread) -> bool {
    // SAFETY: the slots belong to this thread.
    unsafe { (*thread.slots).flags & 0x400 != 0 }
}

fn register_value(thread: &Thread, register: iced_x86::Register) -> u64 {
    let value = thread.register(register.full_register().number() as u8);
    match register.size() {
        1 => value & 0xff,
        2 => value & 0xffff,
        4 => value & 0xffff_ffff,
        _ => value,
    }
}

/// The address of an operand, from the registers in the slots. Borrowed registers are never
/// part of an operand.
fn effective_address(thread: &Thread, operand: &MemoryOperand) -> u64 {
    use iced_x86::Register;
    let mut address = operand.displacement as u64;
    if operand.base != Register::None {
        address = address.wrapping_add(register_value(thread, operand.base));
    }
    if operand.index != Register::None && !operand.index.is_vector_register() {
        let index = register_value(thread, operand.index);
        address = address.wrapping_add(index.wrapping_mul(u64::from(operand.scale)));
    }
    if operand.address_size_32 {
        address &= 0xffff_ffff;
    }
    if operand.segment.is_some() {
        // SAFETY: the slots belong to this thread.
        address = address.wrapping_add(unsafe { (*thread.slots).program_fs });
    }
    address
}

/// A thread acquiring the lines of one instruction.
struct Acquisition<'a> {
    tracer: &'a Tracer,
    thread: &'a mut Thread,
    /// The thread's time before the instruction.
    now: u64,
    /// No line of this thread's has a later time.
    bound: u64,
    /// The least time that the instruction may have.
    least: u64,
    /// Whether lines were taken from the thread meanwhile.
    lost: bool,
    /// Whether an address has no owner word: the access will fault.
    nowhere: bool,
}

impl Acquisition<'_> {
    fn acquire_range(&mut self, address: u64, size: u64, write: bool) {
        if size == 0 {
            return;
        }
        let granule = 1_u64 << self.tracer.ownership.layout.shift;
        let mut at = address & !(granule - 1);
        let end = address.saturating_add(size);
        while at < end {
            match self.tracer.ownership.line_of(at) {
                Some(line) => self.acquire(line, write),
                None => {
                    self.nowhere = true;
                    return;
                }
            }
            at = at.saturating_add(granule);
        }
    }

    fn acquire(&mut self, line: u64, write: bool) {
        let ownership = &self.tracer.ownership;
        let me = self.thread.number + 1;
        let mut patience = 0;
        loop {
            let word = ownership.word(line).load(Ordering::SeqCst);
            let swap = |new: u32| {
                ownership
                    .word(line)
                    .compare_exchange(word, new, Ordering::SeqCst, Ordering::SeqCst)
                    .is_ok()
            };
            if word == me {
                return;
            } else if word == 0 {
                if swap(me) {
                    return;
                }
            } else if word & SHARED != 0 {
                if !write {
                    self.see_shared();
                    return;
                }
                if swap(TRANSIT | me) {
                    self.ask_everybody();
                    ownership.read_last[line as usize & 0xffff].store(0, Ordering::Relaxed);
                    ownership.word(line).store(me, Ordering::SeqCst);
                    return;
                }
            } else if word & TRANSIT != 0 {
                let taker = (word & !TRANSIT) - 1;
                let public = ownership.public(taker);
                let gone = public.poll.load(Ordering::SeqCst) == 0
                    && public.state.load(Ordering::SeqCst) & SAFE != 0;
                // Only a fork loses a thread in the middle of taking a line.
                if gone && swap(TRANSIT | me) {
                    self.ask_everybody();
                    ownership.word(line).store(me, Ordering::SeqCst);
                    return;
                }
                self.wait_a_little(&mut patience);
            } else if swap(TRANSIT | me) {
                self.ask_one(word - 1);
                self.take(line, write);
                return;
            }
        }
    }

    /// The line was exclusive to another thread, which has let it go.
    fn take(&mut self, line: u64, write: bool) {
        let ownership = &self.tracer.ownership;
        let me = self.thread.number + 1;
        let last = &ownership.read_last[line as usize & 0xffff];
        let share = !write && last.swap(u8::from(!write), Ordering::Relaxed) != 0;
        if write {
            last.store(0, Ordering::Relaxed);
        }
        if !share {
            ownership.word(line).store(me, Ordering::SeqCst);
            return;
        }
        // A second reader in a row: from now on everybody may read.
        ownership
            .shared_clock
            .fetch_max(self.least.max(self.now + 1), Ordering::SeqCst);
        let epoch = ownership.epoch.fetch_add(1, Ordering::SeqCst) + 1;
        if epoch >= SHARED - 1 {
            crate::finish::fatal(
                "too many changes of shared lines for one trace in line-atomic order",
            );
        }
        self.see_shared();
        ownership
            .word(line)
            .store(u32::MAX - epoch, Ordering::SeqCst);
    }

    /// Orders this thread behind all transitions to read-shared so far.
    fn see_shared(&mut self) {
        let ownership = &self.tracer.ownership;
        let epoch = ownership.epoch.load(Ordering::SeqCst);
        self.least = self
            .least
            .max(ownership.shared_clock.load(Ordering::SeqCst) + 1);
        // SAFETY: the slots belong to this thread.
        unsafe { (*self.thread.slots).shared_seen = u64::from(u32::MAX - epoch) };
    }

    fn ask_everybody(&mut self) {
        let count = self.tracer.ownership.thread_count.load(Ordering::SeqCst) as u32;
        for other in 0..count {
            if other != self.thread.number {
                self.ask_one(other);
            }
        }
        let shared = self.tracer.ownership.shared_clock.load(Ordering::SeqCst);
        self.least = self.least.max(shared + 1);
    }

    /// Makes sure that another thread has passed a safe point from now on.
    fn ask_one(&mut self, other: u32) {
        let tracer = self.tracer;
        let public = tracer.ownership.public(other);
        let before = public.state.load(Ordering::SeqCst);
        let mut patience = 0;
        loop {
            let state = public.state.load(Ordering::SeqCst);
            if state & SAFE != 0 {
                // Being counted and being safe are one state, so that a thread that comes
                // back knows for certain whether anything was taken.
                let counted = state.wrapping_add(TAKEN);
                if public
                    .state
                    .compare_exchange(state, counted, Ordering::SeqCst, Ordering::SeqCst)
                    .is_ok()
                {
                    break;
                }
                continue;
            }
            if (state ^ before) & EPOCH_BITS != 0 {
                break;
            }
            let poll = public.poll.load(Ordering::SeqCst);
            if poll != 0 {
                ask(poll);
            }
            self.wait_a_little(&mut patience);
        }
        self.least = self.least.max(public.clock.load(Ordering::SeqCst) + 1);
    }

    /// Waits, being safe for others meanwhile.
    fn wait_a_little(&mut self, patience: &mut u32) {
        const SPINS: u32 = 64;
        let public = self.tracer.ownership.public(self.thread.number);
        // A line acquired a moment ago has its last owner's time, not this thread's.
        public
            .clock
            .store(self.bound.max(self.least), Ordering::SeqCst);
        let before = public.state.fetch_or(SAFE, Ordering::SeqCst);
        *patience += 1;
        if *patience > SPINS {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
        let after = public.state.fetch_and(!SAFE, Ordering::SeqCst);
        self.lost |= (after ^ before) / TAKEN != 0;
    }
}
