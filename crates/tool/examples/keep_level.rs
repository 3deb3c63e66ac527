//! Watches a function of a stripped program: `keep_level ADDRESS SIZE -- PROGRAM`, both in hexadecimal
//! as the program's file has them. What the function's argument points to is made 100 if it is more;
//! if it points nowhere, the program is sent SIGUSR1. At the end it is said how many of the function's
//! instructions were executed.

use std::ops::Range;
use std::sync::OnceLock;

use unspool_tool::{
    Address, Counter, FunctionArgument, Image, ImageKind, SignalOrigin, Superblock, ThreadNumber,
    Tool, arguments, raise_signal, read_word, run, say, write_memory,
};

const MOST: u64 = 100;
const USER_SIGNAL: i32 = 10;

struct KeepLevel {
    executed: Counter,
    code: OnceLock<Range<u64>>,
}

impl KeepLevel {
    fn entered(&self, (): &mut (), level: Address, thread: u32) {
        match read_word(level) {
            Some(value) if value > MOST => {
                let written = write_memory(level, &MOST.to_le_bytes());
                assert_eq!(written, 8, "the level is in memory that can be written");
            }
            Some(_) => {}
            None => {
                raise_signal(thread, USER_SIGNAL, SignalOrigin::Queue { value: 0 });
            }
        }
    }
}

impl Tool for KeepLevel {
    type Thread = ();

    fn image_load(&self, image: &Image<Self>) {
        if image.kind() != ImageKind::Program {
            return;
        }
        let numbers = arguments().iter().map(|word| {
            let number = word
                .to_str()
                .and_then(|word| u64::from_str_radix(word, 16).ok());
            number.expect("a hexadecimal number")
        });
        let [start, size] = numbers.collect::<Vec<_>>()[..] else {
            panic!("an address and a size are wanted");
        };
        let start = image.bias().unwrap_or(0) + start;
        let routine = image
            .routine_starting_at(start)
            .expect("code of the program");
        let level = FunctionArgument::<Address, 0>::new();
        routine
            .entry()
            .call(KeepLevel::entered, (level, ThreadNumber));
        self.code.get_or_init(|| start..start + size);
    }

    fn instrument(&self, superblock: &Superblock<Self>) {
        let Some(code) = self.code.get() else {
            return;
        };
        for instruction in superblock.instructions() {
            if code.contains(&instruction.address()) {
                instruction.before().count(self.executed, 1);
            }
        }
    }

    fn end(&self) {
        say(&format!("{} instructions of it", self.executed.total()));
    }
}

fn main() {
    run(KeepLevel {
        executed: Counter::new(),
        code: OnceLock::new(),
    });
}
