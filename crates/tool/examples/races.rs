//! Finds data races by happens-before (C. Flanagan, S. Freund, "FastTrack", PLDI 2009): two accesses
//! of two threads to the same four bytes, one of them a write, and nothing between them by which one
//! thread would have heard of the other.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use unspool_tool::lock::Mutex;
use unspool_tool::{
    AccessKind, Address, Constant, FunctionArgument, Image, InstructionPointer, MemoryOperand,
    Point, Shadow, Side, Superblock, SyncObject, Synchronisation, ThreadInfo, ThreadWord, Tool,
    effective_address, image_at, rarely, say,
};

/// An epoch is a thread's number and its time.
const THREAD_BITS: u32 = 5;
const THREAD: u32 = THREADS as u32 - 1;
const THREADS: usize = 1 << THREAD_BITS;
/// What stands for the last access where several threads have read since the last write.
const SHARED: u32 = u32::MAX;
/// Where the epoch of the last access is in its word.
const LAST: u8 = 0;
/// How many of its reads a thread keeps in mind.
const READS: u64 = 1 << 14;

/// What is kept of an address: times of threads, by their numbers.
#[derive(Default)]
struct Kept {
    /// What whoever takes something from an object there hears of.
    given: [AtomicU32; THREADS],
    /// When each thread has read last there, if the last access is [`SHARED`].
    readers: [AtomicU32; THREADS],
}

struct Races {
    /// For each four bytes of the program's memory, the epochs of the last access and of the last
    /// write. If the last was the same thread's, the thread has heard of whatever was done before.
    cells: Shadow<u64, 4>,
    /// The thread's epoch; and the same twice.
    epoch: ThreadWord<u32>,
    written: ThreadWord<u64>,
    /// Where what is kept of an address is, once anything is.
    kept: Shadow<u64, 4>,
    /// Whoever holds it changes whose a cell is.
    looks: Mutex<()>,
    /// How often which access raced, by its instruction.
    found: Mutex<BTreeMap<Address, u64>>,
}

#[derive(Default)]
struct Thread {
    number: usize,
    /// How far each thread is known to have come, by its number.
    clock: [u32; THREADS],
    /// What it has read last, with the size and the epoch: it need not be looked at again.
    read: Vec<(u64, u32, u32)>,
}

impl Thread {
    fn has_heard_of(&self, epoch: u32) -> bool {
        self.clock[(epoch & THREAD) as usize] >= epoch >> THREAD_BITS
    }
}

/// The first bytes of what an access touches, by four.
fn cells(at: Address, size: u32) -> impl Iterator<Item = u64> {
    (at.0 / 4..=at.0.wrapping_add(u64::from(size) - 1) / 4).map(|cell| cell * 4)
}

/// The epochs of the last access and of the last write, which make a cell.
fn epochs(cell: u64) -> (u32, u32) {
    (cell as u32, (cell >> 32) as u32)
}

fn cell(last: u32, write: u32) -> u64 {
    u64::from(write) << 32 | u64::from(last)
}

impl Races {
    // ANCHOR: tests
    /// Whether more is to be said or kept of an access than its epoch, which is stored if not.
    fn needs_look<const WRITES: bool>(&self, thread: &mut Thread, at: Address, size: u32) -> bool {
        let epoch = self.epoch.get();
        let read = (at.0, size, epoch);
        let place = (at.0 / 4 % READS) as usize;
        // Whoever writes what was read, and has not heard of it, tells the race.
        if !WRITES && thread.read[place] == read {
            return false;
        }
        let needs_look = cells(at, size).any(|at| {
            let word = self.cells.word(at);
            let (last, write) = epochs(word.load(Relaxed));
            if last == SHARED {
                return WRITES || !thread.has_heard_of(write) || !self.note_reader(thread, at);
            }
            let is_ordered = thread.has_heard_of(last) && thread.has_heard_of(write);
            if is_ordered {
                word.store(cell(epoch, if WRITES { epoch } else { write }), Relaxed);
            }
            !is_ordered
        });
        if !WRITES && !needs_look {
            thread.read[place] = read;
        }
        needs_look
    }
    // ANCHOR_END: tests

    /// Notes that the thread reads what is [`SHARED`]; whether there is where to.
    fn note_reader(&self, thread: &Thread, at: u64) -> bool {
        let kept = self.kept(at);
        let time = kept.map(|kept| &kept.readers[thread.number]);
        time.map(|time| time.store(thread.clock[thread.number], Relaxed))
            .is_some()
    }

    fn look<const WRITES: bool>(&self, thread: &mut Thread, at: Address, size: u32, by: Address) {
        let epoch = self.epoch.get();
        for at in cells(at, size) {
            let _alone = self.looks.lock();
            let word = self.cells.word(at);
            let (last, write) = epochs(word.load(Relaxed));
            let readers = &self.kept_or_new(at).readers;
            if last != SHARED {
                readers.iter().for_each(|time| time.store(0, Relaxed));
                readers[(last & THREAD) as usize].store(last >> THREAD_BITS, Relaxed);
            }
            let mut reads = readers.iter().zip(&thread.clock);
            let is_behind_reads = reads.all(|(time, &heard)| time.load(Relaxed) <= heard);
            if !thread.has_heard_of(write) || WRITES && !is_behind_reads {
                *self.found.lock().entry(by).or_default() += 1;
            }
            if WRITES || is_behind_reads {
                word.store(cell(epoch, if WRITES { epoch } else { write }), Relaxed);
            } else {
                readers[thread.number].store(epoch >> THREAD_BITS, Relaxed);
                word.store(cell(SHARED, write), Relaxed);
            }
        }
    }

