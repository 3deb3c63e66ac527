// What threads of a scope have written is read behind the scope, or within.
static mut VALUE: u64 = 0;
fn main() {
    std::hint::black_box(&raw mut VALUE);
    let barrier = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            barrier.wait();
            unsafe { VALUE = 1 }; // race: VALUE
        });
        barrier.wait();
        #[cfg(racy)]
        std::hint::black_box(unsafe { VALUE }); // race: VALUE
    });
    std::hint::black_box(unsafe { VALUE });
}
