//! Finds data races by happens-before (C. Flanagan, S. Freund, "FastTrack", PLDI 2009): two accesses
//! of two threads to the same memory, one of them a write, and nothing between them that would make
//! one thread wait for the other.
//!
//! It knows the functions of [`SYNCHRONISATION`] and instructions with a lock prefix. Memory is told
//! apart by four bytes.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use unspool_tool::lock::Mutex;
use unspool_tool::{
    AccessKind, Address, Constant, FunctionArgument, Image, ImageKind, Instruction,
    InstructionPointer, Shadow, Superblock, ThreadInfo, ThreadWord, Tool, effective_address,
    iced_x86, image_at, say,
};

/// Functions that hand on what their thread has done before to whoever takes it later, by their
/// first argument, when they are entered; and those that take it when they return.
const SYNCHRONISATION: [(&str, bool, bool); 15] = [
    ("pthread_mutex_lock", false, true),
    ("pthread_mutex_trylock", false, true),
    ("pthread_mutex_unlock", true, false),
    ("pthread_rwlock_rdlock", false, true),
    ("pthread_rwlock_wrlock", false, true),
    ("pthread_rwlock_unlock", true, false),
    ("pthread_spin_lock", false, true),
    ("pthread_spin_unlock", true, false),
    ("pthread_barrier_wait", true, true),
    ("pthread_cond_signal", true, false),
    ("pthread_cond_broadcast", true, false),
    ("pthread_cond_wait", true, true),
    ("pthread_cond_timedwait", true, true),
    ("sem_post", true, false),
    ("sem_wait", false, true),
];
/// How many bits of an epoch are the thread's number. The others are its time.
const THREAD_BITS: u32 = 8;
const THREAD: u32 = (1 << THREAD_BITS) - 1;
/// What stands for the last access if several threads have read since the last write.
const SHARED: u32 = u32::MAX;
/// Where the epochs are in the word of four bytes: of the last access, and of the last write.
const LAST: u8 = 0;
const WRITE: u32 = 32;

/// How many reads a thread keeps in mind.
const READS: usize = 256;

/// How far each thread is known to have come, by its number.
type Clock = Vec<u32>;

struct Races {
    /// A word for each four bytes of the program's memory: the epochs of its last access and of its
    /// last write. If the last was the same thread's, the thread has seen whatever was done before.
    cells: Shadow<u64, 4>,
    /// What is handed on by the object at an address: where it is kept, once it is.
    objects: Shadow<u64, 8>,
    /// The thread's epoch; and the same twice.
    epoch: ThreadWord<u32>,
    written: ThreadWord<u64>,
    /// Who has read where the last access is [`SHARED`].
    readers: Mutex<HashMap<u64, Clock>>,
    /// What threads hand on when they create others, and when they end.
    threads: [Mutex<Clock>; 2],
    /// How often which access raced with which thread's, by its instruction.
    found: Mutex<BTreeMap<(Address, &'static str), u64>>,
}

struct Thread {
    number: usize,
    clock: Clock,
    /// What it has read lately of what several threads read: where, and the epochs of this read and of
    /// the last write.
    read: Box<[(u64, u32, u32); READS]>,
}

/// Where in that list a place is.
fn slot(at: u64) -> usize {
    at as usize / 4 % READS
}

impl Default for Thread {
    fn default() -> Thread {
        Thread {
            number: 0,
            clock: Clock::new(),
            read: Box::new([(0, 0, 0); READS]),
        }
    }
}

impl Thread {
    fn has_come_to(&self, thread: usize, time: u32) -> bool {
        time == 0 || self.clock.get(thread).is_some_and(|&seen| seen >= time)
    }

    fn has_seen(&self, epoch: u32) -> bool {
        self.has_come_to((epoch & THREAD) as usize, epoch >> THREAD_BITS)
    }
}

/// The first bytes of what an access touches, by four.
fn cells(at: Address, size: u32) -> impl Iterator<Item = u64> {
    (at.0 / 4..=at.0.wrapping_add(u64::from(size) - 1) / 4).map(|cell| cell * 4)
}

/// The later of each pair of times.
fn join(clock: &mut Clock, other: &Clock) {
    clock.resize(clock.len().max(other.len()), 0);
    clock
        .iter_mut()
        .zip(other)
        .for_each(|(time, &other)| *time = other.max(*time));
}

impl Races {
    fn new() -> Races {
        Races {
            cells: Shadow::new().expect("no room for cells"),
            objects: Shadow::new().expect("no room for objects"),
            epoch: ThreadWord::new(),
            written: ThreadWord::new(),
            readers: Mutex::default(),
            threads: Default::default(),
            found: Mutex::default(),
        }
    }

