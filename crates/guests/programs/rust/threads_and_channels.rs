//! Threads, scoped threads, channels, mutexes, condition variables and thread-locals of
//! Rust's standard library.
// flags: -O
use std::cell::Cell;
use std::sync::{Arc, Barrier, Condvar, Mutex, RwLock, mpsc};
use std::thread;

thread_local! {
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

fn main() {
    let (sender, receiver) = mpsc::channel();
    let workers: Vec<_> = (0..4u64)
        .map(|worker| {
            let sender = sender.clone();
            thread::spawn(move || {
                for item in 0..200 {
                    CALLS.with(|calls| calls.set(calls.get() + 1));
                    sender.send(worker * 1000 + item).unwrap();
                }
                CALLS.with(Cell::get)
            })
        })
        .collect();
    drop(sender);
    let sum: u64 = receiver.iter().sum();
    let calls: u32 = workers.into_iter().map(|worker| worker.join().unwrap()).sum();

    let mut numbers: Vec<u64> = (0..1000).collect();
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for part in numbers.chunks_mut(250) {
            scope.spawn(|| {
                barrier.wait();
                part.iter_mut().for_each(|number| *number *= 3);
            });
        }
    });
    let pair = Arc::new((Mutex::new(0), Condvar::new()));
    let other = Arc::clone(&pair);
    let counter = thread::spawn(move || {
        for _ in 0..100 {
            *other.0.lock().unwrap() += 1;
            other.1.notify_one();
        }
    });
    let mut count = pair.0.lock().unwrap();
    while *count < 100 {
        count = pair.1.wait(count).unwrap();
    }
    drop(count);
    counter.join().unwrap();
    let shared = RwLock::new(5);
    *shared.write().unwrap() += 1;
    println!("{sum} {calls} {} {}", numbers.iter().sum::<u64>(), shared.read().unwrap());
}
