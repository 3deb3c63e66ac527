//! The probes that come with `unspool`, in one library: `unspool tool list` names them, and
//! `unspool tool run --probe NAME -- PROGRAM` loads them into a program.
//!
//! This crate must be built as a shared library of its own, without the static C library of the
//! rest: `unspool-collector-library` does so.

mod function_count;
mod malloc_callers;
mod malloc_count;

use unspool_probe::{environment, install};

fn choose() {
    match environment::name() {
        "malloc-count" => install(malloc_count::MallocCount::default()),
        "malloc-callers" => install(malloc_callers::MallocCallers::default()),
        "function-count" => install(function_count::FunctionCount::default()),
        // Loaded by somebody else than the command: nothing is to be done.
        _ => {}
    }
}

unspool_probe::start!(choose);
