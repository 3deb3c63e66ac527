//! From the registers of one frame to those of its caller.
//!
//! You supply what lies in a process: [`Module`]s with their call-frame information and code, the
//! registers of a thread, and a closure that reads words of its stack. [`Unwinder::step`] makes the
//! registers those of the caller, and says how they were found; [`Unwinder::certainty`] says how
//! certain it is that the caller called.
//!
//! A step tries in this order:
//!
//! 1. **Call-frame information** (`.eh_frame`): what the compiler says.
//! 2. **Analysis of the instructions**, where it says nothing: the function is followed from its
//!    entry, and what happens to the stack pointer and the saved registers is kept. Where functions
//!    begin says the caller; [`undescribed_functions`] finds it in code that is stripped of all else.
//! 3. **The frame pointer**, where the function's bounds are not known.
//! 4. **A scan of the stack** for the next word that is the return address of a call.
//!
//! Steps 3 and 4 count only where what they find is the return address of a call.
//!
//! Nothing is allocated while unwinding, nothing is locked, and nothing is read but what was
//! supplied, so a signal handler may do it. What was supplied is untrusted: damaged information is
//! a [`Failure`], never a panic and never an endless loop.
//!
//! This crate is not for finding modules, nor for names: it knows neither processes nor files.
//!
//! ```
//! use unspool_unwind::{Registers, Step, Unwinder, RSP};
//!
//! // A thread between two functions of which nothing is known.
//! let mut registers = Registers::at(0x1000);
//! registers.set(RSP, 0x7000);
//! let mut unwinder = Unwinder::new();
//! assert!(unwinder.step(&[][..], &mut registers, &mut |_| None).is_err());
//! ```
#![forbid(unsafe_code)]

mod bounds;
mod cache;
mod call_frame_information;
mod code;
mod follow;
mod module;
mod quick;
mod recipe;
mod registers;
mod section;
mod step;
mod unwinder;
mod validation;

pub use bounds::{function_starts, undescribed_functions};
pub use call_frame_information::{Entries, FrameDescription, search_table};
pub use code::{Analysis, FunctionCode};
pub use follow::follow;
pub use module::{ImageCode, Module, Modules};
pub use recipe::{Cfa, Recipe, Rule};
pub use registers::{CALLEE_SAVED, RBP, RBX, RETURN_ADDRESS, RSP, Registers, from_hardware};
pub use section::Section;
pub use step::{Failure, Found, Method, Step};
pub use unwinder::Unwinder;
pub use validation::Certainty;
