// Phases between which a barrier of Rust's library stands, or does not.
use std::sync::Barrier;
static mut PARTS: [u64; 2] = [0; 2];
fn main() {
    std::hint::black_box(&raw mut PARTS);
    let barrier = Barrier::new(2);
    std::thread::scope(|scope| {
        for number in 0..2 {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                for round in 0..20 {
                    unsafe { PARTS[number] = round }; // race: PARTS
                    #[cfg(not(racy))]
                    barrier.wait();
                    std::hint::black_box(unsafe { PARTS[1 - number] }); // race: PARTS
                    #[cfg(not(racy))]
                    barrier.wait();
                }
            });
        }
    });
}
