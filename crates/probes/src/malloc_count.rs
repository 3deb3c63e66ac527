//! Counts what a program allocates, by a function of its own around `malloc`.

use unspool_probe::{Address, Counter, Image, Original, Probe, say};

type Malloc = extern "C" fn(usize) -> Address;

/// Counts allocations.
#[derive(Default)]
pub(crate) struct MallocCount {
    calls: Counter,
    bytes: Counter,
}

impl MallocCount {
    fn malloc(&self, original: &mut Original<Malloc>, size: usize) -> Address {
        let block = original.call(size);
        if block != Address(0) {
            self.calls.add(1);
            self.bytes.add(size as u64);
        }
        block
    }
}

impl Probe for MallocCount {
    fn image_load(&self, image: &Image<Self>) {
        image.wrap::<Malloc>("malloc", MallocCount::malloc);
    }

    fn forked(&self) {
        self.calls.reset();
        self.bytes.reset();
    }

    fn end(&self) {
        let (calls, bytes) = (self.calls.total(), self.bytes.total());
        say(&format!(
            "{calls} blocks allocated by malloc, {bytes} bytes"
        ));
    }
}