    // ANCHOR: check
    /// Inserts the test whether the thread was the last one there, and what is to be done if not.
    fn check<const WRITES: bool>(&self, before: &Point<Self>, operand: &MemoryOperand) {
        let Some(at) = effective_address(operand) else {
            return;
        };
        let was_mine = [self.cells.part::<u32>(LAST).is_under(THREAD, self.epoch)];
        let becomes = match WRITES {
            true => self.cells.whole().becomes(self.written),
            false => self.cells.part::<u32>(LAST).becomes(self.epoch),
        };
        let check = (operand, &was_mine[..], &[becomes][..]);
        let (needs_look, look) = (Self::needs_look::<WRITES>, Self::look::<WRITES>);
        let size = Constant(operand.size);
        before.check_shadow_if(
            check,
            needs_look,
            (at, size),
            look,
            (at, size, InstructionPointer),
        );
    }
    // ANCHOR_END: check

    fn kept(&self, at: u64) -> Option<&'static Kept> {
        let place = self.kept.word(at).load(Acquire) as usize;
        // SAFETY: nothing else is stored there, and what is kept is never freed.
        (place != 0).then(|| unsafe { &*std::ptr::with_exposed_provenance(place) })
    }

    // ANCHOR: kept
    fn kept_or_new(&self, at: u64) -> &'static Kept {
        self.kept(at).unwrap_or_else(|| rarely(|| self.add(at)))
    }
    // ANCHOR_END: kept

    fn add(&self, at: u64) -> &'static Kept {
        let new: &'static Kept = Box::leak(Box::default());
        let place = std::ptr::from_ref(new).expose_provenance() as u64;
        let word = self.kept.word(at);
        let is_first = word.compare_exchange(0, place, AcqRel, Acquire).is_ok();
        if is_first { new } else { self.kept_or_new(at) }
    }

    fn given(&self, object: SyncObject) -> &'static [AtomicU32; THREADS] {
        let at = match object {
            SyncObject::Memory(at) => at,
            SyncObject::Thread(number) => u64::from(number) * 4,
        };
        &self.kept_or_new(at).given
    }

    fn gives(&self, thread: &mut Thread, object: SyncObject) {
        for (given, &time) in self.given(object).iter().zip(&thread.clock) {
            if given.load(Relaxed) < time {
                given.fetch_max(time, AcqRel);
            }
        }
        self.begin_epoch(thread);
    }

    fn takes(&self, thread: &mut Thread, object: SyncObject) {
        for (given, time) in self.given(object).iter().zip(&mut thread.clock) {
            *time = given.load(Acquire).max(*time);
        }
    }

    fn unlocks(&self, thread: &mut Thread, lock: Address) {
        self.gives(thread, SyncObject::Memory(lock.0));
    }

    /// What the thread does from now on is later than what it has given.
    fn begin_epoch(&self, thread: &mut Thread) {
        let time = thread.clock[thread.number] + 1;
        assert!(time < SHARED >> THREAD_BITS, "too many synchronisations");
        thread.clock[thread.number] = time;
        let epoch = time << THREAD_BITS | thread.number as u32;
        self.epoch.set(epoch);
        self.written.set(cell(epoch, epoch));
    }
}

impl Tool for Races {
    type Thread = Thread;
    const SYNCHRONISATION: bool = true;

    fn instrument(&self, superblock: &Superblock<Self>) {
        // The C library and the loader synchronise by plain moves, too.
        let image = image_at(superblock.address());
        let path = image.map_or_else(String::new, |image| image.path().display().to_string());
        if ["/libc.so", "/ld-"].iter().any(|name| path.contains(name)) {
            return;
        }
        let instructions = superblock.instructions();
        for instruction in instructions.filter(|instruction| !instruction.is_atomic()) {
            for operand in instruction.memory_operands() {
                match operand.kind {
                    AccessKind::Write => self.check::<true>(&instruction.before(), operand),
                    AccessKind::Read => self.check::<false>(&instruction.before(), operand),
                }
            }
        }
    }

    // ANCHOR: hooks
    fn synchronisation(&self, thread: &mut Thread, event: &Synchronisation) {
        match event.side {
            Side::Gives => self.gives(thread, event.object),
            Side::Takes => self.takes(thread, event.object),
        }
    }

    /// A spin lock is released by a plain move, which is no such event.
    fn image_load(&self, image: &Image<Self>) {
        let lock = FunctionArgument::<Address, 0>::new();
        for unlock in image.routines_named("pthread_spin_unlock") {
            unlock.entry().call(Races::unlocks, (lock,));
        }
    }
    // ANCHOR_END: hooks

    fn thread_start(&self, info: &ThreadInfo, thread: &mut Thread) {
        assert!(info.number < THREAD, "too many threads");
        thread.number = info.number as usize;
        thread.read = vec![(0, 0, 0); READS as usize];
        self.begin_epoch(thread);
    }

    fn end(&self) {
        let found = self.found.lock();
        for (by, count) in found.iter() {
            let line = image_at(by.0).and_then(|image| image.source_line(by.0));
            let place = line.map_or_else(|| by.to_string(), |line| line.to_string());
            say(&format!("a race at {place}, {count} times"));
        }
        say(&format!("{} races", found.len()));
    }
}

fn main() {
    unspool_tool::run(Races {
        cells: Shadow::new().expect("no room for cells"),
        epoch: ThreadWord::new(),
        written: ThreadWord::new(),
        kept: Shadow::new().expect("no room for what is kept"),
        looks: Mutex::default(),
        found: Mutex::default(),
    })
}
