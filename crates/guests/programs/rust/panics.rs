//! Panics that are caught, that end a thread, and one that ends the program with 101.
// flags: -O
// ending: exit 101
use std::panic::{self, AssertUnwindSafe};
use std::thread;

struct Noted<'a>(&'a mut u32);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        *self.0 += 1;
    }
}

fn main() {
    panic::set_hook(Box::new(|information| {
        println!("panic: {}", information.payload().downcast_ref::<&str>().unwrap_or(&"with values"));
    }));
    let mut dropped = 0;
    for depth in 0..50 {
        let caught = panic::catch_unwind(AssertUnwindSafe(|| {
            let _noted = Noted(&mut dropped);
            let numbers: Vec<u32> = (0..depth).collect();
            numbers[depth as usize]
        }));
        assert!(caught.is_err());
    }
    let joined = thread::spawn(|| panic!("in a thread")).join();
    println!("{dropped} {}", joined.is_err());
    panic!("the last");
}
