// RwLock of Rust's library: what it guards, and what lies beside it.
use std::sync::{Arc, Barrier, RwLock};
static mut VALUE: u64 = 0;
fn main() {
    let lock = Arc::new(RwLock::new(()));
    let barrier = Arc::new(Barrier::new(2));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (lock, barrier) = (Arc::clone(&lock), Arc::clone(&barrier));
            std::thread::spawn(move || {
                barrier.wait();
                #[cfg(not(racy))]
                let guard = lock.write().unwrap();
                unsafe { VALUE += 1 }; // race: VALUE
                #[cfg(not(racy))]
                drop(guard);
                std::hint::black_box(&lock);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    std::hint::black_box(&raw const VALUE);
}
