//! Whether sampled calls and calls behind a test of shadow memory are made as often as they
//! should be: compared with what calls each time find out. With `spoilt`, sampled calls are expected
//! at other times; with `blind`, what is marked is what the test lets pass.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Address, Constant, Register, Sampler, Shadow, Shape, Superblock, ThreadInfo, Tool,
    effective_address, say,
};

use crate::asked;

/// Odd, so that no loop is met at the same instruction each time.
const PERIOD: u32 = 97;
const JITTER: u32 = 40;
/// Bytes of stack below its first known place that are marked.
const MARKED: u64 = 512;
/// What their shadow says.
const MARK: u8 = 7;

/// The tool.
pub(crate) struct Rarely {
    exact: Sampler,
    spread: Sampler,
    shadow: Shadow<u8, 8>,
    all: [AtomicU64; 6],
    threads: AtomicU64,
}

/// What a thread has seen.
#[derive(Default)]
pub(crate) struct Seen {
    passages: u64,
    exact: u64,
    spread: u64,
    marked: u64,
    called: u64,
    wrong: u64,
    marks: bool,
}

impl Rarely {
    pub(crate) fn new() -> Rarely {
        Rarely {
            exact: Sampler::every(PERIOD),
            spread: Sampler::about_every(PERIOD, JITTER),
            shadow: Shadow::new().expect("shadow memory"),
            all: Default::default(),
            threads: AtomicU64::new(0),
        }
    }

    fn passed(&self, seen: &mut Seen, stack: u64) {
        if !seen.marks {
            seen.marks = true;
            self.shadow.set(stack - MARKED, MARKED, MARK);
        }
        seen.passages += 1;
    }

    fn sampled(&self, seen: &mut Seen) {
        seen.exact += 1;
        // The control: what is counted so must not be what is expected.
        let late = seen.passages != seen.exact * u64::from(PERIOD) + u64::from(asked("spoilt"));
        seen.wrong += u64::from(late);
    }

    fn spread(&self, seen: &mut Seen) {
        seen.spread += 1;
    }

    fn accessed(&self, seen: &mut Seen, at: Address, size: u32) {
        seen.marked += u64::from(self.is_marked(at, size));
    }

    /// Comes also where an operand is not aligned.
    fn differs(&self, seen: &mut Seen, at: Address, size: u32) {
        let alignment = if size.is_power_of_two() {
            size.min(8)
        } else {
            8
        };
        let is_aligned = at.0.is_multiple_of(u64::from(alignment));
        seen.called += u64::from(is_aligned || self.is_marked(at, size));
    }

    fn is_marked(&self, at: Address, size: u32) -> bool {
        let last = at.0.wrapping_add(u64::from(size.max(1)) - 1);
        (at.0 / 8..=last / 8).any(|piece| self.shadow.get(piece * 8) != 0)
    }
}

impl Tool for Rarely {
    type Thread = Seen;

    fn instrument(&self, superblock: &Superblock<Self>) {
        let expected = if asked("blind") { MARK } else { 0 };
        for instruction in superblock.instructions() {
            let before = instruction.before();
            before.call(Rarely::passed, (Register::Rsp,));
            before.call_sampled(self.exact, Rarely::sampled, ());
            before.call_sampled(self.spread, Rarely::spread, ());
            for operand in instruction.memory_operands() {
                let is_plain = matches!(operand.shape, Shape::Plain | Shape::Repeat { .. });
                if let Some(address) = effective_address(operand).filter(|_| is_plain) {
                    let (tests, touched) =
                        ([self.shadow.whole().is(expected)], Constant(operand.size));
                    let arguments = (address, touched);
                    if before.check_shadow((operand, &tests, &[]), Rarely::differs, arguments) {
                        before.call(Rarely::accessed, arguments);
                    }
                }
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, seen: Seen) {
        self.threads.fetch_add(1, Ordering::Relaxed);
        let values = [
            seen.passages,
            seen.exact,
            seen.spread,
            seen.marked,
            seen.called,
            seen.wrong,
        ];
        for (all, value) in self.all.iter().zip(values) {
            all.fetch_add(value, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        let [passages, exact, spread, marked, called, wrong] =
            std::array::from_fn(|number| self.all[number].load(Ordering::Relaxed));
        let expected = passages as f64 / f64::from(PERIOD);
        // The jitter's mean is 0; its deviation is below a quarter of the period.
        // Where there are many threads, the rest that each has at its end spoils the comparison.
        let near = self.threads.load(Ordering::Relaxed) > 1
            || (spread as f64 - expected).abs() <= 3.0 * expected.sqrt() + 3.0;
        let agree = wrong == 0 && near && marked == called && marked != 0;
        let verdict = if agree {
            "as often as due"
        } else {
            "NOT as often as due"
        };
        say(&format!(
            "rare calls {verdict}: {exact} and {spread} of {passages} passages, {called} of {marked} marked accesses, {wrong} late"
        ));
    }
}
