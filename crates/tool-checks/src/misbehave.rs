//! Tools that do what a tool must not do: panic, wait or run for ever, or want all the memory there is.

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use unspool_tool::{
    AccessKind, Address, Batch, Buffer, Controller, Counter, Flags, Image, Instruction,
    InstructionPointer, MemoryOperand, Original, Sampler, Shadow, Shape, SignalOrigin, Superblock,
    Switch, SystemCall, ThreadWord, Tool, Trigger, branch_taken, iced_x86::Mnemonic, install,
    mask_register, memory_value, raise_signal, rarely, say, spawn, vector_register,
};

use crate::asked;

static LOCK: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// What doubles when it is full.
static ONE_BLOCK: Mutex<Vec<u8>> = Mutex::new(Vec::new());

static FORKS_WAIT: unspool_tool::lock::Mutex<()> = unspool_tool::lock::Mutex::new(());

/// The tool.
pub(crate) struct Misbehave {
    /// One to which it appends where it must not.
    buffer: Option<Buffer<Misbehave, u64>>,
    /// One with a consumer.
    consumed: Option<Buffer<Misbehave, u64>>,
}

impl Misbehave {
    /// With `huge-buffer`, `endless-buffer` and `many-buffers`, it has buffers that do not fit.
    pub(crate) fn new() -> Misbehave {
        let ignore = |_: &Misbehave, (): &mut (), _: &[Entry]| {};
        let sizes: &[usize] = match () {
            () if asked("endless-buffer") => &[usize::MAX / 8],
            () if asked("huge-buffer") => &[1 << 30],
            () if asked("many-buffers") => &[1; 9],
            () if asked("buffer-without-room") => &[0],
            () => &[],
        };
        for entries in sizes {
            let _ = Buffer::new(*entries, ignore);
        }
        ask_for_what_cannot_be();
        let appends = [
            "append-in-delivery",
            "append-in-instrument",
            "append-in-thread",
        ];
        let appends = appends.into_iter().any(asked);
        let consumed = ["panic-in-consumer", "block-in-consumer", "append-with-lock"];
        let consumed = consumed.into_iter().any(asked);
        Misbehave {
            buffer: appends.then(|| Buffer::new(1, Misbehave::deliver)),
            consumed: consumed.then(|| Buffer::with_consumer(1, 2, Misbehave::consume)),
        }
    }
}

/// Before the program runs.
fn ask_for_what_cannot_be() {
    let begin = || Trigger::entry("main");
    if asked("many-counters") {
        for _ in 0..=1 << 21 {
            let _ = Counter::new();
        }
    }
    if asked("many-samplers") {
        for _ in 0..65 {
            let _ = Sampler::every(5);
        }
    }
    if asked("sampler-without-period") {
        let _ = Sampler::every(0);
    }
    if asked("sampler-with-jitter") {
        let _ = Sampler::about_every(5, 5);
    }
    if asked("many-thread-words") {
        for _ in 0..9 {
            let _ = ThreadWord::<u64>::new();
        }
    }
    if asked("many-switches") {
        for _ in 0..9 {
            let _ = Switch::new();
        }
    }
    if asked("many-controllers") {
        let count = || Trigger::instructions(5);
        for _ in 0..9 {
            let _ = Controller::of_threads(count(), count());
        }
    }
    if asked("controller-by-time") {
        let _ = Controller::of_threads(begin(), Trigger::time(Duration::from_secs(1)));
    }
    if asked("controller-by-count") {
        let _ = Controller::of_process(begin(), Trigger::instructions(5));
    }
    if asked("trigger-before-the-first") {
        let _ = begin().nth(0);
    }
    if asked("many-shadows") {
        for _ in 0..5 {
            let _ = Shadow::<u8, 4096>::new().expect("there is room");
        }
    }
    if asked("part-beyond-word") {
        let shadow = Shadow::<u32, 64>::new().expect("there is room");
        let _ = shadow.part::<u32>(2);
    }
    if asked("no-vector-register") {
        let _ = vector_register::<16>(32);
    }
    if asked("no-mask-register") {
        let _ = mask_register(8);
    }
    if asked("early-signal") {
        raise_signal(0, 10, SignalOrigin::Queue { value: 0 });
    }
    if asked("no-signal") {
        raise_signal(0, 9, SignalOrigin::Queue { value: 0 });
    }
    if asked("two-tools") {
        install(crate::bystander::Bystander);
        install(crate::bystander::Bystander);
    }
}

