//! Whether inlined tests and stores of shadow words do what functions do at the same places: two
//! shadow memories of a kind, one of which only inserted code stores, the other only functions. With
//! `spoilt`, one store of seven is left out of the latter; with `kept`, what is unmapped is
//! expected to keep its words.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use unspool_tool::{
    AccessKind, Address, Constant, MappingChange, MemoryOperand, Shadow, ShadowPart, ShadowWord,
    Shape, Superblock, ThreadWord, Tool, effective_address, say,
};

use crate::asked;

/// After so many accesses, what is stored and expected changes.
const PERIOD: u64 = 61;
/// The bits that count at some of the writes, where words have as many.
const MASK: u32 = 0x0f;

/// The tool, with words `W` for each `GRANULE` bytes.
pub(crate) struct Shadows<W, const GRANULE: u64> {
    inlined: Shadow<W, GRANULE>,
    called: Shadow<W, GRANULE>,
    /// What is stored, and expected.
    stamp: ThreadWord<W>,
    /// The same where only four bytes are looked at.
    half: ThreadWord<u32>,
    different: AtomicU64,
    unmapped: AtomicU64,
}

/// What a thread has seen.
#[derive(Default)]
pub(crate) struct Seen {
    accesses: u64,
    stores: u64,
    /// How often a test failed, by what inserted code does and by what functions find out.
    failed: u64,
    due: u64,
    words: u64,
    wrong: u64,
}

/// The lowest four bytes, where there are as many.
fn half<W: ShadowWord, const GRANULE: u64>(shadow: Shadow<W, GRANULE>) -> Option<ShadowPart<u32>> {
    (size_of::<W>() >= 4).then(|| shadow.part(0))
}

impl<W: ShadowWord, const GRANULE: u64> Shadows<W, GRANULE> {
    pub(crate) fn new() -> Shadows<W, GRANULE> {
        Shadows {
            inlined: Shadow::new().expect("shadow memory"),
            called: Shadow::new().expect("shadow memory"),
            stamp: ThreadWord::new(),
            half: ThreadWord::new(),
            different: AtomicU64::new(0),
            unmapped: AtomicU64::new(0),
        }
    }

    /// The words that an operand touches.
    fn words(at: Address, size: u64) -> impl Iterator<Item = u64> {
        (at.0 / GRANULE..=at.0.wrapping_add(size - 1) / GRANULE).map(|granule| granule * GRANULE)
    }

    /// Whether a test is not even made.
    fn is_unaligned(at: Address, size: u64) -> bool {
        let alignment = size.min(GRANULE);
        let alignment = if alignment.is_power_of_two() {
            alignment
        } else {
            GRANULE
        };
        !at.0.is_multiple_of(alignment)
    }

    fn accessed(&self, seen: &mut Seen, at: Address, size: u64) {
        seen.accesses += 1;
        if seen.accesses.is_multiple_of(PERIOD) {
            let stamp = seen.accesses / PERIOD * 0x0101_0101_0101_0101;
            self.stamp.set(W::from_word(stamp));
            self.half.set(stamp as u32);
        }
        for word in Self::words(at, size) {
            seen.words += 1;
            seen.wrong += u64::from(self.inlined.get(word) != self.called.get(word));
        }
    }

    /// What a read's test comes to.
    fn tested(&self, seen: &mut Seen, at: Address, size: u64) {
        let stamp = self.stamp.get();
        let fails = Self::words(at, size).any(|word| self.called.get(word) != stamp);
        seen.due += u64::from(fails || Self::is_unaligned(at, size));
    }

    fn fails(&self, seen: &mut Seen) {
        seen.failed += 1;
    }

    fn really(&self, _: &mut Seen) -> bool {
        true
    }

    /// What is done at a write.
    fn stored(&self, seen: &mut Seen, at: Address, size: u64) {
        seen.stores += 1;
        if asked("spoilt") && seen.stores.is_multiple_of(7) {
            return;
        }
        self.called.set(at.0, size, self.stamp.get());
    }

    /// What is done at a write that is tested.
    fn stored_if(&self, seen: &mut Seen, at: Address, size: u64) {
        let stamp = self.half.get();
        let differs = |word: u64| (self.called.get(word).to_word() as u32 ^ stamp) & MASK != 0;
        if Self::is_unaligned(at, size) || Self::words(at, size).any(differs) {
            seen.due += 1;
        } else {
            self.called.set(at.0, size, self.stamp.get());
        }
    }

    fn at(&self, instruction: &unspool_tool::Instruction<Self>, operand: &MemoryOperand) {
        let is_plain = matches!(operand.shape, Shape::Plain | Shape::Repeat { .. });
        let Some(address) = effective_address(operand).filter(|_| is_plain) else {
            return;
        };
        let before = instruction.before();
        let arguments = (address, Constant(u64::from(operand.size.max(1))));
        before.call(Self::accessed, arguments);
        let whole = self.inlined.whole();
        let stores = [whole.becomes(self.stamp)];
        if operand.kind == AccessKind::Read {
            let tests = [whole.is(self.stamp)];
            let check = (operand, &tests[..], &[][..]);
            let is_tested = match instruction.address() % 2 {
                0 => before.check_shadow(check, Self::fails, ()),
                _ => before.check_shadow_if(check, Self::really, (), Self::fails, ()),
            };
            if is_tested {
                before.call(Self::tested, arguments);
            }
        } else if let Some(half) =
            half(self.inlined).filter(|_| instruction.address().is_multiple_of(3))
        {
            let tests = [half.is_under(MASK, self.half)];
            if before.check_shadow((operand, &tests, &stores), Self::fails, ()) {
                before.call(Self::stored_if, arguments);
            }
        } else if before.store_shadow(operand, &stores) {
            before.call(Self::stored, arguments);
        }
    }
}

impl<W: ShadowWord, const GRANULE: u64> Tool for Shadows<W, GRANULE> {
    type Thread = Seen;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            for operand in instruction.memory_operands() {
                self.at(&instruction, operand);
            }
        }
    }

    fn mapping(&self, _: &mut Seen, change: &MappingChange) {
        if !change.mapped.is_empty() || change.range.end - change.range.start > 1 << 30 {
            return;
        }
        let page = change.range.clone().step_by(GRANULE.max(64) as usize);
        let words = page
            .filter(|&word| self.inlined.get(word).to_word() != 0)
            .count();
        let is_wrong = (words != 0) != asked("kept");
        self.unmapped.fetch_add(1, Relaxed);
        self.different.fetch_add(u64::from(is_wrong), Relaxed);
    }

    fn thread_end(&self, _: &unspool_tool::ThreadInfo, seen: Seen) {
        let unmapped = self.unmapped.load(Relaxed);
        let wrong = seen.wrong + self.different.load(Relaxed) + seen.due.abs_diff(seen.failed);
        let verdict = if wrong == 0 && seen.failed != 0 && seen.words != 0 {
            "as by functions"
        } else {
            "NOT as by functions"
        };
        say(&format!(
            "shadows {verdict}: {} words of {} accesses, {} wrong, {} of {} tests failed, {unmapped} ranges unmapped",
            seen.words, seen.accesses, seen.wrong, seen.failed, seen.due
        ));
    }
}
