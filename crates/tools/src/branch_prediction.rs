//! Simulates two branch predictors: two-bit counters chosen by a branch's address (J. E. Smith, "A
//! study of branch prediction strategies", 1981), and by its address and what the last branches did
//! ("gshare": S. McFarling, "Combining branch predictors", 1993).

use unspool_tool::lock::Mutex;
use unspool_tool::{Address, InstructionPointer, Superblock, ThreadInfo, Tool, branch_taken, say};

/// Counters in each predictor, of two bits.
const COUNTERS: usize = 1 << 12;

/// Predicts conditional branches.
#[derive(Default)]
pub struct BranchPrediction {
    all: Mutex<Counts>,
}

/// What has been predicted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    branches: u64,
    /// How often each predictor was wrong.
    wrong: [u64; 2],
}

/// The predictors of a thread.
pub struct Predictors {
    counts: Counts,
    /// 0 and 1 predict that a branch is not taken, 2 and 3 that it is.
    counters: [[u8; COUNTERS]; 2],
    /// What the last branches did, the last one in the lowest bit.
    history: u64,
}

impl Default for Predictors {
    fn default() -> Predictors {
        Predictors {
            counts: Counts::default(),
            counters: [[1; COUNTERS]; 2],
            history: 0,
        }
    }
}

impl Predictors {
    fn branch(&mut self, at: u64, taken: bool) {
        self.counts.branches += 1;
        for (number, place) in [at, at ^ self.history].into_iter().enumerate() {
            let counter = &mut self.counters[number][place as usize % COUNTERS];
            self.counts.wrong[number] += u64::from((*counter >= 2) != taken);
            *counter = match taken {
                true => (*counter + 1).min(3),
                false => counter.saturating_sub(1),
            };
        }
        self.history = self.history << 1 | u64::from(taken);
    }
}

impl BranchPrediction {
    fn predict(&self, predictors: &mut Predictors, at: Address, taken: bool) {
        predictors.branch(at.0, taken);
    }
}

impl Tool for BranchPrediction {
    type Thread = Predictors;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            if let Some(taken) = branch_taken(&instruction) {
                let arguments = (InstructionPointer, taken);
                instruction
                    .before()
                    .call(BranchPrediction::predict, arguments);
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, predictors: Predictors) {
        let mut all = self.all.lock();
        all.branches += predictors.counts.branches;
        for (all, own) in all.wrong.iter_mut().zip(predictors.counts.wrong) {
            *all += own;
        }
    }

    fn forked(&self, predictors: &mut Predictors) {
        predictors.counts = Counts::default();
        *self.all.lock() = Counts::default();
    }

    fn end(&self) {
        let all = *self.all.lock();
        let [by_address, by_history] = all.wrong;
        say(&format!(
            "{} branches predicted, {by_address} wrongly by address, {by_history} with history",
            all.branches
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::Predictors;

    /// How often each predictor is wrong about a branch that does this.
    fn wrong(taken: impl Fn(u64) -> bool) -> [u64; 2] {
        let mut predictors = Predictors::default();
        for round in 0..10_000 {
            predictors.branch(0x40_1000, taken(round));
        }
        predictors.counts.wrong
    }

    #[test]
    fn a_branch_that_is_always_taken_is_learnt() {
        let [by_address, by_history] = wrong(|_| true);
        assert_eq!(by_address, 1);
        // Once for each history until the oldest bits are ones too.
        assert!(by_history <= 13, "{by_history}");
    }

    #[test]
    fn only_history_knows_what_alternates() {
        let [by_address, by_history] = wrong(|round| round % 2 == 0);
        assert!(by_address >= 5_000, "{by_address}");
        assert!(by_history <= 20, "{by_history}");
    }

    #[test]
    fn chance_is_predicted_by_neither() {
        // SplitMix64.
        let random = |round: u64| {
            let word = (round + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            (word ^ word >> 31) & 1 != 0
        };
        let [by_address, by_history] = wrong(random);
        assert!(by_address > 3_000 && by_history > 3_000);
    }
}