    // ANCHOR: tests
    /// Whether a write needs a closer look. If not, it is noted.
    fn may_race_writing(&self, thread: &mut Thread, at: Address, size: u32) -> bool {
        cells(at, size).any(|at| {
            let word = self.cells.word(at);
            let cell = word.load(Relaxed);
            let is_ordered =
                thread.has_seen(cell as u32) && thread.has_seen((cell >> WRITE) as u32);
            if is_ordered {
                word.store(self.written.get(), Relaxed);
            }
            !is_ordered
        })
    }

    fn may_race_reading(&self, thread: &mut Thread, at: Address, size: u32) -> bool {
        let epoch = self.epoch.get();
        cells(at, size).any(|at| {
            let word = self.cells.word(at);
            let cell = word.load(Relaxed);
            let (last, write) = (cell as u32, (cell >> WRITE) as u32);
            if last == SHARED {
                return thread.read[slot(at)] != (at, epoch, write);
            }
            let is_ordered = thread.has_seen(last) && thread.has_seen(write);
            if is_ordered {
                word.store(u64::from(write) << WRITE | u64::from(epoch), Relaxed);
            }
            !is_ordered
        })
    }
    // ANCHOR_END: tests

    fn writes(&self, thread: &mut Thread, at: Address, size: u32, pc: Address) {
        for at in cells(at, size) {
            let cell = self.cells.word(at).swap(self.written.get(), Relaxed);
            let (last, write) = (cell as u32, (cell >> WRITE) as u32);
            let has_seen_reads = match last {
                SHARED => {
                    let readers = self.readers.lock().remove(&at).unwrap_or_default();
                    let mut times = readers.iter().enumerate();
                    times.all(|(reader, &time)| thread.has_come_to(reader, time))
                }
                last => thread.has_seen(last),
            };
            if !thread.has_seen(write) {
                self.report(pc, "write after write");
            } else if !has_seen_reads {
                self.report(pc, "write after read");
            }
        }
    }

    fn reads(&self, thread: &mut Thread, at: Address, size: u32, pc: Address) {
        let epoch = self.epoch.get();
        for at in cells(at, size) {
            let word = self.cells.word(at);
            let cell = word.load(Relaxed);
            let (last, write) = (cell as u32, (cell >> WRITE) as u32);
            if !thread.has_seen(write) {
                self.report(pc, "read after write");
            }
            let written = u64::from(write) << WRITE;
            if last != SHARED && (thread.has_seen(last) || last == write) {
                word.store(written | u64::from(epoch), Relaxed);
                continue;
            }
            let mut all = self.readers.lock();
            let readers = all.entry(at).or_default();
            for epoch in [last, epoch].into_iter().filter(|&epoch| epoch != SHARED) {
                let reader = (epoch & THREAD) as usize;
                readers.resize(readers.len().max(reader + 1), 0);
                readers[reader] = epoch >> THREAD_BITS;
            }
            word.store(written | u64::from(SHARED), Relaxed);
            thread.read[slot(at)] = (at, epoch, write);
        }
    }

    fn report(&self, pc: Address, what: &'static str) {
        *self.found.lock().entry((pc, what)).or_default() += 1;
    }

    /// What the object at an address hands on.
    fn object(&self, at: Address) -> &'static Mutex<Clock> {
        let word = self.objects.word(at.0);
        let mut kept = word.load(Acquire);
        if kept == 0 {
            let new: &'static Mutex<Clock> = Box::leak(Box::default());
            let new = std::ptr::from_ref(new).expose_provenance() as u64;
            let exchanged = word.compare_exchange(0, new, AcqRel, Acquire);
            kept = exchanged.err().unwrap_or(new);
        }
        // SAFETY: nobody else stores there, and what is stored is never freed.
        unsafe { &*std::ptr::with_exposed_provenance(kept as usize) }
    }

    fn acquire(&self, thread: &mut Thread, at: Address) {
        join(&mut thread.clock, &self.object(at).lock());
    }

    fn release(&self, thread: &mut Thread, at: Address) {
        join(&mut self.object(at).lock(), &thread.clock);
        self.tick(thread);
    }

    fn atomic(&self, thread: &mut Thread, at: Address) {
        let mut clock = self.object(at).lock();
        join(&mut thread.clock, &clock);
        join(&mut clock, &thread.clock);
        drop(clock);
        self.tick(thread);
    }

    fn creates(&self, thread: &mut Thread) {
        join(&mut self.threads[0].lock(), &thread.clock);
        self.tick(thread);
    }

