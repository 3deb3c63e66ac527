//! Branches through the branch table that have met targets beyond it.
//!
//! The first such target at a branch costs a fault (the table has no entry for it). The
//! instruction is then replaced by a jump to a way through the hashed chains, which serve any
//! target, for this branch alone: most branches never leave the table's range.

use unspool_kernel::layout;

use super::Cache;
use crate::address::CacheAddress;
use crate::emit::TableBranch;
use crate::exit::Way;
use crate::gates::GATES_SIZE;

impl Cache {
    /// Leads the branch at a cache address through the chains from now on. Other threads may
    /// run it meanwhile; they do either.
    pub fn lead_through_chains(&mut self, branch: CacheAddress) {
        let in_hot = (layout::cache() + GATES_SIZE..self.hot).contains(&branch.get());
        // SAFETY: the hot code is readable, and no branch crosses the end of a cache line.
        let bytes = unsafe { std::ptr::read_unaligned(branch.get() as *const [u8; 8]) };
        let known = TableBranch::of(bytes).filter(|_| in_hot && branch.line_offset() <= 56);
        let way = match known {
            Some(TableBranch::Jump) => Way::Jump,
            Some(TableBranch::Return) => Way::Return,
            _ => return,
        };
        if !self.has_cold_room() {
            return;
        }
        self.hashed.make_ready();
        let mut cold = self.begin_cold();
        let chains = cold.here();
        cold.go_through_chain(way, branch);
        self.end_cold(&cold);
        let crossing = TableBranch::crossing(branch, chains);
        self.protection.replace(branch, crossing);
        self.crossings.extend(known.map(|known| (branch, known)));
    }
}
