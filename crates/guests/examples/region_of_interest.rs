//! Computes inside a region of interest, which it tells by the annotation crate, and outside of it.

use std::time::{Duration, Instant};

#[inline(never)]
fn compute(time: Duration) -> u64 {
    let start = Instant::now();
    let mut value = 1_u64;
    while start.elapsed() < time {
        for number in 0..10_000 {
            value = std::hint::black_box(value.wrapping_mul(31) ^ number);
        }
    }
    value
}

#[inline(never)]
fn inside(time: Duration) -> u64 {
    compute(time) | 1
}

fn main() {
    let time = Duration::from_millis(100);
    let before = compute(time);
    unspool_annotate::start_region();
    let value = std::thread::spawn(move || inside(time));
    let value = value.join().expect("no panic");
    unspool_annotate::end_region();
    let behind = compute(time);
    assert!(before | value | behind != 0);
}
