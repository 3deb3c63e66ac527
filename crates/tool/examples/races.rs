//! Finds data races by happens-before (C. Flanagan, S. Freund, "FastTrack", PLDI 2009): two accesses
//! of two threads to the same four bytes, one of them a write, and nothing between them by which one
//! thread would have heard of the other.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use unspool_tool::lock::Mutex;
use unspool_tool::{
    AccessKind, Address, Constant, FunctionArgument, Image, InstructionPointer, MemoryOperand,
    Point, Shadow, Side, Superblock, SyncObject, Synchronisation, ThreadInfo, ThreadWord, Tool,
    effective_address, image_at, say,
};

/// How far each thread is known to have come, by its number.
type Clock = Vec<u32>;

/// An epoch is a thread's number and its time.
const THREAD_BITS: u32 = 6;
const THREAD: u32 = (1 << THREAD_BITS) - 1;
/// What stands for the last access where several threads have read since the last write.
const SHARED: u32 = u32::MAX;
/// Where the epoch of the last access is in its word.
const LAST: u8 = 0;
/// How many of its reads there a thread keeps in mind.
const READS: u64 = 1 << 14;

struct Races {
    /// For each four bytes of the program's memory, the epochs of the last access and of the last
    /// write. If the last was the same thread's, the thread has heard of whatever was done before.
    cells: Shadow<u64, 4>,
    /// The thread's epoch; and the same twice.
    epoch: ThreadWord<u32>,
    written: ThreadWord<u64>,
    /// Who has read where the last access is [`SHARED`].
    readers: Mutex<HashMap<u64, Clock>>,
    /// What whoever takes something from an object hears of: where that is kept, once it is.
    given: Shadow<u64, 4>,
    /// How often which access raced, by its instruction.
    found: Mutex<BTreeMap<Address, u64>>,
}

#[derive(Default)]
struct Thread {
    number: usize,
    clock: Clock,
    /// Where it has read last of what is [`SHARED`], with its epoch and that of the write before.
    read: Vec<(u64, u32, u32)>,
}

impl Thread {
    fn has_heard_of(&self, epoch: u32) -> bool {
        let (thread, time) = ((epoch & THREAD) as usize, epoch >> THREAD_BITS);
        time == 0 || self.clock.get(thread).is_some_and(|&heard| heard >= time)
    }
}

/// The later of each pair of times.
fn join(clock: &mut Clock, other: &Clock) {
    clock.resize(clock.len().max(other.len()), 0);
    let pairs = clock.iter_mut().zip(other);
    pairs.for_each(|(time, &other)| *time = other.max(*time));
}

fn hear_of(clock: &mut Clock, epoch: u32) {
    let thread = (epoch & THREAD) as usize;
    clock.resize(clock.len().max(thread + 1), 0);
    clock[thread] = epoch >> THREAD_BITS;
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
        cells(at, size).any(|at| {
            let word = self.cells.word(at);
            let (last, write) = epochs(word.load(Relaxed));
            if last == SHARED {
                return WRITES || thread.read[(at / 4 % READS) as usize] != (at, epoch, write);
            }
            let is_ordered = thread.has_heard_of(last) && thread.has_heard_of(write);
            if is_ordered {
                word.store(cell(epoch, if WRITES { epoch } else { write }), Relaxed);
            }
            !is_ordered
        })
    }
    // ANCHOR_END: tests

    fn look<const WRITES: bool>(&self, thread: &mut Thread, at: Address, size: u32, by: Address) {
        let epoch = self.epoch.get();
        for at in cells(at, size) {
            let mut all = self.readers.lock();
            let word = self.cells.word(at);
            let (last, write) = epochs(word.load(Relaxed));
            let readers = all.entry(at).or_default();
            if last != SHARED {
                readers.clear();
                hear_of(readers, last);
            }
            let heard = thread.clock.iter().chain(std::iter::repeat(&0));
            let is_behind_reads = readers.iter().zip(heard).all(|(read, heard)| read <= heard);
            if !thread.has_heard_of(write) || WRITES && !is_behind_reads {
                *self.found.lock().entry(by).or_default() += 1;
            }
            if WRITES || is_behind_reads {
                all.remove(&at);
                word.store(cell(epoch, if WRITES { epoch } else { write }), Relaxed);
            } else {
                hear_of(readers, epoch);
                word.store(cell(SHARED, write), Relaxed);
                thread.read[(at / 4 % READS) as usize] = (at, epoch, write);
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

    fn given_at(&self, object: SyncObject) -> &'static Mutex<Clock> {
        let word = self.given.word(match object {
            SyncObject::Memory(at) => at,
            SyncObject::Thread(number) => u64::from(number) * 4,
        });
        let mut kept = word.load(Acquire);
        if kept == 0 {
            let new: &'static Mutex<Clock> = Box::leak(Box::default());
            let new = std::ptr::from_ref(new).expose_provenance() as u64;
            kept = word
                .compare_exchange(0, new, AcqRel, Acquire)
                .err()
                .unwrap_or(new);
        }
        // SAFETY: nothing else is stored there, and what is stored is never freed.
        unsafe { &*std::ptr::with_exposed_provenance(kept as usize) }
    }

    fn gives(&self, thread: &mut Thread, object: SyncObject) {
        join(&mut self.given_at(object).lock(), &thread.clock);
        self.begin_epoch(thread);
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
            Side::Takes => join(&mut thread.clock, &self.given_at(event.object).lock()),
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
        thread.clock = vec![0; thread.number + 1];
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
        readers: Mutex::default(),
        given: Shadow::new().expect("no room for objects"),
        found: Mutex::default(),
    })
}
