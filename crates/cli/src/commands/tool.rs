//! `unspool tool`: the tools that come with the command.

mod new;
mod probe;
mod sources;

use std::ffi::OsString;

use unspool_engine::Plan;
use unspool_tool::{Control, set_arguments, set_control};
use unspool_tools::{ALL, Shipped};

use super::observe::{observe, wait_for_gdb};
use super::print_result;
use crate::arguments::{ToolArguments, ToolCommand};
use crate::exit_status;
use crate::failure::Failure;
use crate::plan::{Children, ToolChoice, ToolRunPlan};

/// What precedes the name of a tool among the command's own arguments.
const RUN: [&str; 2] = ["tool", "run"];
/// What precedes the part of a run at which it looks, there.
const CONTROL: &str = "--control";

/// Carries out `unspool tool …`.
pub(crate) fn tool(typed: ToolArguments) -> Result<u8, Failure> {
    match typed.command {
        ToolCommand::List => list(),
        ToolCommand::Run(typed) => run(&(*typed).try_into()?),
        ToolCommand::New(typed) => new::new(&typed),
    }
}

fn list() -> Result<u8, Failure> {
    let tools = ALL.iter().map(|tool| (tool.name, tool.about));
    let width = tools.clone().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, about)| format!("{name:width$}  {about}\n");
    let tools: String = tools.map(line).collect();
    let probes: String = probe::ALL.iter().copied().map(line).collect();
    print_result(format!("{tools}\nprobes (--probe):\n{probes}").as_bytes())?;
    Ok(exit_status::SUCCESS)
}

fn run(plan: &ToolRunPlan) -> Result<u8, Failure> {
    if let Some(choice) = plan.probe {
        return probe::run(plan, choice);
    }
    let own_arguments = install(&plan.tool)?;
    let engine_plan = Plan {
        leave_children: plan.children == Children::Leave,
        own_arguments,
        let_go: plan.let_go.starting_now(),
        ..Plan::default()
    };
    wait_for_gdb(plan.gdb.as_ref())?;
    observe(engine_plan, None, &plan.observed)
}

/// Has the program that will be run observed by a tool. Returns this executable's arguments that
/// have a program observed by it that the program executes.
pub(crate) fn install(choice: &ToolChoice) -> Result<Vec<OsString>, Failure> {
    let name = choice.name.to_str();
    let tool = name.and_then(find).ok_or_else(|| {
        let failure = Failure::new(format!("there is no tool `{}`", choice.name.display()));
        match name.is_some_and(probe::exists) {
            true => failure.with_help("as a probe there is: unspool tool run --probe …"),
            false => failure.with_help("unspool tool list names those that there are"),
        }
    })?;
    if choice.control.is_some() && !tool.is_controllable {
        let failure = format!(
            "`{}` looks at the whole run: --control is not for it",
            tool.name
        );
        return Err(Failure::new(failure));
    }
    let control = choice.control.as_ref().map(ToString::to_string);
    let control = control.map(|control| [CONTROL.to_owned(), control]);
    begin(tool, choice.control.clone(), &choice.arguments);
    let own = RUN.map(str::to_owned).into_iter();
    let own = own.chain(control.into_iter().flatten());
    let own = own.chain([tool.name.to_owned()]).map(OsString::from);
    Ok(own.chain(choice.arguments.iter().cloned()).collect())
}

fn begin(tool: &Shipped, control: Option<Control>, arguments: &[OsString]) {
    if let Some(control) = control {
        set_control(control);
    }
    set_arguments(arguments.to_vec());
    (tool.install)();
}

fn find(name: &str) -> Option<&'static Shipped> {
    ALL.iter().find(|tool| tool.name == name)
}

/// In a process that an observed program executed: the tool goes on with it.
pub(crate) fn continue_tool(plan: &Plan) {
    let [tool, run, own @ ..] = &plan.own_arguments[..] else {
        return;
    };
    let (control, own) = match own {
        [option, control, own @ ..] if option.to_str() == Some(CONTROL) => (control.to_str(), own),
        own => (None, own),
    };
    if let [name, arguments @ ..] = own
        && [&**tool, &**run] == RUN
        && let Some(tool) = name.to_str().and_then(find)
    {
        // It was understood before.
        let control = control.and_then(|control| control.parse().ok());
        begin(tool, control, arguments);
    }
}
