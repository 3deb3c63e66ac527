//! What this machine lets Unspool do, and what would let it do more.
//!
//! [`Platform::examine`] tries what the commands need, in the process and for the user that call
//! it: it takes samples, reserves address space, makes memory executable. [`checks`] judges what
//! was found. A check is *good*, *limited* (a command works with less) or *missing* (a command does
//! not work), and says what to do about all but the first.
//!
//! Trying comes before reading settings: a container may forbid what the kernel's settings allow,
//! and a capability may allow what they forbid. Settings only tell which remedy helps.
//!
//! ```
//! use unspool_doctor::{Platform, Verdict, checks};
//!
//! for check in checks(&Platform::examine()) {
//!     assert_eq!(check.verdict == Verdict::Good, check.remedy.is_none());
//! }
//! ```
#![deny(missing_docs)]

mod check;
mod judge;
mod memory;
mod platform;
mod report;
mod settings;

pub use check::{Area, Check, Verdict};
pub use judge::checks;
pub use memory::MemoryAccess;
pub use platform::Platform;
pub use report::{to_json, to_text};
pub use settings::Settings;
