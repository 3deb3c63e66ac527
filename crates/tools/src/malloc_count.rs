//! Counts what a program allocates, by a function of its own around `malloc`.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{Address, Image, Original, ThreadInfo, Tool, Trace, say};

type Malloc = extern "C" fn(usize) -> Address;

/// Counts allocations.
#[derive(Default)]
pub struct MallocCount {
    calls: AtomicU64,
    bytes: AtomicU64,
}

/// What a thread has allocated.
#[derive(Default)]
pub struct Allocated {
    calls: u64,
    bytes: u64,
}

impl MallocCount {
    fn malloc(&self, original: &mut Original<Self, Malloc>, size: usize) -> Address {
        let block = original.call(size);
        if block != Address(0) {
            let allocated = original.state();
            allocated.calls += 1;
            allocated.bytes += size as u64;
        }
        block
    }
}

impl Tool for MallocCount {
    type Thread = Allocated;

    fn instrument(&self, _: &Trace<Self>) {}

    fn image_load(&self, image: &Image<Self>) {
        image.wrap::<Malloc>("malloc", MallocCount::malloc);
    }

    fn thread_end(&self, _: &ThreadInfo, allocated: Allocated) {
        self.calls.fetch_add(allocated.calls, Ordering::Relaxed);
        self.bytes.fetch_add(allocated.bytes, Ordering::Relaxed);
    }

    fn forked(&self, allocated: &mut Allocated) {
        *allocated = Allocated::default();
        self.calls.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    fn end(&self) {
        let (calls, bytes) = (&self.calls, &self.bytes);
        say(&format!(
            "{} blocks allocated by malloc, {} bytes",
            calls.load(Ordering::Relaxed),
            bytes.load(Ordering::Relaxed)
        ));
    }
}
