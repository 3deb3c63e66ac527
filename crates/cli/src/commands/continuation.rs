//! In a process that an observed program executed: what observed that one goes on.

use std::ffi::OsString;

use unspool_engine::{Continuation, Plan};
use unspool_tracer::{TraceOutput, TracePlan};

use super::{live, observe, race, replay_increments, tool, verify};
use crate::arguments::{Arguments, Command};
use crate::failure::Failure;

/// Goes on with a program that an observed one executed, if that is what this process is for.
pub(crate) fn continue_observed(arguments: &[OsString]) -> Option<Failure> {
    let Continuation {
        plan,
        program,
        clients,
    } = unspool_engine::continuation(arguments)?;
    tool::continue_tool(&plan);
    let mut trace = clients.iter().find_map(TracePlan::decode);
    if let Some(trace) = &mut trace {
        continue_live(&plan, trace);
    }
    Some(observe::start(plan, trace, &program))
}

/// The same analysis goes on with the program.
fn continue_live(plan: &Plan, trace: &mut TracePlan) {
    let TraceOutput::ReceiverToCome(record) = &trace.output else {
        return;
    };
    let record = record.clone();
    let own = plan.own_arguments.iter().cloned();
    let program = ["--", "program"].map(OsString::from);
    let words = std::iter::once("unspool".into()).chain(own).chain(program);
    let Ok(Arguments { command }) = clap::Parser::try_parse_from(words) else {
        return;
    };
    let receiver = match command {
        Command::Verify(typed) => verify::receiver(typed),
        Command::Race(typed) => race::receiver(typed),
        Command::ReplayIncrements(typed) => replay_increments::receiver(typed),
        _ => return,
    };
    if let Ok(Some(receiver)) = receiver {
        trace.output = live::output(record, receiver);
    }
}
