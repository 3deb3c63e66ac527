// A value goes through a channel of Rust; the racy twin writes it behind that.
use std::sync::mpsc::channel;
static mut VALUE: u64 = 0;
fn main() {
    let (sender, receiver) = channel();
    let writer = std::thread::spawn(move || {
        #[cfg(not(racy))]
        unsafe { VALUE = 42 };
        sender.send(()).unwrap();
        #[cfg(racy)]
        unsafe { VALUE = 42 }; // race: VALUE
        #[cfg(racy)]
        std::thread::sleep(std::time::Duration::from_millis(50));
    });
    receiver.recv().unwrap();
    let seen = unsafe { VALUE }; // race: VALUE
    writer.join().unwrap();
    std::hint::black_box(seen);
}
