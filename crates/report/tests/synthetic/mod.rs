//! Traces of a simulated machine: threads that load, store, add and compare-and-swap in a
//! few shared words, in a known order. Everything in such a trace is true, so readers can
//! be held to it.
#![allow(
    dead_code,
    reason = "each test program that includes this uses a part of it"
)]

use std::path::Path;

use unspool_events::raw::{SpecialKind, path_header, special_header};
use unspool_events::superblock::{
    AccessingInstruction, AddressSource, Extent, Operand, Path as CodePath, Superblock,
};
use unspool_events::{
    AccessKind, Event, FunctionId, Module, ModuleId, Order, PathId, Span, SyncOperation,
    Synchronisation, ThreadEncoder, ThreadEvent, ThreadId, TraceHeader, TraceWriter,
    TracedFunction,
};

/// The address of shared word 0; each further word lies in a line of its own.
pub(crate) const FIRST_WORD: u64 = 0x7f00_0000_1000;
pub(crate) const WORDS: usize = 3;
pub(crate) const THREADS: usize = 4;

/// What the simulated threads did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Truth {
    /// By thread: increments of word 0, and how many of them found an even value.
    pub(crate) increments: [(u64, u64); THREADS],
    /// By thread: failed compare-and-swaps on word 0.
    pub(crate) failed_swaps: [u64; THREADS],
}

/// How a simulated trace is recorded.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Recording {
    pub(crate) order: Order,
    pub(crate) values: bool,
    pub(crate) failed_cas: bool,
    pub(crate) steps: usize,
    /// Steps after which a thread's buffer is written, on average.
    pub(crate) flush_every: u64,
}

impl Default for Recording {
    fn default() -> Recording {
        Recording {
            order: Order::LineAtomic,
            values: false,
            failed_cas: false,
            steps: 3000,
            flush_every: 100,
        }
    }
}

/// Numbers that look random and are the same each time (Marsaglia's xorshift64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// The four instructions, each a superblock of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Load,
    Store,
    Add,
    Swap,
}

const OPERATIONS: [Operation; 4] = [
    Operation::Load,
    Operation::Store,
    Operation::Add,
    Operation::Swap,
];

fn superblock(operation: Operation) -> Superblock {
    let operand = |kind| Operand {
        kind,
        size: 8,
        address: AddressSource::Word { slot: 0, add: 0 },
        extent: Extent::Plain,
    };
    let operands = match operation {
        Operation::Load => vec![operand(AccessKind::Read)],
        Operation::Store => vec![operand(AccessKind::Write)],
        _ => vec![operand(AccessKind::Read), operand(AccessKind::Write)],
    };
    let words = if operation == Operation::Swap { 2 } else { 1 };
    let pc = 0x40_1000 + 16 * operation as u64;
    Superblock {
        pc,
        first_path: PathId(operation as u32),
        instructions: vec![AccessingInstruction {
            pc,
            atomic: operands.len() == 2,
            ticket: None,
            cas_success: (operation == Operation::Swap).then_some(1),
            operands,
            ..AccessingInstruction::default()
        }],
        paths: vec![CodePath {
            accessing: 1,
            executed: 3,
            words,
        }],
    }
}

pub(crate) fn header(recording: Recording) -> TraceHeader {
    let mut options = Vec::new();
    for (name, on) in [
        ("verify", recording.values),
        ("failed-cas", recording.failed_cas),
    ] {
        if on {
            options.push((name.to_owned(), "true".to_owned()));
        }
    }
    TraceHeader {
        order: recording.order,
        granule: 64,
        program: b"/usr/bin/simulated".to_vec(),
        arguments: vec![b"simulated".to_vec(), b"4".to_vec()],
        options,
        process: 100,
        parent_process: None,
        start_unix_ns: 1_700_000_000_000_000_000,
        tool_version: "0.1.0".to_owned(),
    }
}

/// One simulated thread.
struct Thread {
    encoder: ThreadEncoder,
    clock: u64,
}

/// The simulated machine while it runs.
struct Machine {
    recording: Recording,
    threads: Vec<Thread>,
    memory: [u64; WORDS],
    /// The time of the last access to each word.
    line_clocks: [u64; WORDS],
    truth: Truth,
}

/// Runs the simulation and writes its trace.
pub(crate) fn record(path: &Path, recording: Recording) -> Truth {
    record_to(
        TraceWriter::create(path, &header(recording)).unwrap(),
        recording,
    )
}

