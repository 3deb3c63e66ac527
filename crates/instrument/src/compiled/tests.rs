//! What is found out about functions that are known.

use super::{Compiled, Step};

extern "C" fn adds(left: u64, right: &mut u64) -> u64 {
    *right += left;
    *right
}

extern "C" fn copies(from: &[u8; 32], to: &mut [u8; 32]) {
    *to = *from;
}

extern "C" fn multiplies(left: f64, right: f64) -> f64 {
    left * right
}

extern "C" fn may_panic(table: &[u64; 16], index: usize) -> u64 {
    table[index]
}

#[inline(never)]
extern "C" fn calls(left: u64, right: &mut u64) -> u64 {
    std::hint::black_box(adds as extern "C" fn(u64, &mut u64) -> u64)(left, right)
}

#[inline(never)]
fn square(number: u64) -> u64 {
    std::hint::black_box(number) * number
}

extern "C" fn calls_directly(number: u64) -> u64 {
    square(number) + square(number + 1)
}

extern "C" fn loops(numbers: &[u32; 1000]) -> u32 {
    numbers.iter().fold(0, |sum, it| sum.rotate_left(3) ^ it)
}

fn examined(function: *const ()) -> Option<Compiled> {
    Compiled::examine(function as u64)
}

#[test]
fn a_simple_function_changes_little_and_can_be_copied() {
    let found = examined(adds as *const ()).unwrap();
    assert!(found.flags, "{found:?}");
    assert_eq!(found.vectors, 0);
    assert_ne!(found.changes & 1, 0, "its result is in rax");
    assert_ne!(found.reads & 1 << 7, 0, "it reads rdi");
    assert_eq!(found.changes & (1 << 3 | 1 << 5), 0, "rbx and rbp are kept");
    if !cfg!(debug_assertions) {
        assert_eq!(found.changes & !(1 | 1 << 7), 0, "{found:?}");
        let body = found.body.expect("it is short");
        assert!(!body.uses_stack && body.steps.len() < 8, "{body:?}");
    }
}

#[test]
fn low_halves_of_vector_registers_are_seen() {
    let found = examined(copies as *const ()).unwrap();
    assert!(found.vectors != 0 || cfg!(debug_assertions), "{found:?}");
}

#[test]
fn arithmetic_and_what_cannot_be_followed_may_change_anything() {
    assert!(examined(multiplies as *const ()).is_none());
    assert!(examined(calls as *const ()).is_none());
    // Not code at all.
    static NUMBER: u64 = 0;
    assert!(examined((&raw const NUMBER).cast()).is_none());
}

#[test]
fn direct_calls_are_followed_and_loops_are_not_copied() {
    let found = examined(calls_directly as *const ()).unwrap();
    assert!(found.body.is_none());
    let found = examined(loops as *const ()).unwrap();
    assert!(found.body.is_none());
}

#[test]
fn a_way_that_panics_changes_nothing() {
    let found = examined(may_panic as *const ()).expect("a panic ends the way");
    if let Some(body) = found.body {
        let fails = body.steps.iter().any(|step| matches!(step, Step::Fail(_)));
        assert!(fails, "{body:?}");
    }
}
