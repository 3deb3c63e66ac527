//! Calls of the functions of the guest `functions/nested`: each that ends is one that was
//! entered, with the same arguments, whatever became of them meanwhile; and none ends twice.
//!
//! With `spoilt`, what is noted at entries is wrong, which must be noticed.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Address, Constant, FunctionArgument, Image, ReturnAddress, ReturnValue, StackPointer,
    Superblock, ThreadInfo, Tool, say,
};

use crate::asked;

const NAMES: &[&str] = &[
    "leaf0",
    "leaf1",
    "leaf2",
    "leaf3",
    "leaf4",
    "leaf5",
    "jumps",
    "deep",
    "leaps",
    "interrupted",
    "forks",
    "step",
];
/// Of these, what returns ten times the first argument and the second.
const LEAVES: usize = 6;
/// Numbers of further functions.
const MANY: usize = 100;
const REAL: usize = 101;

/// A call: the function, where its return address is, and what else is known of it.
type Call = (usize, Address, [u64; 3]);

/// The tool.
#[derive(Default)]
pub(crate) struct Calls {
    spoilt: u64,
    returned: AtomicU64,
    left: AtomicU64,
    wrong: AtomicU64,
}

/// What a thread has seen.
#[derive(Default)]
pub(crate) struct Seen {
    open: Vec<Call>,
    returned: u64,
    left: u64,
    wrong: u64,
}

impl Seen {
    fn end(&mut self, call: Call) {
        match self.open.iter().rposition(|it| *it == call) {
            Some(index) => drop(self.open.remove(index)),
            None => self.wrong += 1,
        }
    }
}

impl Calls {
    pub(crate) fn new() -> Calls {
        Calls {
            spoilt: u64::from(asked("spoilt")),
            ..Calls::default()
        }
    }

    fn entered(&self, seen: &mut Seen, name: usize, place: Address, a: u64, b: u64, from: Address) {
        seen.open.push((name, place, [a + self.spoilt, b, from.0]));
    }

    fn returned(
        &self,
        seen: &mut Seen,
        (name, place, from): (usize, Address, Address),
        (a, b): (u64, u64),
        value: u64,
    ) {
        seen.returned += 1;
        seen.wrong += u64::from(name < LEAVES && value != a * 10 + b);
        seen.end((name, place, [a, b, from.0]));
    }

    fn left(&self, seen: &mut Seen, name: usize, place: Address, a: u64, b: u64, from: Address) {
        seen.left += 1;
        seen.end((name, place, [a, b, from.0]));
    }

    fn many_entered(&self, seen: &mut Seen, place: Address, b: u64, g: u64, h: u64) {
        seen.open.push((MANY, place, [b, g, h]));
    }

    fn many_returned(&self, seen: &mut Seen, place: Address, b: u64, g: u64, h: u64) {
        seen.returned += 1;
        seen.wrong += u64::from([b, g, h] != [2, 7, 8]);
        seen.end((MANY, place, [b, g, h]));
    }

    fn real_entered(&self, seen: &mut Seen, place: Address, x: f64, a: i64, y: f32) {
        let known = [x.to_bits(), a as u64, u64::from(y.to_bits())];
        seen.open.push((REAL, place, known));
    }

    fn real_returned(&self, seen: &mut Seen, place: Address, x: f64, a: i64, y: f32, value: f64) {
        seen.returned += 1;
        let sum = x + a as f64 + f64::from(y);
        seen.wrong += u64::from(sum.to_bits() != value.to_bits());
        seen.end((REAL, place, [x.to_bits(), a as u64, u64::from(y.to_bits())]));
    }
}

impl Tool for Calls {
    type Thread = Seen;

    fn instrument(&self, _: &Superblock<Self>) {}

    fn image_load(&self, image: &Image<Self>) {
        let (a, b) = (
            FunctionArgument::<u64, 0>::new(),
            FunctionArgument::<u64, 1>::new(),
        );
        let place = StackPointer;
        for (number, name) in NAMES.iter().enumerate() {
            let name_is = Constant(number);
            for routine in image.routines_named(name) {
                let known = (name_is, place, a, b, ReturnAddress);
                routine.entry().call(Calls::entered, known);
                routine.unwind().call(Calls::left, known);
                routine.exit().call(
                    |tool: &Calls, seen: &mut Seen, name, place, from, a, b, value| {
                        tool.returned(seen, (name, place, from), (a, b), value);
                    },
                    (
                        name_is,
                        place,
                        ReturnAddress,
                        a,
                        b,
                        ReturnValue::<u64>::new(),
                    ),
                );
            }
        }
        let (g, h) = (
            FunctionArgument::<u64, 6>::new(),
            FunctionArgument::<u64, 7>::new(),
        );
        for routine in image.routines_named("many") {
            routine.entry().call(Calls::many_entered, (place, b, g, h));
            routine.exit().call(Calls::many_returned, (place, b, g, h));
        }
        let (x, y) = (
            FunctionArgument::<f64, 0>::new(),
            FunctionArgument::<f32, 1>::new(),
        );
        let integer = FunctionArgument::<i64, 0>::new();
        for routine in image.routines_named("real") {
            let known = (place, x, integer, y);
            routine.entry().call(Calls::real_entered, known);
            let value = ReturnValue::<f64>::new();
            let known = (place, x, integer, y, value);
            routine.exit().call(Calls::real_returned, known);
        }
    }

    fn thread_end(&self, _: &ThreadInfo, seen: Seen) {
        self.returned.fetch_add(seen.returned, Ordering::Relaxed);
        self.left.fetch_add(seen.left, Ordering::Relaxed);
        let wrong = seen.wrong + seen.open.len() as u64;
        self.wrong.fetch_add(wrong, Ordering::Relaxed);
    }

    fn forked(&self, seen: &mut Seen) {
        (seen.returned, seen.left) = (0, 0);
        self.returned.store(0, Ordering::Relaxed);
        self.left.store(0, Ordering::Relaxed);
    }

    fn end(&self) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let agree = match of(&self.wrong) {
            0 => "agree".to_owned(),
            wrong => format!("do NOT agree, {wrong} times"),
        };
        let (returned, left) = (of(&self.returned), of(&self.left));
        say(&format!(
            "calls {agree}: {returned} return, {left} are left"
        ));
    }
}