static IS_LATE: AtomicBool = AtomicBool::new(false);

static CALLS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static IS_FIRST: Cell<bool> = const { Cell::new(true) };
}

/// What is waited for before a signal is sent.
fn announce() {
    say("tool: this takes long");
}

fn run_for_ever() {
    announce();
    run_until(Instant::now() + Duration::from_secs(1 << 30));
}

/// Uses the processor until then.
fn run_until(then: Instant) {
    while Instant::now() < then {
        std::hint::spin_loop();
    }
}

type Entry = (u64, u64, u64, u64, u64, u64);

impl Misbehave {
    fn deliver(&self, (): &mut (), batch: &[u64]) {
        if asked("append-in-delivery") {
            self.append(batch[0]);
        }
    }

    fn consume(&self, batch: Batch<u64>) {
        if asked("panic-in-consumer") {
            panic!("this consumer is wrong");
        }
        if asked("block-in-consumer") && batch.is_last() {
            let _first = LOCK.lock();
            let _second = LOCK.lock();
        }
    }

    fn append(&self, value: u64) {
        if let Some(buffer) = self.buffer {
            buffer.append(&mut (), value);
        }
    }

    fn called(&self, (): &mut (), _: Address) {
        if asked("append-in-delivery") {
            self.append(1);
        }
        if let Some(buffer) = self.consumed {
            let _held = asked("append-with-lock").then(|| FORKS_WAIT.lock());
            buffer.append(&mut (), 4);
        }
        if asked("loop-in-call") || asked("loop-in-other-thread") && !IS_FIRST.get() {
            run_for_ever();
        }
        if asked("loop-with-memory") {
            announce();
            loop {
                std::hint::black_box(vec![0_u8; 100]);
            }
        }
        if asked("slow-in-call") && !IS_LATE.swap(true, Ordering::Relaxed) {
            announce();
            run_until(Instant::now() + Duration::from_secs(3));
        }
        if asked("panic-in-call") {
            panic!("this analysis is wrong");
        }
        if asked("leak") {
            LOCK.lock().unwrap().push(vec![1; 8 << 20]);
        }
        if asked("leak-in-one-block") {
            ONE_BLOCK.lock().unwrap().extend([1; 64 << 10]);
        }
        let calls = CALLS.fetch_add(1, Ordering::Relaxed);
        if asked("leak-slowly") && calls.is_multiple_of(512) {
            LOCK.lock().unwrap().push(vec![1; 128 << 10]);
        }
        if asked("keep") && calls < 24 {
            LOCK.lock().unwrap().push(vec![1; 8 << 20]);
        }
        if asked("block-in-call") {
            let _first = LOCK.lock();
            let _second = LOCK.lock();
        }
    }
}

/// Rewrites what cannot be rewritten.
fn rewrite(instruction: &Instruction<Misbehave>) {
    let place = |_: &Misbehave, (): &mut (), at: Address| at;
    let rewrite =
        |operand| instruction.rewrite_memory_operand(operand, place, (InstructionPointer,));
    let is_repeated = |it: &MemoryOperand| matches!(it.shape, Shape::Repeat { .. });
    for operand in instruction.memory_operands() {
        let is_fixed = instruction.fixed_operand(operand).is_some();
        let is_pushed = is_fixed && instruction.decoded().mnemonic() == Mnemonic::Push;
        if asked("rewrite-implied") && is_pushed
            || asked("rewrite-string") && is_repeated(operand)
            || asked("rewrite-twice") && !is_fixed
        {
            rewrite(operand);
        }
        let value = memory_value(operand).filter(|_| operand.kind == AccessKind::Read);
        if let (true, false, Some(value)) = (asked("rewrite-value"), is_fixed, value) {
            rewrite(operand);
            let function = |_: &Misbehave, (): &mut (), _: u64| {};
            instruction.before().call(function, (value,));
        }
    }
}

