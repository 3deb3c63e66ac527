//! Write a probe: a library that is loaded into a program which runs natively, and puts
//! functions of its own in the place of the program's, or around them.
//!
//! Where a tool of `unspool-tool` sees every instruction of a translated program, a probe sees
//! the functions that it names, and costs nothing elsewhere. It is an ordinary crate of the type
//! `cdylib` (`unspool tool new --probe NAME` makes one), and all of `std` can be used in it:
//!
//! ```
//! use unspool_probe::{Address, Counter, Image, Original, Probe, say};
//!
//! type Malloc = extern "C" fn(usize) -> Address;
//!
//! #[derive(Default)]
//! struct MallocCount {
//!     calls: Counter,
//! }
//!
//! impl MallocCount {
//!     fn malloc(&self, original: &mut Original<Malloc>, size: usize) -> Address {
//!         self.calls.add(1);
//!         original.call(size)
//!     }
//! }
//!
//! impl Probe for MallocCount {
//!     fn image_load(&self, image: &Image<Self>) {
//!         image.wrap::<Malloc>("malloc", MallocCount::malloc);
//!     }
//!
//!     fn end(&self) {
//!         say(&format!("malloc was called {} times", self.calls.total()));
//!     }
//! }
//!
//! unspool_probe::probe!(MallocCount::default());
//! # fn main() {}
//! ```
//!
//! `unspool tool run --probe ./libmalloc_count.so -- PROGRAM` runs a program with it.
//!
//! A jump at a function's entry leads to the probe's function. It is put there before anything of
//! the image runs: at the process's start, or when the dynamic loader has just mapped a library.
//! So no thread can be in the middle of it. A function whose entry cannot be changed safely is
//! not probed, and a warning says which and why. `docs/decisions/0008-probes.md` says more.
//!
//! # What to know
//!
//! - What a function of the probe calls itself is its own: it is neither wrapped nor replaced.
//!   So is what a signal handler of the program calls that interrupts one.
//! - A panic ends the process, with a message and status 125.
//! - C++ exceptions pass through wrappers; a crate with `panic = "abort"` ends the process then.
//! - [`Probe::end`] is called by a process that ends by itself, not by one that a signal kills or
//!   that ends by a system call of its own.
//!
//! You supply the probe. This crate is not for programs without a dynamic loader (static ones),
//! nor for another C library than GNU's: there, tools of `unspool-tool` do.

mod branches;
mod call_path;
mod children;
mod code_bytes;
mod code_memory;
mod counter;
pub mod environment;
mod errno;
mod far_branches;
mod function;
mod functions;
mod image;
mod inside;
mod installed;
mod loaded_image;
mod loader;
mod mapped;
mod moved;
mod near;
mod own_stack;
mod passage;
mod patch;
mod probe;
mod readable;
mod refusal;
mod start;
mod voice;
mod walker;
mod walkers;

pub use call_path::call_path;
pub use counter::Counter;
pub use environment::arguments;
pub use function::{Address, Original, Replacement, Signature, Value, Wrapper};
pub use functions::Functions;
pub use image::Image;
pub use installed::install;
pub use passage::{EntryPoint, ResultPlace};
pub use probe::Probe;
#[doc(hidden)]
pub use start::begin;
pub use unspool_binary::Module;
pub use voice::say;
