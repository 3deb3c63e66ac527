//! The code cache: machine code, made from the program's, and the ways through it.
//!
//! [`emit`] writes instructions, [`slots`] are the words of a thread that they reach, and [`binding`]
//! says which registers of the program wait there while the code uses them. [`cache`] keeps
//! **fragments**, links them to each other, and knows which instruction of the program each place
//! translates. [`gates`] lead in and out, [`exit`] says why a thread has come out, and
//! `branch_table` and `hashed_branches` lead indirect branches from one fragment to the next.
//! [`address`] tells where code lies from where the program's does. [`protection`] keeps what is filled from being written by accident.
//!
//! You supply the code of each fragment. What it does, who wants something inserted, and the threads that
//! execute it are not known here.

pub mod address;
pub mod binding;
mod branch_table;
pub mod cache;
pub mod emit;
pub mod exit;
pub mod gates;
mod hashed_branches;
pub mod protection;
pub mod slots;
