//! Whether threads execute the version of code that their switch says, and whether both versions
//! together are what is executed.
//!
//! Each thread turns its switch now and then itself, by calls in both versions. In both all
//! instructions are counted by one counter, and in each by one of its own. Where a superblock begins, a
//! function looks whether the switch says the same. With `bound`, the version of threads whose
//! switch is on appends to a buffer, too. With `everywhere`, a thread of the tool's turns the
//! switches of all others, and nobody can tell what one says at a time. With `spoilt`, one
//! instruction is not counted where the switch is on, and it is expected to be off there.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Address, Buffer, Counter, InstructionPointer, Sampler, Superblock, Switch, ThreadInfo, Tool,
    Version, say, spawn,
};

use crate::asked;

/// How many superblocks pass until a thread turns its switch.
const PERIOD: u32 = 97;
const JITTER: u32 = 40;

/// The tool.
pub(crate) struct Versions {
    switch: Switch,
    turns: Sampler,
    buffer: Option<Buffer<Versions, Address>>,
    everywhere: bool,
    spoilt: bool,
    executed: Counter,
    on: Counter,
    off: Counter,
    all: [AtomicU64; 4],
}

/// What a thread has seen.
#[derive(Default)]
pub(crate) struct Seen {
    entered: u64,
    turned: u64,
    wrong: u64,
    appended: u64,
}

impl Versions {
    pub(crate) fn new() -> Versions {
        let append = |_: &Versions, seen: &mut Seen, batch: &[Address]| {
            seen.appended += batch.len() as u64;
        };
        Versions {
            switch: Switch::new(),
            turns: Sampler::about_every(PERIOD, JITTER),
            buffer: asked("bound").then(|| Buffer::new(1 << 10, append)),
            everywhere: asked("everywhere"),
            spoilt: asked("spoilt"),
            executed: Counter::new(),
            on: Counter::new(),
            off: Counter::new(),
            all: Default::default(),
        }
    }

    fn begins_on(&self, seen: &mut Seen) {
        seen.entered += 1;
        seen.wrong += u64::from(self.switch.is_on() == self.spoilt);
    }

    fn begins_off(&self, seen: &mut Seen) {
        seen.entered += 1;
        seen.wrong += u64::from(self.switch.is_on());
    }

    fn turn(&self, seen: &mut Seen) {
        seen.turned += 1;
        self.switch.set(!self.switch.is_on());
    }
}

/// Turns all switches again and again.
fn keep_turning(switch: Switch) {
    let turn = move || {
        for is_on in [true, false].into_iter().cycle() {
            switch.set_everywhere(is_on);
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    };
    spawn("turning", turn).expect("a thread");
}

impl Tool for Versions {
    type Thread = Seen;

    fn thread_start(&self, thread: &ThreadInfo, _: &mut Seen) {
        if self.everywhere && thread.number == 0 {
            keep_turning(self.switch);
        }
    }

    fn forked(&self, seen: &mut Seen) {
        // What was counted so far was the parent's.
        *seen = Seen::default();
        for sum in &self.all {
            sum.store(0, Ordering::Relaxed);
        }
        if self.everywhere {
            keep_turning(self.switch);
        }
    }

    fn instrument(&self, superblock: &Superblock<Self>) {
        let version = superblock.version(self.switch);
        let is_on = version == Version::On;
        let last = superblock.instructions().len() - 1;
        for (number, instruction) in superblock.instructions().enumerate() {
            let before = instruction.before();
            if number == 0 && !self.everywhere {
                match version {
                    Version::On => before.call(Versions::begins_on, ()),
                    Version::Off => before.call(Versions::begins_off, ()),
                }
                before.call_sampled(self.turns, Versions::turn, ());
            }
            before.count(self.executed, 1);
            match version {
                Version::On if self.spoilt && number == last => {}
                Version::On => before.count(self.on, 1),
                Version::Off => before.count(self.off, 1),
            }
            if let Some(buffer) = self.buffer.filter(|_| is_on) {
                before.append(buffer, (InstructionPointer,));
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, seen: Seen) {
        let values = [seen.entered, seen.turned, seen.wrong, seen.appended];
        for (sum, value) in self.all.iter().zip(values) {
            sum.fetch_add(value, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        let [entered, turned, wrong, appended] =
            std::array::from_fn(|number| self.all[number].load(Ordering::Relaxed));
        let [executed, on, off] = [self.executed, self.on, self.off].map(Counter::total);
        let expected = if self.buffer.is_some() { on } else { 0 };
        let agree = wrong == 0 && on + off == executed && appended == expected;
        let verdict = if agree {
            "as switched"
        } else {
            "NOT as switched"
        };
        say(&format!(
            "versions {verdict}: {on} on and {off} off of {executed}, {appended} appended, {turned} turns, {entered} entered, {wrong} wrong"
        ));
    }
}
