//! A probe for the guests `functions/entries` and `functions/ends`: arguments and results of all
//! kinds, in functions that are left in all ways. With the argument `slow` it takes its time at
//! the end of a process.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use unspool_probe::{Counter, Image, Original, Probe, arguments, say};

type Six = extern "C" fn(i64, i64, i64, i64, i64, i64) -> i64;
type Mixed = extern "C" fn(i32, f64, i64, f32) -> f64;
type Short = extern "C" fn(i32) -> i32;
type Long = extern "C" fn(i64) -> i64;
type Two = extern "C" fn(i64, i64) -> i64;

#[derive(Default)]
struct Checks {
    six: (Counter, Counter),
    mixed: (Counter, Mutex<f64>),
    leaf: (Counter, Counter),
    called_itself: Counter,
    shared: Counter,
    chosen: Counter,
    passes: (Counter, Counter),
    leaps: (Counter, Counter),
    recursive: Counter,
    dropped: AtomicU64,
}

impl Checks {
    fn six(&self, original: &mut Original<Six>, a: i64, b: i64, c: i64, d: i64, e: i64, f: i64) -> i64 {
        self.six.0.add(1);
        self.six.1.add((a + f) as u64);
        original.call(a, b, c, d, e, f)
    }

    fn mixed(&self, original: &mut Original<Mixed>, a: i32, b: f64, c: i64, d: f32) -> f64 {
        self.mixed.0.add(1);
        *self.mixed.1.lock().unwrap() += f64::from(a) + b + c as f64 + f64::from(d);
        original.call(a, b, c, d)
    }

    /// The guest's compiler knows that the original changes next to nothing; this changes all
    /// that a function may.
    fn leaf(&self, original: &mut Original<Long>, number: i64) -> i64 {
        self.leaf.0.add(1);
        self.leaf.1.add(number as u64);
        // What this function calls is its own.
        let text = format!("{number:?}");
        let result = original.call(number);
        let vectors = std::hint::black_box([text.len() as f64; 64]);
        std::hint::black_box(vectors.iter().sum::<f64>());
        // SAFETY: what is changed is said.
        unsafe {
            std::arch::asm!(
                "xor ecx, ecx", "xor edx, edx", "xor esi, esi", "xor edi, edi", "xor r8d, r8d",
                "xor r9d, r9d", "xor r10d, r10d", "xor r11d, r11d",
                "pxor xmm0, xmm0", "pxor xmm1, xmm1", "pxor xmm2, xmm2", "pxor xmm3, xmm3",
                "pxor xmm4, xmm4", "pxor xmm5, xmm5", "pxor xmm6, xmm6", "pxor xmm7, xmm7",
                out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _, out("r8") _, out("r9") _,
                out("r10") _, out("r11") _, out("xmm0") _, out("xmm1") _, out("xmm2") _,
                out("xmm3") _, out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            );
        }
        result
    }

    fn called_itself(&self, original: &mut Original<Short>, number: i32) -> i32 {
        self.called_itself.add(1);
        original.call(number)
    }

    /// In its place.
    fn shared(&self, number: i64) -> i64 {
        self.shared.add(1);
        number + 1
    }

    fn chosen(&self, original: &mut Original<Short>, number: i32) -> i32 {
        self.chosen.add(1);
        original.call(number)
    }

    /// Some calls are left by an exception, which drops what is here.
    fn passes(&self, original: &mut Original<Two>, a: i64, b: i64) -> i64 {
        struct Dropped<'a>(&'a AtomicU64);
        impl Drop for Dropped<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let _dropped = Dropped(&self.dropped);
        self.passes.0.add(1);
        let result = original.call(a, b);
        self.passes.1.add(1);
        result
    }

    /// All calls are left by `longjmp`.
    fn leaps(&self, original: &mut Original<Two>, a: i64, b: i64) -> i64 {
        self.leaps.0.add(1);
        let result = original.call(a, b);
        self.leaps.1.add(1);
        result
    }

    fn recursive(&self, original: &mut Original<Two>, a: i64, b: i64) -> i64 {
        self.recursive.add(1);
        original.call(a, b)
    }
}

impl Probe for Checks {
    fn image_load(&self, image: &Image<Self>) {
        image.wrap::<Six>("six", Checks::six);
        image.wrap::<Mixed>("mixed", Checks::mixed);
        image.wrap::<Long>("leaf", Checks::leaf);
        image.wrap::<Short>("called_itself", Checks::called_itself);
        image.replace::<Long>("shared", Checks::shared);
        image.wrap::<Short>("chosen", Checks::chosen);
        image.wrap::<Two>("passes", Checks::passes);
        image.wrap::<Two>("leaps", Checks::leaps);
        image.wrap::<Two>("recursive", Checks::recursive);
    }

    fn end(&self) {
        if arguments().iter().any(|argument| argument == "slow") {
            std::thread::sleep(Duration::from_millis(300));
        }
        let both = |name, (calls, sum): &(Counter, Counter)| {
            say(&format!("{name}: {} calls, sum {}", calls.total(), sum.total()));
        };
        both("six", &self.six);
        both("leaf", &self.leaf);
        both("passes", &self.passes);
        both("leaps", &self.leaps);
        let sum = *self.mixed.1.lock().unwrap();
        say(&format!("mixed: {} calls, sum {sum}", self.mixed.0.total()));
        for (name, calls) in [
            ("called_itself", &self.called_itself),
            ("shared", &self.shared),
            ("chosen", &self.chosen),
            ("recursive", &self.recursive),
        ] {
            say(&format!("{name}: {} calls", calls.total()));
        }
        let dropped = self.dropped.load(Ordering::Relaxed);
        say(&format!("dropped: {dropped}"));
    }
}

unspool_probe::probe!(Checks::default());
