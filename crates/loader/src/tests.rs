//! Tests of the loader as a whole: refusals, memory contents, the stack, and real programs.

mod crafted;
mod initial_stack;
mod mapping;
mod real_programs;
mod refusals;
mod scratch;
mod scripts;
