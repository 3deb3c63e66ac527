// A channel without room hands over in both directions; the racy twin writes behind that.
use std::sync::mpsc::sync_channel;
static mut VALUE: u64 = 0;
fn main() {
    std::hint::black_box(&raw mut VALUE);
    let (sender, receiver) = sync_channel(0);
    let giver = std::thread::spawn(move || {
        #[cfg(not(racy))]
        unsafe { VALUE = 42 };
        sender.send(1).unwrap();
        #[cfg(racy)]
        unsafe { VALUE = 42 }; // race: VALUE
    });
    receiver.recv().unwrap();
    std::hint::black_box(unsafe { VALUE }); // race: VALUE
    giver.join().unwrap();
}
