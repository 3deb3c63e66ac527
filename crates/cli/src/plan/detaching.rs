//! When observed processes are let go.

use std::time::Duration;

use unspool_engine::plan::{When, deadline_after};

use crate::arguments::DetachChoice;
use crate::failure::Failure;

/// When a process is let go without anybody's asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LetGo {
    /// This long after its start.
    pub(crate) after: Option<Duration>,
    /// At the end of a region of interest.
    pub(crate) at_region_end: bool,
}

impl LetGo {
    /// Checks that this goes together with a debugger, if one is wanted.
    pub(crate) fn new(typed: DetachChoice, is_debugged: bool) -> Result<LetGo, Failure> {
        let let_go = LetGo {
            after: typed.detach_after,
            at_region_end: typed.detach_at_region_end,
        };
        if is_debugged && let_go != LetGo::default() {
            return Err(
                Failure::new("a program that gdb debugs through --gdb cannot be let go")
                    .with_help("leave out --gdb, or --detach-after and --detach-at-region-end"),
            );
        }
        Ok(let_go)
    }

    /// For a process that starts now.
    pub(crate) fn starting_now(self) -> When {
        When {
            deadline_ns: self.after.map_or(0, deadline_after),
            at_region_end: self.at_region_end,
        }
    }
}