/// The same, to any writer.
pub(crate) fn record_to(writer: TraceWriter, recording: Recording) -> Truth {
    let path = b"/usr/bin/simulated".to_vec();
    writer.define_module(&Module {
        id: ModuleId(0),
        path,
        base: 0x40_0000,
        size: 0x2000,
        build_id: vec![7],
    });
    let name = "push".to_owned();
    writer.define_function(&TracedFunction {
        id: FunctionId(0),
        name,
        address: 0x40_1100,
    });
    OPERATIONS
        .iter()
        .for_each(|operation| writer.define_superblock(&superblock(*operation)));
    let threads = (0..THREADS as u32)
        .map(|thread| Thread {
            encoder: writer.thread(ThreadId(thread)),
            clock: 0,
        })
        .collect();
    let mut machine = Machine {
        recording,
        threads,
        memory: [0; WORDS],
        line_clocks: [0; WORDS],
        truth: Truth::default(),
    };
    machine.start_threads();
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    for _ in 0..recording.steps {
        machine.step(&mut dice);
    }
    for thread in 0..THREADS {
        machine.event(thread, &Event::Thread(ThreadEvent::End));
    }
    machine
        .threads
        .into_iter()
        .for_each(|thread| thread.encoder.finish());
    writer.finish().unwrap();
    machine.truth
}

impl Machine {
    /// The first thread creates the others, in whose clocks that time is the start. It
    /// flushes its buffer then, so that whoever reads a stream knows of them in time.
    fn start_threads(&mut self) {
        for thread in 0..THREADS {
            let parent = (thread > 0).then_some(ThreadId(0));
            if thread > 0 {
                let object = thread as u64;
                self.event(
                    0,
                    &Event::Synchronisation(Synchronisation {
                        operation: SyncOperation::ThreadCreate,
                        object,
                    }),
                );
                self.stamp(thread, self.threads[0].clock + 1);
            }
            self.event(
                thread,
                &Event::Thread(ThreadEvent::Start {
                    os_thread: 100 + thread as u32,
                    parent,
                }),
            );
        }
        self.threads[0].encoder.flush();
    }

    fn event(&mut self, thread: usize, event: &Event) {
        let mut words = Vec::new();
        event.encode(&mut words);
        let thread = &mut self.threads[thread];
        thread.encoder.append(&words);
        thread.clock += 1;
    }

    /// Moves a thread's clock to just before its next item has this time.
    fn stamp(&mut self, thread: usize, time: u64) {
        let thread = &mut self.threads[thread];
        if self.recording.order == Order::LineAtomic && time > thread.clock + 1 {
            thread
                .encoder
                .append(&[special_header(SpecialKind::Stamp, 0, 1), time]);
            thread.clock = time - 1;
        }
    }

    /// One access of one thread.
    fn step(&mut self, dice: &mut Dice) {
        let thread = dice.below(THREADS as u64) as usize;
        if dice.below(200) == 0 {
            let arguments = [dice.below(9), 0, 0];
            self.event(
                thread,
                &Event::Span(Span::FunctionCall {
                    function: FunctionId(0),
                    stack_pointer: 64,
                    arguments,
                }),
            );
            self.event(thread, &Event::Thread(ThreadEvent::ClockMoved));
        }
        let word = dice.below(WORDS as u64) as usize;
        let operation = match word {
            // Word 0 is the counter: nobody stores to it.
            0 => [Operation::Load, Operation::Add, Operation::Swap][dice.below(3) as usize],
            _ => OPERATIONS[dice.below(4) as usize],
        };
        let succeeds = operation != Operation::Swap || dice.below(3) > 0;
        let before = self.memory[word];
        let after = match operation {
            Operation::Store => dice.below(1000),
            Operation::Add | Operation::Swap if succeeds => before + 1,
            _ => before,
        };
        self.memory[word] = after;
        if word == 0 && operation != Operation::Load {
            let (increments, evens) = &mut self.truth.increments[thread];
            *increments += u64::from(succeeds);
            *evens += u64::from(succeeds && before.is_multiple_of(2));
            self.truth.failed_swaps[thread] += u64::from(!succeeds);
        }
        self.stamp(thread, self.line_clocks[word] + 1);
        self.append(thread, word, operation, succeeds, [before, after]);
        self.line_clocks[word] = self.threads[thread].clock;
        if dice.below(self.recording.flush_every) == 0 {
            self.threads[thread].encoder.flush();
        }
    }

    fn append(
        &mut self,
        thread: usize,
        word: usize,
        operation: Operation,
        succeeds: bool,
        values: [u64; 2],
    ) {
        let mut words = Vec::new();
        if self.recording.values {
            let values = match operation {
                Operation::Load => &values[..1],
                Operation::Store => &values[1..],
                _ => &values[..],
            };
            words.push(special_header(SpecialKind::Values, 0, values.len()));
            words.extend_from_slice(values);
        }
        let address = FIRST_WORD + 64 * word as u64;
        let count = if operation == Operation::Swap { 2 } else { 1 };
        words.push(path_header(PathId(operation as u32), count).into());
        words.push(address);
        if operation == Operation::Swap {
            words.push(succeeds.into());
        }
        let thread = &mut self.threads[thread];
        thread.encoder.append(&words);
        thread.clock += 1;
    }
}
