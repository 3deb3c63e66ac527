//! The tools that come with `unspool`: each short enough to read in a minute, and a place to
//! start from for another one.
//!
//! `unspool tool list` names them, `unspool tool run NAME -- PROGRAM` runs them.
#![forbid(unsafe_code)]

pub mod address_sum;
pub mod address_trace;
pub mod block_count;
pub mod branch_prediction;
pub mod cache;
pub mod call_count;
pub mod call_profile;
pub mod call_tree;
pub mod control_flow;
pub mod edge_profile;
pub mod function_log;
pub mod heap_overflow;
pub mod image_list;
pub mod instruction_count;
pub mod malloc_count;
pub mod memory_footprint;
pub mod opcode_mix;
pub mod system_calls;
pub mod watchpoint;
pub mod working_set;

use unspool_tool::install;

/// A tool that comes with `unspool`.
#[derive(Debug, Clone, Copy)]
pub struct Shipped {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it tells, in one line.
    pub about: &'static str,
    /// Whether it can look at a part of a run only: all that it tells is found out by what it has
    /// inserted.
    pub is_controllable: bool,
    /// Has the program that is going to be run in this process observed by it.
    pub install: fn(),
}

/// All of them.
pub const ALL: &[Shipped] = &[
    Shipped {
        name: "instruction-count",
        about: "How many instructions the program executes",
        is_controllable: true,
        install: || install(instruction_count::InstructionCount::new()),
    },
    Shipped {
        name: "block-count",
        about: "How many basic blocks it executes, and which most often",
        is_controllable: true,
        install: || install(block_count::BlockCount::default()),
    },
    Shipped {
        name: "edge-profile",
        about: "How often its conditional branches are taken and not taken",
        is_controllable: true,
        install: || install(edge_profile::EdgeProfile::default()),
    },
    Shipped {
        name: "opcode-mix",
        about: "Which instructions it executes, and how many of each",
        is_controllable: true,
        install: || install(opcode_mix::OpcodeMix::default()),
    },
    Shipped {
        name: "branch-prediction",
        about: "How well two simulated predictors foresee its conditional branches",
        is_controllable: true,
        install: || install(branch_prediction::BranchPrediction::default()),
    },
    Shipped {
        name: "call-count",
        about: "How many calls it makes, and how much stack they take",
        is_controllable: true,
        install: || install(call_count::CallCount::default()),
    },
    Shipped {
        name: "address-sum",
        about: "How many memory accesses it makes, and the sum of their addresses",
        is_controllable: true,
        install: || install(address_sum::AddressSum::new()),
    },
    Shipped {
        name: "address-trace",
        about: "The address of every memory access, into a file for each thread",
        is_controllable: true,
        install: || install(address_trace::AddressTrace::new()),
    },
    Shipped {
        name: "cache",
        about: "How many accesses miss a data cache of 32 KiB",
        is_controllable: true,
        install: || install(cache::Cache::new()),
    },
    Shipped {
        name: "working-set",
        about: "How many pages it needs at a time",
        is_controllable: true,
        install: || install(working_set::WorkingSet::new()),
    },
    Shipped {
        name: "call-profile",
        about: "Which functions it calls most, from a sample of its calls",
        is_controllable: true,
        install: || install(call_profile::CallProfile::new()),
    },
    Shipped {
        name: "memory-footprint",
        about: "How much memory it reads and writes, in how many lines and pages",
        is_controllable: true,
        install: || install(memory_footprint::MemoryFootprint::new()),
    },
    Shipped {
        name: "call-tree",
        about: "Which routines call which, and what is executed in them",
        is_controllable: false,
        install: || install(call_tree::CallTree::default()),
    },
    Shipped {
        name: "function-log",
        about: "Calls of the functions that its arguments name, with arguments and results",
        is_controllable: false,
        install: || install(function_log::FunctionLog::default()),
    },
    Shipped {
        name: "heap-overflow",
        about: "Where it reads or writes beside the blocks that it allocated",
        is_controllable: true,
        install: || install(heap_overflow::HeapOverflow::new()),
    },
    Shipped {
        name: "malloc-count",
        about: "How much it allocates by malloc",
        is_controllable: false,
        install: || install(malloc_count::MallocCount::default()),
    },
    Shipped {
        name: "image-list",
        about: "Which files its code comes from, when they are loaded and unloaded",
        is_controllable: false,
        install: || install(image_list::ImageList),
    },
    Shipped {
        name: "watchpoint",
        about: "Who writes to a range of memory: -a ADDRESS -a BYTES",
        is_controllable: true,
        install: || install(watchpoint::Watchpoint::new()),
    },
    Shipped {
        name: "system-calls",
        about: "Which system calls it makes, with arguments and results",
        is_controllable: false,
        install: || install(system_calls::SystemCalls),
    },
    Shipped {
        name: "control-flow",
        about: "Whether each instruction comes where the one before it led to",
        is_controllable: false,
        install: || install(control_flow::ControlFlow::default()),
    },
];
