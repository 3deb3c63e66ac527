//! Functions of the tool around functions of the program: none changes what the program computes,
//! and each wrapper's values are dropped, however it is left.
//!
//! With `gated`, the wrappers compute with floating-point numbers, so that the engine runs them;
//! else the hooks do. With `spoilt`, one wrapper returns something else.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{Image, ImageKind, Original, Signature, Superblock, ThreadInfo, Tool, say};

use crate::asked;

/// The tool.
#[derive(Default)]
pub(crate) struct Wrappers<const GATED: bool> {
    begun: AtomicU64,
    left: AtomicU64,
    spoilt: bool,
}

/// What a thread's wrappers have done.
#[derive(Default)]
pub(crate) struct Done {
    begun: u64,
}

/// Counts when it is dropped.
struct Guard<'a>(&'a AtomicU64);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

type Deep = extern "C" fn(u64) -> u64;
type Scale = extern "C" fn(f64, u64) -> f64;
type Thrower = extern "C" fn(u64);
type Jumper = extern "C" fn(u64, u64);

impl<const GATED: bool> Wrappers<GATED> {
    pub(crate) fn new() -> Wrappers<GATED> {
        Wrappers {
            spoilt: asked("spoilt"),
            ..Wrappers::default()
        }
    }

    fn begin<S: Signature>(&self, original: &mut Original<'_, Self, S>) -> Guard<'_> {
        if GATED {
            let number = Cell::new(1.5);
            number.set(black_box(number.get()) * black_box(2.5));
            black_box(&number);
        }
        original.state().begun += 1;
        Guard(&self.left)
    }

    fn deep(&self, original: &mut Original<'_, Self, Deep>, n: u64) -> u64 {
        let _guard = self.begin(original);
        original.call(n)
    }

    fn scale(&self, original: &mut Original<'_, Self, Scale>, by: f64, n: u64) -> f64 {
        let _guard = self.begin(original);
        original.call(by, n)
    }

    /// Of four calls, one does not reach the original, and one reaches it twice.
    fn chosen(&self, original: &mut Original<'_, Self, Deep>, n: u64) -> u64 {
        let _guard = self.begin(original);
        match n % 4 {
            0 => 2 * n + 1 + u64::from(self.spoilt),
            1 => original.call(n + 7) + original.call(n) - (2 * (n + 7) + 1),
            _ => original.call(n),
        }
    }

    fn thrower(&self, original: &mut Original<'_, Self, Thrower>, n: u64) {
        let _guard = self.begin(original);
        original.call(n);
    }

    fn jumper(&self, original: &mut Original<'_, Self, Jumper>, to: u64, n: u64) {
        let _guard = self.begin(original);
        original.call(to, n);
    }
}

impl<const GATED: bool> Tool for Wrappers<GATED> {
    type Thread = Done;

    fn instrument(&self, _: &Superblock<Self>) {}

    fn image_load(&self, image: &Image<Self>) {
        if image.kind() != ImageKind::Program {
            return;
        }
        image.wrap::<Deep>("deep", Self::deep);
        image.wrap::<Scale>("scale", Self::scale);
        image.wrap::<Deep>("chosen", Self::chosen);
        image.wrap::<Thrower>("thrower", Self::thrower);
        image.wrap::<Jumper>("jumper", Self::jumper);
    }

    fn thread_end(&self, _: &ThreadInfo, done: Done) {
        self.begun.fetch_add(done.begun, Ordering::Relaxed);
    }

    fn end(&self) {
        let (begun, left) = (&self.begun, &self.left);
        say(&format!(
            "wrappers: {} begun, {} left",
            begun.load(Ordering::Relaxed),
            left.load(Ordering::Relaxed)
        ));
    }
}
