//! Small programs that the tests observe, and what it takes to build and run them.
//!
//! A **guest** is one source file under `programs/`: one behaviour, a few dozen lines, a
//! check of its own result, and a first comment that says what it is and how to build it
//! (see [`guest`]). To add a guest, add a file; no list names it.
//!
//! What this crate solves: reading those comments ([`catalog`]), building each guest once
//! ([`workshop`]), saying which of its requirements this machine lacks ([`requirement`]),
//! and running any program with a time limit ([`invocation`]).
//!
//! What it is not for: deciding what is right. It knows nothing of translation or traces;
//! the tests of the `unspool` command compare the outcomes.
//!
//! ```
//! use std::time::Duration;
//! use unspool_guests::{Ending, Invocation};
//!
//! let outcome = Invocation::new("/bin/sh")
//!     .arguments(["-c", "echo spool; exit 3"])
//!     .limit(Duration::from_secs(10))
//!     .run(&std::env::temp_dir())
//!     .unwrap();
//! assert_eq!(outcome.ending, Ending::Exited(3));
//! assert_eq!(outcome.stdout, b"spool\n");
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod catalog;
pub mod fair_clock;
pub mod guest;
pub mod invocation;
pub mod requirement;
pub mod workshop;

pub use catalog::guests;
pub use fair_clock::FairClock;
pub use guest::{Comparison, Guest, Language};
pub use invocation::{Ending, Invocation, Outcome};
pub use requirement::Requirement;
pub use workshop::{BuildError, Workshop};
