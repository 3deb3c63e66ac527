// A read-write lock of Rust's library; the racy twin writes beside it.
use std::sync::{Barrier, RwLock};
static LOCK: RwLock<u64> = RwLock::new(0);
static mut VALUE: u64 = 0;
fn main() {
    std::hint::black_box(&raw mut VALUE);
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        for number in 0..2 {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                #[cfg(not(racy))]
                let mut guard = LOCK.write().unwrap();
                unsafe { VALUE = number }; // race: VALUE
                #[cfg(not(racy))]
                {
                    *guard += 1;
                    drop(guard);
                    std::hint::black_box(*LOCK.read().unwrap());
                }
            });
        }
    });
    #[cfg(racy)]
    std::hint::black_box(&LOCK);
}
