// What Rust allocates, of the alignment that C's blocks have and of a greater one.
use std::sync::{Arc, Barrier};
#[repr(align(64))]
struct Aligned([u64; 16]);
fn main() {
    let numbers = vec![0_u64; 50]; // allocated: numbers 400
    let aligned = Box::new(Aligned([0; 16])); // allocated: aligned 128
    let (numbers, aligned) = (numbers.leak(), Box::leak(aligned));
    let places = [numbers.as_mut_ptr() as usize, aligned.0.as_mut_ptr() as usize];
    let barrier = Arc::new(Barrier::new(2));
    let threads: Vec<_> = (0..2)
        .map(|number| {
            let barrier = Arc::clone(&barrier);
            std::thread::spawn(move || {
                barrier.wait();
                let index = if cfg!(racy) { 7 } else { 7 + number };
                let [numbers, aligned] = places.map(|place| place as *mut u64);
                unsafe {
                    *numbers.add(index) = 1; // race: -, of numbers
                    *aligned.add(index) = 1; // race: -, of aligned
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    std::hint::black_box((numbers, aligned));
}
