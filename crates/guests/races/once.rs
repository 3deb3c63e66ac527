// A table that Once makes; the racy twin's threads each make it.
use std::sync::{Barrier, Once};
static MADE: Once = Once::new();
static mut TABLE: [u64; 4] = [0; 4];
fn make() {
    unsafe { TABLE[1] = 7 }; // race: TABLE
}
fn main() {
    std::hint::black_box(&raw mut TABLE);
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                barrier.wait();
                #[cfg(not(racy))]
                MADE.call_once(make);
                #[cfg(racy)]
                make();
                std::hint::black_box(unsafe { TABLE[1] }); // race: TABLE
            });
        }
    });
    std::hint::black_box(&MADE);
}
