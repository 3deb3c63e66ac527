//! What a tool can do beside: `world` has a thread of its own that stops all others again and
//! again, looks whether they stand still, and has instrumentation taken away and put back.
//!
//! Counters tell whether others go on: while the world is stopped no total may change. With
//! `spoilt` the world is not stopped.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use unspool_tool::{
    Address, Counter, Superblock, ThreadInfo, Tool, instrument_again, read_memory, say, spawn,
    stop_the_world,
};

use crate::asked;

static EXECUTED: std::sync::OnceLock<Counter> = std::sync::OnceLock::new();
static COUNTING: AtomicBool = AtomicBool::new(true);
static STOPS: AtomicU64 = AtomicU64::new(0);
static MOVED: AtomicU64 = AtomicU64::new(0);
/// Code translated while nothing was to be counted, and code while it was.
static BARE: AtomicU64 = AtomicU64::new(0);
static COUNTED: AtomicU64 = AtomicU64::new(0);

fn counter() -> Counter {
    *EXECUTED.get_or_init(Counter::new)
}

/// Two looks at the counter with a pause between them.
fn looks_the_same() -> bool {
    let before = counter().total();
    std::thread::sleep(Duration::from_micros(300));
    before == counter().total()
}

fn work() {
    loop {
        let is_still = match asked("spoilt") {
            true => looks_the_same(),
            false => stop_the_world(|threads| {
                for thread in threads {
                    let pc = thread.pc.map(Address);
                    let readable = pc.is_none_or(|pc| read_memory(pc, &mut [0]) == 1);
                    assert!(readable, "a thread stands where no code is");
                }
                looks_the_same()
            }),
        };
        STOPS.fetch_add(1, Ordering::Relaxed);
        MOVED.fetch_add(u64::from(!is_still), Ordering::Relaxed);
        let was = COUNTING.fetch_xor(true, Ordering::Relaxed);
        instrument_again();
        // What is not counted is soon over.
        std::thread::sleep(Duration::from_millis(if was { 1 } else { 5 }));
    }
}

/// The tool.
pub(crate) struct World;

impl Tool for World {
    type Thread = ();

    fn instrument(&self, superblock: &Superblock<Self>) {
        if !COUNTING.load(Ordering::Relaxed) {
            BARE.fetch_add(1, Ordering::Relaxed);
            return;
        }
        COUNTED.fetch_add(1, Ordering::Relaxed);
        for instruction in superblock.instructions() {
            instruction.before().count(counter(), 1);
        }
    }

    fn thread_start(&self, thread: &ThreadInfo, (): &mut ()) {
        if thread.number == 0 {
            spawn("checks", work).expect("a thread can be started");
        }
    }

    fn end(&self) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let good = of(&STOPS) > 3 && of(&MOVED) == 0 && of(&BARE) > 0 && of(&COUNTED) > 0;
        let verdict = if good {
            "stood still"
        } else {
            "did NOT stand still"
        };
        say(&format!(
            "world {verdict}: {} stops, {} moved, translated {} bare and {} counted",
            of(&STOPS),
            of(&MOVED),
            of(&BARE),
            of(&COUNTED)
        ));
    }
}
