//! What packing and unpacking cost: time per word of raw stream, bytes per access, and
//! accesses per second.
//!
//! Every benchmark writes or reads whole traces through the public interface; divan's
//! "items" are words when writing and accesses when reading. Sizes are printed first.

use std::fs::File;
use std::hint::black_box;
use std::path::Path;

use divan::Bencher;
use divan::counter::ItemsCount;
use unspool_events::raw::path_header;
use unspool_events::superblock::*;
use unspool_events::*;

/// Words of each workload.
const WORDS: usize = 1 << 21;

/// How the words of a workload behave.
#[derive(Debug, Clone, Copy)]
enum Workload {
    /// One loop over four arrays.
    RegularLoop,
    /// Calls, branches and pointers: few hundred paths with skewed frequencies, stack
    /// addresses that repeat, heap addresses that jump within a megabyte.
    Typical,
    /// Random paths with random addresses: nothing can be predicted.
    Irregular,
}

const WORKLOADS: [Workload; 3] = [
    Workload::RegularLoop,
    Workload::Typical,
    Workload::Irregular,
];

/// Accesses of each path, for each of its words.
const ACCESSES_PER_WORD: usize = 2;

/// A generator of numbers that look random (xorshift, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// How many words the records of a path have.
fn words_of(path: u32) -> usize {
    1 + path as usize % 7
}

fn superblocks() -> Vec<Superblock> {
    let superblock = |path: u32| {
        let words = words_of(path);
        let instructions = (0..words * ACCESSES_PER_WORD).map(|i| AccessingInstruction {
            pc: u64::from(path) * 256 + i as u64 * 4,
            operands: vec![Operand {
                kind: if i % 3 == 0 {
                    AccessKind::Write
                } else {
                    AccessKind::Read
                },
                size: 8,
                address: AddressSource::Word {
                    slot: (i / 2) as u8,
                    add: i as i64 * 8,
                },
                extent: Extent::Plain,
            }],
            ..AccessingInstruction::default()
        });
        let instructions: Vec<_> = instructions.collect();
        let accessing = instructions.len() as u16;
        let paths = vec![unspool_events::superblock::Path {
            accessing,
            executed: accessing * 3,
            words: words as u8,
        }];
        Superblock {
            pc: u64::from(path) * 256,
            first_path: PathId(path),
            instructions,
            paths,
        }
    };
    (0..1024).map(superblock).collect()
}

fn words(workload: Workload) -> Vec<u64> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut words = Vec::with_capacity(WORDS + 8);
    let mut step = 0_u64;
    let mut depth = 0_u64;
    let mut path = 0_u32;
    while words.len() < WORDS {
        step += 1;
        path = match workload {
            Workload::RegularLoop => 3,
            // Mostly the usual successor, sometimes a branch, seldom somewhere else.
            Workload::Typical => match random.below(16) {
                0 => random.below(400) as u32,
                1 | 2 => (path * 7 + 2) % 400,
                _ => (path * 7 + 1) % 400,
            },
            Workload::Irregular => random.below(1000) as u32,
        };
        if random.below(64) == 0 {
            depth = random.below(16);
        }
        let count = words_of(path);
        words.push(u64::from(path_header(PathId(path), count)));
        for slot in 0..count as u64 {
            words.push(match workload {
                Workload::RegularLoop => 0x7000_0000_0000 + slot * 0x100_0000 + step * 8 * slot,
                Workload::Typical if slot % 2 == 0 => 0x7fff_ffff_0000 - depth * 96,
                Workload::Typical if slot % 4 == 1 => 0x5555_0000_0000 + step * 8,
                Workload::Typical => 0x5555_0100_0000 + random.below(1 << 16) * 16,
                Workload::Irregular => 0x7000_0000_0000 + random.below(1 << 27) * 8,
            });
        }
    }
    words
}

fn header() -> TraceHeader {
    TraceHeader {
        order: Order::LineAtomic,
        granule: 64,
        program: Vec::new(),
        arguments: Vec::new(),
        options: Vec::new(),
        process: 1,
        parent_process: None,
        start_unix_ns: 0,
        tool_version: String::new(),
    }
}

/// Writes a trace the way an engine does: a buffer of 8192 words at a time.
fn write(file: File, superblocks: &[Superblock], words: &[u64]) -> Summary {
    let writer = TraceWriter::from_file(file, &header()).expect("writable");
    superblocks
        .iter()
        .for_each(|superblock| writer.define_superblock(superblock));
    let mut encoder = writer.thread(ThreadId(0));
    let mut start = 0;
    let mut position = 0;
    while position < words.len() {
        position += 1 + (words[position] >> 24 & 0x7f) as usize;
        if position - start >= 8192 || position == words.len() {
            encoder.append(&words[start..position]);
            start = position;
        }
    }
    encoder.finish();
    writer.finish().expect("writable")
}

fn write_to(path: &Path, workload: Workload) -> Summary {
    write(
        File::create(path).expect("writable"),
        &superblocks(),
        &words(workload),
    )
}

/// Packs and writes to nowhere.
#[divan::bench(args = WORKLOADS, sample_count = 20)]
fn encode(bencher: Bencher<'_, '_>, workload: Workload) {
    let (superblocks, words) = (superblocks(), words(workload));
    bencher
        .counter(ItemsCount::new(words.len()))
        .bench_local(|| {
            let nowhere = File::options()
                .write(true)
                .open("/dev/null")
                .expect("writable");
            black_box(write(nowhere, &superblocks, &words))
        });
}

/// Sums up addresses: about the least that an analysis can do.
#[derive(Default)]
struct Sum(u64);

impl Sink for Sum {
    fn accesses(&mut self, _: ThreadId, batch: &[Access]) {
        self.0 = batch
            .iter()
            .fold(self.0, |sum, access| sum.wrapping_add(access.address));
    }
}

fn read(bencher: Bencher<'_, '_>, workload: Workload, deliver: fn(&Trace, &mut Sum)) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("trace");
    let summary = write_to(&path, workload);
    let trace = Trace::open(&path).expect("readable");
    bencher
        .counter(ItemsCount::new(summary.accesses))
        .bench_local(|| {
            let mut sum = Sum::default();
            deliver(&trace, &mut sum);
            black_box(sum.0)
        });
}

/// Reads one thread.
#[divan::bench(args = WORKLOADS, sample_count = 20)]
fn decode(bencher: Bencher<'_, '_>, workload: Workload) {
    read(bencher, workload, |trace, sum| {
        assert_eq!(trace.thread(ThreadId(0)).deliver(sum), []);
    });
}

/// Reads through the merge (of one thread).
#[divan::bench(args = WORKLOADS, sample_count = 20)]
fn decode_merged(bencher: Bencher<'_, '_>, workload: Workload) {
    read(bencher, workload, |trace, sum| {
        assert_eq!(trace.merged().deliver(sum), []);
    });
}

fn main() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for workload in WORKLOADS {
        let summary = write_to(&directory.path().join("trace"), workload);
        println!(
            "{workload:?}: {:.3} bytes per access, {:.3} bytes per word, {:.2} accesses per word",
            summary.file_bytes as f64 / summary.accesses as f64,
            summary.file_bytes as f64 / summary.raw_words as f64,
            summary.accesses as f64 / summary.raw_words as f64,
        );
    }
    divan::main();
}
