//! Counts how often each conditional branch is taken and not taken.

use std::collections::BTreeMap;

use unspool_tool::lock::Mutex;
use unspool_tool::{Branch, Counter, Superblock, Tool, say};

/// Branches that are named.
const NAMED: usize = 10;

/// Counts both ways out of every conditional branch.
#[derive(Default)]
pub struct EdgeProfile {
    /// Taken and not taken, by the branch's address.
    branches: Mutex<BTreeMap<u64, [Counter; 2]>>,
}

impl Tool for EdgeProfile {
    type Thread = ();

    fn instrument(&self, superblock: &Superblock<Self>) {
        let mut branches = self.branches.lock();
        for branch in superblock.instructions() {
            if branch.branch() != Some(Branch::Conditional) {
                continue;
            }
            let [taken, not_taken] = *branches
                .entry(branch.address())
                .or_insert_with(|| [Counter::new(), Counter::new()]);
            if let (Some(there), Some(on)) = (branch.taken(), branch.after()) {
                there.count(taken, 1);
                on.count(not_taken, 1);
            }
        }
    }

    fn end(&self) {
        let branches = self.branches.lock();
        let mut counts: Vec<(u64, u64, u64)> = branches
            .iter()
            .map(|(&address, [taken, not])| (taken.total(), not.total(), address))
            .collect();
        counts.sort_unstable_by_key(|(taken, not, address)| (u64::MAX - taken - not, *address));
        let sum = |count: fn(&(u64, u64, u64)) -> u64| counts.iter().map(count).sum::<u64>();
        let mut text = format!(
            "{} branches taken, {} not taken, at {} addresses",
            sum(|branch| branch.0),
            sum(|branch| branch.1),
            counts.len()
        );
        for (taken, not, address) in counts.iter().take(NAMED) {
            text.push_str(&format!("\n{taken:>16} {not:>16}  {address:#x}"));
        }
        say(&text);
    }
}