type Allocation = extern "C" fn(u64) -> u64;

impl Misbehave {
    fn wrapped(&self, original: &mut Original<'_, Self, Allocation>, size: u64) -> u64 {
        rarely(|| original.call(size))
    }
}

impl Tool for Misbehave {
    type Thread = ();

    fn image_load(&self, image: &Image<Self>) {
        if asked("original-rarely") {
            image.wrap::<Allocation>("malloc", Self::wrapped);
        }
    }

    fn instrument(&self, superblock: &Superblock<Self>) {
        if asked("append-in-instrument") {
            self.append(2);
        }
        if asked("loop-in-instrument") {
            run_for_ever();
        }
        if asked("panic-in-instrument") {
            panic!("this instrumentation is wrong");
        }
        if asked("flags") {
            let first = superblock.instructions().next().expect("there is one");
            first
                .before()
                .call(|_: &Misbehave, (): &mut (), _: u64| {}, (Flags,));
        }
        for instruction in superblock.instructions() {
            let mut operands = instruction.memory_operands().iter();
            let written = operands.find(|it| it.kind == AccessKind::Write);
            let Some(value) = written.and_then(memory_value) else {
                continue;
            };
            let function = |_: &Misbehave, (): &mut (), _: u64| {};
            if asked("value-too-early") {
                instruction.before().call(function, (value,));
            }
            let mut others = superblock.instructions();
            let other = others.find(|it| it.memory_operands().is_empty());
            if let (true, Some(other)) = (asked("value-of-another"), other) {
                other.before().call(function, (value,));
            }
        }
        for instruction in superblock.instructions() {
            rewrite(&instruction);
        }
        if asked("no-branch") {
            // Of a branch, asked at an instruction that is none.
            let mut all = superblock.instructions();
            let taken = all.find_map(|it| branch_taken(&it));
            let other = superblock
                .instructions()
                .find(|it| branch_taken(it).is_none());
            if let (Some(taken), Some(other)) = (taken, other) {
                other
                    .before()
                    .call(|_: &Misbehave, (): &mut (), _: bool| {}, (taken,));
            }
        }
        let first = superblock.instructions().next().expect("there is one");
        first
            .before()
            .call(Misbehave::called, (InstructionPointer,));
    }

    fn thread_start(&self, thread: &unspool_tool::ThreadInfo, (): &mut ()) {
        IS_FIRST.set(thread.parent.is_none());
        if asked("loop-in-thread-start") && !IS_FIRST.get() {
            run_for_ever();
        }
        if let (true, Some(buffer)) = (asked("append-in-thread"), self.buffer) {
            let start = move || buffer.append(&mut (), 3);
            spawn("wrong", start).expect("a thread can be started");
            std::thread::sleep(std::time::Duration::from_secs(20));
        }
        if asked("panic-in-thread") {
            let start = || panic!("this thread is wrong");
            spawn("wrong", start).expect("a thread can be started");
            std::thread::sleep(std::time::Duration::from_secs(20));
        }
    }

    fn system_call_exit(&self, (): &mut (), call: &SystemCall, _: &mut i64) {
        const WRITE: u64 = 1;
        let writes = call.number == WRITE && call.arguments[0] == 1;
        if asked("loop-behind-output") && writes {
            run_for_ever();
        }
    }

    fn out_of_memory(&self, bytes: usize) {
        say(&format!("tool: no memory for {bytes} bytes"));
    }

    fn end(&self) {
        if asked("block-at-end") {
            let _first = LOCK.lock();
            let _second = LOCK.lock();
        }
        if asked("slow-end") {
            announce();
            run_until(Instant::now() + Duration::from_secs(13));
        }
        say("tool: the end");
    }
}
