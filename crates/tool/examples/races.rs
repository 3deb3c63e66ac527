//! Finds data races by happens-before (C. Flanagan, S. Freund, "FastTrack", PLDI 2009): two accesses
//! of two threads to the same memory, one of them a write, and nothing between them that would make
//! one thread wait for the other.
//!
//! It knows the functions of [`SYNCHRONISATION`] and instructions with a lock prefix. Memory is told
//! apart by four bytes, and of an access its first four count.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use unspool_tool::lock::Mutex;
use unspool_tool::{
    AccessKind, Address, FunctionArgument, Image, ImageKind, Instruction, InstructionPointer,
    Superblock, ThreadInfo, Tool, effective_address, iced_x86, image_at, say,
};

/// Functions that hand on what their thread has done before to whoever takes it later, by their
/// first argument, when they are entered; and those that take it when they return.
const SYNCHRONISATION: [(&str, bool, bool); 14] = [
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
    ("sem_post", true, false),
    ("sem_wait", false, true),
];
/// Keys of what all threads hand on when they create one, and when they end.
const CREATED: Address = Address(0);
const ENDED: Address = Address(1);

/// How many bits of an epoch are the thread's number. The others are its time.
const THREAD_BITS: u32 = 8;
/// What stands for the last read if several threads have read since the last write.
const SHARED: u32 = u32::MAX;

/// How far each thread is known to have come, by its number.
type Clock = Vec<u32>;

/// The last write to four bytes, and the last read: thread and time.
#[repr(C)]
struct Cell {
    write: AtomicU32,
    read: AtomicU32,
}

struct Races {
    cells: &'static [Cell],
    /// Who has read where the last read is [`SHARED`].
    readers: Mutex<HashMap<u64, Clock>>,
    /// What has been handed on.
    clocks: Mutex<HashMap<Address, Clock>>,
    /// How often which access raced with which thread's, by its instruction.
    found: Mutex<BTreeMap<(Address, &'static str), u64>>,
}

#[derive(Default)]
struct Thread {
    epoch: u32,
    number: usize,
    clock: Clock,
}

impl Thread {
    fn has_seen(&self, epoch: u32) -> bool {
        let thread = epoch as usize & ((1 << THREAD_BITS) - 1);
        epoch == 0
            || self
                .clock
                .get(thread)
                .is_some_and(|&time| time >= epoch >> THREAD_BITS)
    }

    fn tick(&mut self) {
        self.clock[self.number] += 1;
        let time = self.clock[self.number];
        assert!(
            time < SHARED >> THREAD_BITS,
            "a thread has synchronised too often"
        );
        self.epoch = time << THREAD_BITS | self.number as u32;
    }
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
        let bytes = 1_usize << 44;
        let (access, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new mapping, which stays; zeros are a value of cells.
        let cells = unsafe {
            let start = libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0);
            assert_ne!(
                start,
                libc::MAP_FAILED,
                "no address space for {bytes} bytes"
            );
            std::slice::from_raw_parts(start.cast(), bytes / size_of::<Cell>())
        };
        Races {
            cells,
            readers: Mutex::default(),
            clocks: Mutex::default(),
            found: Mutex::default(),
        }
    }

    #[inline]
    fn cell(&self, at: Address) -> &Cell {
        &self.cells[at.0 as usize / 4 % (1 << 41)]
    }

    // ANCHOR: tests
    fn is_first_write(&self, thread: &mut Thread, at: Address) -> bool {
        self.cell(at).write.load(Relaxed) != thread.epoch
    }

    fn is_first_read(&self, thread: &mut Thread, at: Address) -> bool {
        let cell = self.cell(at);
        cell.read.load(Relaxed) != thread.epoch && cell.write.load(Relaxed) != thread.epoch
    }
    // ANCHOR_END: tests

    fn writes(&self, thread: &mut Thread, at: Address, pc: Address) {
        let cell = self.cell(at);
        let write = cell.write.swap(thread.epoch, Relaxed);
        let read = cell.read.swap(0, Relaxed);
        let has_seen_reads = match read {
            SHARED => {
                let readers = self.readers.lock().remove(&at.0).unwrap_or_default();
                let mut times = readers.iter().enumerate();
                times.all(|(reader, &time)| {
                    thread.clock.get(reader).is_some_and(|&seen| seen >= time) || time == 0
                })
            }
            read => thread.has_seen(read),
        };
        if !thread.has_seen(write) {
            self.report(pc, "write after write");
        } else if !has_seen_reads {
            self.report(pc, "write after read");
        }
    }

    fn reads(&self, thread: &mut Thread, at: Address, pc: Address) {
        let cell = self.cell(at);
        if !thread.has_seen(cell.write.load(Relaxed)) {
            self.report(pc, "read after write");
        }
        let read = cell.read.load(Relaxed);
        if read != SHARED && thread.has_seen(read) {
            return cell.read.store(thread.epoch, Relaxed);
        }
        let mut all = self.readers.lock();
        let readers = all.entry(at.0).or_default();
        for epoch in [read, thread.epoch]
            .into_iter()
            .filter(|&epoch| epoch != SHARED)
        {
            let reader = epoch as usize & ((1 << THREAD_BITS) - 1);
            readers.resize(readers.len().max(reader + 1), 0);
            readers[reader] = epoch >> THREAD_BITS;
        }
        cell.read.store(SHARED, Relaxed);
    }

    fn report(&self, pc: Address, what: &'static str) {
        *self.found.lock().entry((pc, what)).or_default() += 1;
    }

    fn acquire(&self, thread: &mut Thread, key: Address) {
        if let Some(clock) = self.clocks.lock().get(&key) {
            join(&mut thread.clock, clock);
        }
    }

    fn release(&self, thread: &mut Thread, key: Address) {
        join(self.clocks.lock().entry(key).or_default(), &thread.clock);
        thread.tick();
    }

    fn atomic(&self, thread: &mut Thread, key: Address) {
        self.acquire(thread, key);
        self.release(thread, key);
    }

    fn creates(&self, thread: &mut Thread) {
        self.release(thread, CREATED);
    }

    fn joined(&self, thread: &mut Thread) {
        self.acquire(thread, ENDED);
    }

    // ANCHOR: check
    fn check(&self, instruction: &Instruction<Self>) {
        let is_atomic = instruction.decoded().has_lock_prefix()
            || instruction.decoded().mnemonic() == iced_x86::Mnemonic::Xchg;
        for operand in instruction.memory_operands() {
            let Some(at) = effective_address(operand) else {
                continue;
            };
            let before = instruction.before();
            match operand.kind {
                AccessKind::Write if is_atomic => before.call(Races::atomic, (at,)),
                _ if is_atomic => {}
                AccessKind::Write => {
                    let arguments = (at, InstructionPointer);
                    before.call_if(Races::is_first_write, (at,), Races::writes, arguments);
                }
                AccessKind::Read => {
                    let arguments = (at, InstructionPointer);
                    before.call_if(Races::is_first_read, (at,), Races::reads, arguments);
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
        for routine in image.routines_named("pthread_cond_wait") {
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
        assert!(thread.number < 1 << THREAD_BITS, "too many threads");
        self.acquire(thread, CREATED);
        thread
            .clock
            .resize(thread.clock.len().max(thread.number + 1), 0);
        thread.tick();
    }

    fn thread_end(&self, _: &ThreadInfo, mut thread: Thread) {
        self.release(&mut thread, ENDED);
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
