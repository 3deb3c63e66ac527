//! A tool that changes what functions of the guest `functions/ends` do.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{Image, Original, Superblock, Tool, say};

type OfTwo = extern "C" fn(i64, i64) -> i64;
type OfFour = extern "C" fn(f64, i64, f64, f32) -> f64;

/// How often functions were entered, and left in the middle.
#[derive(Default)]
struct Changes {
    entered: AtomicU64,
    unfinished: AtomicU64,
}

/// Counts a function that does not come to its end.
struct Unfinished<'a>(&'a AtomicU64);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Changes {
    /// Calls the original twice.
    fn returns(&self, original: &mut Original<Self, OfTwo>, a: i64, b: i64) -> i64 {
        *original.state() += 1;
        original.call(a, b) + original.call(b, a)
    }

    fn recursive(&self, calls: &mut u64, _: i64, _: i64) -> i64 {
        *calls += 1;
        1000
    }

    fn floats(&self, original: &mut Original<Self, OfFour>, a: f64, b: i64, c: f64, d: f32) -> f64 {
        *original.state() += 1;
        original.call(a, b + 1, c, d)
    }

    fn passes(&self, original: &mut Original<Self, OfTwo>, number: i64, zero: i64) -> i64 {
        self.entered.fetch_add(1, Ordering::Relaxed);
        let unfinished = Unfinished(&self.unfinished);
        let result = original.call(number, zero);
        std::mem::forget(unfinished);
        result
    }
}

impl Tool for Changes {
    type Thread = u64;

    fn instrument(&self, _: &Superblock<Self>) {}

    fn image_load(&self, image: &Image<Self>) {
        image.wrap::<OfTwo>("returns", Changes::returns);
        image.replace::<OfTwo>("recursive", Changes::recursive);
        image.wrap::<OfFour>("floats", Changes::floats);
        for name in ["passes", "passes_leap", "odd", "even"] {
            image.wrap::<OfTwo>(name, Changes::passes);
        }
    }

    fn thread_end(&self, thread: &unspool_tool::ThreadInfo, calls: u64) {
        say(&format!("thread {}: {calls}", thread.number));
    }

    fn end(&self) {
        say(&format!(
            "{} entered, {} left in the middle",
            self.entered.load(Ordering::Relaxed),
            self.unfinished.load(Ordering::Relaxed)
        ));
    }
}

/// Runs the program that the command line names.
pub(crate) fn run() -> ! {
    unspool_tool::run(Changes::default())
}
