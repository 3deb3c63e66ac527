//! Races are told alike whether a check is given executions of code or each access by itself.

use proptest::prelude::*;
use unspool_analyses::RaceCheck;
use unspool_analyses::races::Atomicity;
use unspool_events::raw::{SpecialKind, path_header, special_header};
use unspool_events::superblock::{
    AccessingInstruction, AddressSource, Extent, Operand, Path, Superblock,
};
use unspool_events::{
    Access, AccessKind, Event, Executions, Order, PathId, Sink, SyncOperation, Synchronisation,
    ThreadEvent, ThreadId, Trace, TraceHeader, TraceWriter,
};

const DATA: u64 = 0x10_0000;
/// Two pages: much is met again, and ends of pages are.
const DATA_BYTES: u64 = 0x2000;
const LOCK: u64 = 0x20_0000;
const SLOTS: usize = 3;

/// Passes on each access by itself.
struct OneByOne(RaceCheck);

impl Sink for OneByOne {
    fn needs_order_of_time(&self) -> bool {
        self.0.needs_order_of_time()
    }

    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        batch
            .iter()
            .for_each(|access| self.0.accesses(thread, &[*access]));
    }

    fn event(&mut self, thread: ThreadId, time: u64, event: &Event) {
        self.0.event(thread, time, event);
    }
}

/// Counts what is given as executions.
struct Counting(RaceCheck, u64);

impl Sink for Counting {
    fn needs_order_of_time(&self) -> bool {
        self.0.needs_order_of_time()
    }

    fn takes_executions(&self) -> bool {
        self.0.takes_executions()
    }

    fn executions(&mut self, thread: ThreadId, executions: &Executions<'_>) {
        self.1 += executions.count_accesses();
        self.0.executions(thread, executions);
    }

    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        self.0.accesses(thread, batch);
    }

    fn event(&mut self, thread: ThreadId, time: u64, event: &Event) {
        self.0.event(thread, time, event);
    }
}

/// An access of a piece of code: whether it writes, its size, the word in its address, and what is
/// added.
type Made = (bool, u32, u8, i64);

/// What a thread does: so many executions of a piece of code, or of its first instructions, from these
/// words on, with these advances; that in several rounds, each so far from the one before; and then perhaps a
/// locked instruction on a word.
#[derive(Debug, Clone)]
struct Loop {
    thread: u32,
    code: usize,
    words: [u64; SLOTS],
    advances: [i64; SLOTS],
    count: u64,
    rounds: u64,
    between_rounds: i64,
    instructions: usize,
    locks: Option<u64>,
}

fn made() -> impl Strategy<Value = Made> {
    let size = prop::sample::select(vec![1_u32, 2, 4, 4, 8, 8, 8, 16, 32]);
    let add = prop_oneof![(-4_i64..4).prop_map(|cells| 8 * cells), -20_i64..20];
    (any::<bool>(), size, 0..SLOTS as u8, add)
}

/// A word that threads synchronise by, perhaps one in the midst of data, where many loops come.
fn a_word() -> impl Strategy<Value = u64> {
    let of_data = (0..32_u64).prop_map(|word| DATA + 0x800 + 4 * word);
    prop_oneof![Just(LOCK), of_data]
}

fn a_loop() -> impl Strategy<Value = Loop> {
    let word = prop_oneof![
        (DATA / 8..(DATA + DATA_BYTES) / 8).prop_map(|cell| 8 * cell),
        DATA..DATA + DATA_BYTES,
        // What several meet at.
        Just(DATA + 0x800),
    ];
    let advance = prop::sample::select(vec![0_i64, 8, 8, 8, -8, 16, -16, 24, 32, 4, -4, 2, 1, 12]);
    let advances = prop_oneof![
        prop::array::uniform3(advance.clone()),
        advance.prop_map(|all| [all; SLOTS]),
    ];
    let between = prop::sample::select(vec![0_i64, 8, 64, 200, 1024, -64, 4, 1]);
    (
        1..3_u32,
        0..4_usize,
        prop::array::uniform3(word),
        advances,
        (1..40_u64, 1..4_u64, between, 1..12_usize),
        prop::option::weighted(0.3, a_word()),
    )
        .prop_map(|(thread, code, words, advances, counts, locks)| {
            let (count, rounds, between_rounds, instructions) = counts;
            Loop {
                thread,
                code,
                words,
                advances,
                count,
                rounds,
                between_rounds,
                instructions,
                locks,
            }
        })
}

fn instruction(pc: u64, operands: Vec<Operand>) -> AccessingInstruction {
    AccessingInstruction {
        pc,
        operands,
        ..AccessingInstruction::default()
    }
}

fn operand(is_write: bool, size: u32, address: AddressSource) -> Operand {
    let kind = match is_write {
        true => AccessKind::Write,
        false => AccessKind::Read,
    };
    Operand {
        kind,
        size,
        address,
        extent: Extent::Plain,
    }
}

fn superblock(pc: u64, path: u32, instructions: Vec<AccessingInstruction>) -> Superblock {
    let accessing = instructions.len() as u16;
    Superblock {
        pc,
        first_path: PathId(path),
        instructions,
        paths: vec![Path {
            accessing,
            executed: accessing,
            words: SLOTS as u8,
        }],
    }
}

