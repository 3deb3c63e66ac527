// A mutex, a lazy cell and an Arc of Rust's library.
use std::sync::{Arc, Barrier, Mutex, OnceLock};
static LAZY: OnceLock<Vec<u64>> = OnceLock::new();
static mut COUNTER: u64 = 0;
fn main() {
    let mutex = Arc::new(Mutex::new(0_u64));
    let barrier = Arc::new(Barrier::new(2));
    let threads: Vec<_> = (0..2)
        .map(|_| {
            let (mutex, barrier) = (Arc::clone(&mutex), Arc::clone(&barrier));
            std::thread::spawn(move || {
                barrier.wait();
                let lazy = LAZY.get_or_init(|| vec![1, 2, 3]);
                for _ in 0..20 {
                    *mutex.lock().unwrap() += lazy[1];
                }
                let guard = mutex.lock().unwrap();
                #[cfg(racy)]
                drop(guard);
                unsafe { COUNTER += 1 }; // race: COUNTER
                #[cfg(not(racy))]
                drop(guard);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    std::hint::black_box((mutex, &raw const COUNTER));
}