    fn joined(&self, thread: &mut Thread) {
        join(&mut thread.clock, &self.threads[1].lock());
    }

    /// A thread has handed something on: what it does now is later.
    fn tick(&self, thread: &mut Thread) {
        thread.clock[thread.number] += 1;
        let time = thread.clock[thread.number];
        assert!(
            time < SHARED >> THREAD_BITS,
            "a thread has synchronised too often"
        );
        let epoch = time << THREAD_BITS | thread.number as u32;
        self.epoch.set(epoch);
        self.written
            .set(u64::from(epoch) << WRITE | u64::from(epoch));
    }

    // ANCHOR: check
    fn check(&self, instruction: &Instruction<Self>) {
        let is_atomic = instruction.decoded().has_lock_prefix()
            || instruction.decoded().mnemonic() == iced_x86::Mnemonic::Xchg;
        let (whole, last) = (self.cells.whole(), self.cells.part::<u32>(LAST));
        let was_mine = [last.is_under(THREAD, self.epoch)];
        for operand in instruction.memory_operands() {
            let Some(at) = effective_address(operand) else {
                continue;
            };
            let access = (at, Constant(operand.size));
            let arguments = (at, Constant(operand.size), InstructionPointer);
            let before = instruction.before();
            match operand.kind {
                AccessKind::Write if is_atomic => before.call(Races::atomic, (at,)),
                _ if is_atomic => {}
                AccessKind::Write => {
                    let check = (operand, &was_mine[..], &[whole.becomes(self.written)][..]);
                    let (test, race) = (Races::may_race_writing, Races::writes);
                    before.check_shadow_if(check, test, access, race, arguments);
                }
                AccessKind::Read => {
                    let check = (operand, &was_mine[..], &[last.becomes(self.epoch)][..]);
                    let (test, race) = (Races::may_race_reading, Races::reads);
                    before.check_shadow_if(check, test, access, race, arguments);
                }
            }
        }
    }
    // ANCHOR_END: check
}

/// The C library and the loader synchronise by means of their own.
fn is_checked(address: u64) -> bool {
    let image = image_at(address);
    image.is_none_or(|image| {
        let name = image
            .path()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy();
        image.kind() == ImageKind::Program
            || !(name.starts_with("libc.so") || name.starts_with("ld-"))
    })
}

impl Tool for Races {
    type Thread = Thread;

    fn instrument(&self, superblock: &Superblock<Self>) {
        if is_checked(superblock.address()) {
            superblock
                .instructions()
                .for_each(|instruction| self.check(&instruction));
        }
    }

    // ANCHOR: hooks
    fn image_load(&self, image: &Image<Self>) {
        let first = FunctionArgument::<Address, 0>::new();
        for (name, releases, acquires) in SYNCHRONISATION {
            for routine in image.routines_named(name) {
                if releases {
                    routine.entry().call(Races::release, (first,));
                }
                if acquires {
                    routine.exit().call(Races::acquire, (first,));
                }
            }
        }
        let waits = ["pthread_cond_wait", "pthread_cond_timedwait"];
        for routine in waits.iter().flat_map(|name| image.routines_named(name)) {
            let mutex = FunctionArgument::<Address, 1>::new();
            routine.entry().call(Races::release, (mutex,));
            routine.exit().call(Races::acquire, (mutex,));
        }
        for routine in image.routines_named("pthread_create") {
            routine.entry().call(Races::creates, ());
        }
        for routine in image.routines_named("pthread_join") {
            routine.exit().call(Races::joined, ());
        }
    }
    // ANCHOR_END: hooks

    fn thread_start(&self, info: &ThreadInfo, thread: &mut Thread) {
        thread.number = info.number as usize;
        assert!(thread.number < THREAD as usize, "too many threads");
        thread.clock = self.threads[0].lock().clone();
        let threads = thread.clock.len().max(thread.number + 1);
        thread.clock.resize(threads, 0);
        self.tick(thread);
    }

    fn thread_end(&self, _: &ThreadInfo, thread: Thread) {
        join(&mut self.threads[1].lock(), &thread.clock);
    }

    fn end(&self) {
        let found = self.found.lock();
        for ((pc, what), count) in found.iter() {
            let line = image_at(pc.0).and_then(|image| image.source_line(pc.0));
            let place = line.map_or_else(|| pc.to_string(), |line| line.to_string());
            say(&format!("{what} at {place}, {count} times"));
        }
        say(&format!("{} races", found.len()));
    }
}

fn main() {
    unspool_tool::run(Races::new())
}
