//! Estimates which functions a program calls most, from about every thousandth call: a profile
//! that costs little.

use std::collections::HashMap;

use unspool_tool::lock::Mutex;
use unspool_tool::{
    Address, Branch, Constant, Sampler, Superblock, ThreadInfo, Tool, image_at, say,
};

/// Calls between two samples, on average, and how far they may vary.
const PERIOD: u32 = 1000;
const JITTER: u32 = 200;
/// Functions that are named.
const NAMED: usize = 10;

/// Samples calls.
pub struct CallProfile {
    sampler: Sampler,
    all: Mutex<HashMap<Address, u64>>,
}

impl CallProfile {
    /// Nothing sampled yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a sampler is a resource")]
    pub fn new() -> CallProfile {
        CallProfile {
            sampler: Sampler::about_every(PERIOD, JITTER),
            all: Mutex::default(),
        }
    }

    fn sampled(&self, calls: &mut HashMap<Address, u64>, callee: Address) {
        *calls.entry(callee).or_default() += 1;
    }
}

impl Tool for CallProfile {
    type Thread = HashMap<Address, u64>;

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            if let (Some(Branch::Call), Some(callee)) = (instruction.branch(), instruction.target())
            {
                let callee = Constant(Address(callee));
                let before = instruction.before();
                before.call_sampled(self.sampler, CallProfile::sampled, (callee,));
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, calls: HashMap<Address, u64>) {
        let mut all = self.all.lock();
        for (callee, count) in calls {
            *all.entry(callee).or_default() += count;
        }
    }

    fn forked(&self, calls: &mut HashMap<Address, u64>) {
        calls.clear();
        self.all.lock().clear();
    }

    fn end(&self) {
        let all = self.all.lock();
        let samples: u64 = all.values().sum();
        let mut counts: Vec<(u64, Address)> = all.iter().map(|(&at, &count)| (count, at)).collect();
        counts.sort_unstable_by(|left, right| right.cmp(left));
        let mut text = format!(
            "{samples} samples of direct calls, about {} calls",
            samples * u64::from(PERIOD)
        );
        for (count, callee) in counts.iter().take(NAMED) {
            let share = *count as f64 / samples as f64 * 100.0;
            let image = image_at(callee.0);
            let routine = image.as_ref().and_then(|image| image.routine_at(callee.0));
            let name = routine.map_or_else(|| callee.to_string(), |routine| routine.name());
            text.push_str(&format!("\n{share:>5.1} %  {name}"));
        }
        say(&text);
    }
}
