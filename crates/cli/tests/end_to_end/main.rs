//! The real command on real programs.
//!
//! `UNSPOOL=/path/to/unspool` tests another build of it. A failing test prints the commands
//! that replay it and keeps the folder it ran in; a test for which the machine lacks
//! something is reported as ignored, with the reason. Without a filter, a run makes a sample of the
//! largest matrices of tests: [`sample`].

mod asleep;
mod bad_input;
mod book;
mod broken_pipe;
mod cache_control;
mod call_paths;
mod close_clocks;
mod code_cache;
mod comparison;
mod data_set;
mod debugger;
mod detach;
mod doctor;
mod elements;
mod guest_programs;
mod instructions;
mod live;
mod long_runs;
mod longest;
mod memory_limits;
mod modules;
mod named_functions;
mod new_tool;
mod observer;
mod order;
mod original_library;
mod other_orders;
mod own_failures;
mod persistent_cache;
mod probes;
mod profile;
mod programs;
mod races;
mod readme;
mod routines;
mod sample;
mod scratch;
mod seccomp;
mod selection;
mod show;
mod single_steps;
mod summary;
mod thread_lives;
mod thread_memory;
mod together;
mod tools;
mod trace_files;
mod verification;

use libtest_mimic::{Arguments, Trial};

fn main() {
    // The instruction tests observe this executable itself.
    unspool_fuzz_instructions::runner::run_if_called();
    let arguments = Arguments::from_args();
    let mut trials: Vec<Trial> = Vec::new();
    trials.extend(guest_programs::trials());
    trials.extend(programs::trials());
    trials.extend(instructions::trials());
    trials.extend(live::trials());
    trials.extend(long_runs::trials());
    trials.extend(cache_control::trials());
    trials.extend(elements::trials());
    trials.extend(order::trials());
    trials.extend(close_clocks::trials());
    trials.extend(data_set::trials());
    trials.extend(code_cache::trials());
    trials.extend(other_orders::trials());
    trials.extend(races::trials());
    trials.extend(memory_limits::trials());
    trials.extend(modules::trials());
    trials.extend(own_failures::trials());
    trials.extend(persistent_cache::trials());
    trials.extend(seccomp::trials());
    trials.extend(selection::trials());
    trials.extend(show::trials());
    trials.extend(summary::trials());
    trials.extend(thread_lives::trials());
    trials.extend(thread_memory::trials());
    trials.extend(bad_input::trials());
    trials.extend(together::trials());
    trials.extend(tools::trials());
    trials.extend(debugger::trials());
    trials.extend(detach::trials());
    trials.extend(doctor::trials());
    trials.extend(probes::trials());
    trials.extend(profile::trials());
    trials.extend(named_functions::trials());
    trials.extend(new_tool::trials());
    trials.extend(book::trials());
    trials.extend(call_paths::trials());
    trials.extend(broken_pipe::trials());
    trials.extend(routines::trials());
    trials.extend(trace_files::trials());
    trials.extend(asleep::trials());
    trials.extend(original_library::trials());
    trials.extend(verification::trials());
    trials.extend(readme::trials());
    trials.push(readme::behaviours_are_tested(&trials));
    trials.push(sample::is_of_every_row(&trials));
    let conclusion = libtest_mimic::run(&arguments, sample::of(trials, &arguments));
    longest::report();
    conclusion.exit();
}
