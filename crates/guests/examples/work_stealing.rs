//! What Rust programs share by crates: a pool that steals work, locks that park threads themselves,
//! channels and queues without locks. Nothing here races.

use std::sync::Arc;
use std::thread;

use crossbeam::channel;
use crossbeam::queue::SegQueue;
use parking_lot::{Condvar, Mutex, RwLock};
use rayon::prelude::*;

fn main() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
    let pool = pool.expect("two threads can be made");
    let sum: u64 = pool.install(|| (0..2000_u64).into_par_iter().map(|x| x * x % 7).sum());
    let mut sorted: Vec<u32> = (0..5000_u32)
        .map(|x| x.wrapping_mul(2_654_435_761))
        .collect();
    pool.install(|| sorted.par_sort_unstable());
    assert!(sorted.is_sorted());
    println!("{sum} {} {}", locked(), passed_on());
}

/// Counts under locks of `parking_lot`, until both threads have counted.
fn locked() -> u64 {
    let shared = Arc::new((Mutex::new((0_u64, 0)), Condvar::new(), RwLock::new(0_u64)));
    let threads: Vec<_> = (0..2)
        .map(|number| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (counted, ended, seen) = &*shared;
                for round in 0..50 {
                    counted.lock().0 += round;
                    match number {
                        0 => *seen.write() += 1,
                        _ => assert!(*seen.read() <= 50),
                    }
                }
                counted.lock().1 += 1;
                ended.notify_one();
            })
        })
        .collect();
    let (counted, ended, seen) = &*shared;
    let mut all = counted.lock();
    while all.1 < 2 {
        ended.wait(&mut all);
    }
    let result = all.0 + *seen.read();
    drop(all);
    for thread in threads {
        thread.join().expect("it does not panic");
    }
    result
}

/// Passes boxes on through a channel with little room and a queue without an end.
fn passed_on() -> u64 {
    let (sender, receiver) = channel::bounded::<Box<u64>>(4);
    let queue = SegQueue::new();
    thread::scope(|scope| {
        for _ in 0..2 {
            let sender = sender.clone();
            let queue = &queue;
            scope.spawn(move || {
                for number in 0..50 {
                    sender
                        .send(Box::new(number))
                        .expect("the receiver is there");
                    queue.push(Box::new(number));
                }
            });
        }
        drop(sender);
        receiver.iter().map(|boxed| *boxed).sum::<u64>()
    }) + std::iter::from_fn(|| queue.pop())
        .map(|boxed| *boxed)
        .sum::<u64>()
}
