// A condition variable of Rust's library; the racy twin writes behind what it tells.
use std::sync::{Condvar, Mutex};
static READY: Mutex<bool> = Mutex::new(false);
static CHANGED: Condvar = Condvar::new();
static mut VALUE: u64 = 0;
fn main() {
    std::hint::black_box(&raw mut VALUE);
    let giver = std::thread::spawn(|| {
        #[cfg(not(racy))]
        unsafe { VALUE = 42 };
        *READY.lock().unwrap() = true;
        CHANGED.notify_one();
        #[cfg(racy)]
        unsafe { VALUE = 42 }; // race: VALUE
    });
    let mut ready = READY.lock().unwrap();
    while !*ready {
        ready = CHANGED.wait(ready).unwrap();
    }
    drop(ready);
    std::hint::black_box(unsafe { VALUE }); // race: VALUE
    giver.join().unwrap();
}
