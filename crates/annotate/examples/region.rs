//! A region around the part of a program that matters, and names for its threads.

use std::sync::atomic::{AtomicU64, Ordering};

static TOTAL: AtomicU64 = AtomicU64::new(0);

fn main() {
    unspool_annotate::register_thread(0, c"main");
    unspool_annotate::start_region();
    std::thread::scope(|scope| {
        for number in 1..=2 {
            scope.spawn(move || {
                unspool_annotate::register_thread(number, c"adder");
                for _ in 0..1000 {
                    TOTAL.fetch_add(number.unsigned_abs(), Ordering::Relaxed);
                }
            });
        }
    });
    unspool_annotate::end_region();
    println!("{}", TOTAL.load(Ordering::Relaxed));
}
