//! Which program is to be analysed while it runs.

use std::path::{Path, PathBuf};

use unspool_events::Order;

use super::observing::check_granule;
use super::{Children, ObservedProgram};
use crate::arguments::LiveChoice;
use crate::failure::Failure;

/// A program to be analysed while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LivePlan {
    /// What to run.
    pub(crate) observed: ObservedProgram,
    /// The order between threads.
    pub(crate) order: Order,
    /// Bytes in a unit of ownership.
    pub(crate) granule: u32,
    /// The greatest distance of clocks.
    pub(crate) max_skew: u64,
    /// How many bytes of records may wait for a thread.
    pub(crate) max_waiting: u64,
    /// What decides where threads wait so that they meet in other orders; 0: they do not.
    pub(crate) noise: u64,
    /// What happens to child processes.
    pub(crate) children: Children,
    /// Where the trace goes, if there is to be one.
    pub(crate) record: Option<PathBuf>,
    /// Where the answer goes; nothing for standard error.
    pub(crate) output: Option<PathBuf>,
}

impl LivePlan {
    /// Nothing where a trace is to be read.
    pub(crate) fn new(typed: &LiveChoice) -> Result<Option<LivePlan>, Failure> {
        if typed.program.is_empty() {
            return Ok(None);
        }
        check_granule(typed.granule)?;
        let order = typed.order.into();
        if typed.max_skew == Some(0) {
            return Err(Failure::new("--max-skew must be at least 1"));
        }
        Ok(Some(LivePlan {
            observed: ObservedProgram::new(typed.program.clone())?,
            order,
            granule: typed.granule,
            max_skew: typed.max_skew.unwrap_or_else(|| usual_skew(order)),
            max_waiting: typed.max_waiting,
            noise: typed.noise.unwrap_or(0),
            children: typed.children.into(),
            record: typed.record.as_deref().map(absolute),
            output: typed.output.as_deref().map(absolute),
        }))
    }
}

/// The same file, also where a program that is executed works in another folder.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// How far apart threads may be where nothing was said: so little that what waits takes some
/// megabytes for each thread, so much that threads are seldom asked where they are.
fn usual_skew(order: Order) -> u64 {
    match order {
        Order::None => 0,
        Order::LineAtomic => 1 << 20,
        Order::Ticket => 1 << 16,
        Order::Timestamp => 1 << 28,
    }
}
