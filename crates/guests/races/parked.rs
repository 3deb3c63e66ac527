// A thread is parked until another one has written; the racy twin writes behind that.
use std::sync::atomic::{AtomicBool, Ordering};
static READY: AtomicBool = AtomicBool::new(false);
static mut VALUE: u64 = 0;
fn main() {
    std::hint::black_box(&raw mut VALUE);
    let main = std::thread::current();
    let giver = std::thread::spawn(move || {
        #[cfg(not(racy))]
        unsafe { VALUE = 42 };
        READY.swap(true, Ordering::AcqRel);
        main.unpark();
        // Counting references to it orders, too.
        drop(main);
        #[cfg(racy)]
        unsafe { VALUE = 42 }; // race: VALUE
    });
    while !READY.swap(false, Ordering::AcqRel) {
        std::thread::park();
    }
    std::hint::black_box(unsafe { VALUE }); // race: VALUE
    giver.join().unwrap();
}
