//! Counts what a program allocates, by a function that is called where `malloc` returns, with
//! what that was asked for and what it returns.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Address, FunctionArgument, Image, ReturnValue, Superblock, ThreadInfo, Tool, say,
};

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
    fn returns(&self, allocated: &mut Allocated, size: usize, block: Address) {
        if block != Address(0) {
            allocated.calls += 1;
            allocated.bytes += size as u64;
        }
    }
}

impl Tool for MallocCount {
    type Thread = Allocated;

    fn instrument(&self, _: &Superblock<Self>) {}

    fn image_load(&self, image: &Image<Self>) {
        let arguments = (
            FunctionArgument::<usize, 0>::new(),
            ReturnValue::<Address>::new(),
        );
        for routine in image.routines_named("malloc") {
            routine.exit().call(MallocCount::returns, arguments);
        }
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
