//! Which tool is to observe what.

use std::ffi::OsString;

use super::{Children, LetGo, ObservedProgram};
use crate::arguments::ToolRunArguments;
use crate::failure::Failure;

/// How a probe is to be loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProbeChoice {
    /// Whether it is to say what it does to which function.
    pub(crate) is_verbose: bool,
}

/// A tool, and what it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolChoice {
    /// Its name.
    pub(crate) name: OsString,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// At which part of the run it looks, if not at all of it.
    pub(crate) control: Option<unspool_tool::Control>,
}

/// A program to be run under a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolRunPlan {
    /// The tool, or a probe or its library.
    pub(crate) tool: ToolChoice,
    /// Whether it is a probe.
    pub(crate) probe: Option<ProbeChoice>,
    /// What to run.
    pub(crate) observed: ObservedProgram,
    /// What happens to child processes.
    pub(crate) children: Children,
    /// Where gdb can connect, if it is to debug the program.
    pub(crate) gdb: Option<unspool_debugger::Address>,
    /// When the process is let go.
    pub(crate) let_go: LetGo,
}

impl TryFrom<ToolRunArguments> for ToolRunPlan {
    type Error = Failure;

    fn try_from(typed: ToolRunArguments) -> Result<ToolRunPlan, Failure> {
        let let_go = LetGo::new(typed.detach, typed.gdb.is_some())?;
        if typed.probe && let_go != LetGo::default() {
            return Err(Failure::new(
                "a program with a probe runs natively already: there is nothing to let go",
            ));
        }
        Ok(ToolRunPlan {
            tool: ToolChoice {
                name: typed.tool,
                arguments: typed.argument,
                control: typed.control,
            },
            probe: typed.probe.then_some(ProbeChoice {
                is_verbose: typed.verbose,
            }),
            observed: ObservedProgram::new(typed.program)?,
            children: typed.children.into(),
            let_go,
            gdb: typed.gdb,
        })
    }
}
