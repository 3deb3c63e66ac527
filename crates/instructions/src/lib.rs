//! What x86-64 instructions are, and what they do to memory, registers and flags.
//!
//! [`decode`] finds the parts of one instruction in its bytes, by tables of its own: quick, and
//! enough to copy it. [`operands`] says which memory it accesses and which registers and flags it
//! uses, on the ground of `iced-x86`.
//!
//! You supply bytes and the address at which they lie, or an instruction that `iced-x86` has
//! decoded. This crate reads no memory and knows neither who executes the instruction nor what is
//! made of it.
//!
//! ```
//! use unspool_instructions::decode::{Kind, decode};
//!
//! let instruction = decode(&[0xe8, 0, 1, 0, 0], 0x40_0000)?;
//! assert_eq!(instruction.length, 5);
//! assert_eq!(instruction.kind, Kind::CallDirect);
//! # Ok::<(), unspool_instructions::decode::DecodeError>(())
//! ```
#![forbid(unsafe_code)]

pub mod decode;
pub mod operands;
