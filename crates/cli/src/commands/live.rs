//! Analyses in the process that they are about: a command that reads traces is given a program.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use unspool_engine::{Plan, Receiver, TraceOutput};
use unspool_events::{Ended, LiveAnalysis, Sink, TraceHeader, Verdict};

use super::observe::observe;
use super::{replay_increments, verify};
use crate::arguments::{Arguments, Command};
use crate::exit_status;
use crate::failure::Failure;
use crate::plan::{Children, LivePlan};

/// What an analysis has found, and with which status the command would end.
#[derive(Debug)]
pub(super) struct Answer {
    /// For people or programs, in whole lines.
    pub(super) text: String,
    /// The exit status.
    pub(super) status: u8,
}

/// Runs a program, and has its records go to the receiver. Does not return once it has started.
pub(super) fn run(plan: &LivePlan, with_values: bool, receiver: Receiver) -> Result<u8, Failure> {
    let trace = unspool_engine::TracePlan {
        output: TraceOutput::Receiver(receiver),
        order: plan.order,
        granule: plan.granule,
        max_skew: plan.max_skew,
        buffer: super::observe::DEFAULT_BUFFER,
        verify: with_values,
        ..unspool_engine::TracePlan::default()
    };
    let engine_plan = Plan {
        trace: Some(trace),
        leave_children: plan.children == Children::Leave,
        own_arguments: own_arguments(),
        ..Plan::default()
    };
    observe(engine_plan, &plan.observed)
}

/// The words of the command line that precede the program's: what a program that this one executes
/// is told.
fn own_arguments() -> Vec<OsString> {
    let words = std::env::args_os().skip(1);
    words.take_while(|word| word != "--").collect()
}

/// In a process that an observed program executed: the same analysis goes on with it.
pub(crate) fn continue_live(plan: &mut Plan) {
    let Some(trace) = &mut plan.trace else { return };
    if trace.output != TraceOutput::ReceiverToCome {
        return;
    }
    let own = plan.own_arguments.iter().cloned();
    let program = ["--", "program"].map(OsString::from);
    let words = std::iter::once("unspool".into()).chain(own).chain(program);
    let Ok(Arguments { command }) = clap::Parser::try_parse_from(words) else {
        return;
    };
    let receiver = match command {
        Command::Verify(typed) => verify::receiver(typed),
        Command::ReplayIncrements(typed) => replay_increments::receiver(typed),
        _ => return,
    };
    if let Ok(Some(receiver)) = receiver {
        trace.output = TraceOutput::Receiver(receiver);
    }
}

/// Makes an analysis for each process and program of a run, and answers when it ends.
pub(super) fn receiver<Analysis: Sink + Send + 'static>(
    output: Option<PathBuf>,
    begin: impl Fn() -> Analysis + Send + Sync + 'static,
    answer: impl Fn(Analysis, &Ended, &TraceHeader) -> Result<Answer, Failure> + Send + Sync + 'static,
) -> Receiver {
    let (output, answer) = (Arc::new(output), Arc::new(answer));
    Receiver::new(move |header| {
        let (output, answer, own) = (Arc::clone(&output), Arc::clone(&answer), header.clone());
        let conclude = move |analysis, ended: &Ended| {
            let found = answer(analysis, ended, &own);
            tell(found, ended, &own, output.as_deref())
        };
        Arc::new(LiveAnalysis::new(header, begin(), conclude))
    })
}

/// Writes the answer where it is wanted, or has the engine say it.
fn tell(
    found: Result<Answer, Failure>,
    ended: &Ended,
    header: &TraceHeader,
    output: Option<&Path>,
) -> Verdict {
    let failed = |text: String| Verdict {
        text: format!("error: {text}"),
        status: Some(exit_status::FAILED),
    };
    let Answer { text, status } = match found {
        Ok(answer) => answer,
        Err(failure) => return failed(format!("{:#}", failure.error)),
    };
    let problems: String = ended
        .problems
        .iter()
        .map(|problem| format!("unspool: warning: {problem}\n"))
        .collect();
    let status = Some(status).filter(|&status| status != exit_status::SUCCESS);
    let Some(output) = output else {
        let program = String::from_utf8_lossy(&header.program);
        return Verdict {
            text: format!(
                "unspool: process {}, {program}:\n{problems}{text}",
                header.process
            ),
            status,
        };
    };
    let path = match header.parent_process {
        None => output.to_owned(),
        Some(_) => {
            let mut name = output.as_os_str().to_owned();
            name.push(format!(".{}", header.process));
            name.into()
        }
    };
    match std::fs::write(&path, text) {
        Ok(()) => Verdict {
            text: problems,
            status,
        },
        Err(error) => failed(format!("cannot write {}: {error}", path.display())),
    }
}