const LOCKING: u32 = 100;
const PROBING: u32 = 101;

/// The trace of two threads that do this, and of their parent, which in the end writes everywhere
/// though it has not waited for them: that tells what is known of each byte.
fn recorded(codes: &[Vec<Made>], loops: &[Loop]) -> (tempfile::TempDir, Trace) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.unspool");
    let header = TraceHeader {
        order: Order::LineAtomic,
        granule: 64,
        program: b"/bin/true".to_vec(),
        arguments: Vec::new(),
        options: Vec::new(),
        process: 1,
        parent_process: None,
        start_unix_ns: 0,
        tool_version: "0".to_owned(),
    };
    let writer = TraceWriter::create(&path, &header).unwrap();
    for (number, code) in codes.iter().enumerate() {
        let pc = 0x1000 * (number as u64 + 1);
        let made = code.iter().zip((pc..).step_by(4));
        let instructions = made.map(|(&(is_write, size, slot, add), pc)| {
            let address = AddressSource::Word { slot, add };
            instruction(pc, vec![operand(is_write, size, address)])
        });
        writer.define_superblock(&superblock(pc, number as u32, instructions.collect()));
    }
    let word = AddressSource::Word { slot: 0, add: 0 };
    let lock = |is_write| operand(is_write, 4, word);
    let locked = AccessingInstruction {
        atomic: true,
        ..instruction(0x9_0000, vec![lock(false), lock(true)])
    };
    writer.define_superblock(&superblock(0x9_0000, LOCKING, vec![locked]));
    let everywhere = operand(true, 1, word);
    let probe = instruction(0xa_0000, vec![everywhere]);
    writer.define_superblock(&superblock(0xa_0000, PROBING, vec![probe]));

    let mut streams = [Vec::new(), Vec::new(), Vec::new()];
    let mut time = 100;
    let start = |parent: Option<u32>| {
        Event::from(ThreadEvent::Start {
            os_thread: 1,
            parent: parent.map(ThreadId),
        })
    };
    let stamp = |stream: &mut Vec<u64>, time| {
        stream.extend([special_header(SpecialKind::Stamp, 0, 1), time]);
    };
    let executed = |stream: &mut Vec<u64>, path, words: [u64; SLOTS]| {
        stream.push(u64::from(path_header(PathId(path), SLOTS)));
        stream.extend(words);
    };
    let executed_in_part =
        |stream: &mut Vec<u64>, path: usize, instructions, words: [u64; SLOTS]| {
            let argument = path as u64 | (instructions as u64) << 24;
            stream.push(special_header(SpecialKind::Partial, argument, SLOTS));
            stream.extend(words);
        };
    start(None).encode(&mut streams[0]);
    for child in 1..3_u32 {
        let create = Synchronisation {
            operation: SyncOperation::ThreadCreate,
            object: child.into(),
        };
        Event::from(create).encode(&mut streams[0]);
        stamp(&mut streams[child as usize], 50);
        start(Some(0)).encode(&mut streams[child as usize]);
    }
    for it in loops {
        let stream = &mut streams[it.thread as usize];
        stamp(stream, time);
        for round in 0..it.rounds as i64 {
            let way = round * it.between_rounds;
            let mut words = it.words.map(|word| word.wrapping_add_signed(way));
            for _ in 0..it.count {
                match it.instructions < codes[it.code].len() {
                    true => executed_in_part(stream, it.code, it.instructions, words),
                    false => executed(stream, it.code as u32, words),
                }
                for (word, advance) in words.iter_mut().zip(it.advances) {
                    *word = word.wrapping_add_signed(advance);
                }
            }
        }
        time += 1000;
        if let Some(word) = it.locks {
            stamp(stream, time);
            executed(stream, LOCKING, [word, 0, 0]);
            time += 1000;
        }
    }
    stamp(&mut streams[0], time);
    for at in DATA - 0x800..DATA + DATA_BYTES + 0x800 {
        executed(&mut streams[0], PROBING, [at, 0, 0]);
    }
    for (number, stream) in streams.iter().enumerate() {
        let mut thread = writer.thread(ThreadId(number as u32));
        thread.append(stream);
        thread.finish();
    }
    writer.finish().unwrap();
    let trace = Trace::open(&path).unwrap();
    (folder, trace)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn executions_and_their_accesses_are_checked_alike(
        codes in prop::collection::vec(prop::collection::vec(made(), 1..6), 4),
        loops in prop::collection::vec(a_loop(), 1..30),
    ) {
        let (_folder, trace) = recorded(&codes, &loops);
        const MUCH: u64 = 1 << 30;
        let mut single = OneByOne(RaceCheck::new(MUCH));
        prop_assert_eq!(trace.merged().deliver(&mut single), []);
        let mut taken = Counting(RaceCheck::new(MUCH), 0);
        prop_assert_eq!(trace.merged().deliver(&mut taken), []);
        let [single, together] = [&single.0, &taken.0].map(|check| {
            check.report(&[], |_, _| Atomicity::Plain)
        });
        prop_assert!(taken.1 > DATA_BYTES);
        let meet = loops.iter().any(|it| it.locks.is_some_and(|word| word != LOCK));
        prop_assert!(meet || !single.races.is_empty());
        prop_assert_eq!(single, together);
    }
}
