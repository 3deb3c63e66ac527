//! How many bytes a program reads and writes, by whatever instructions.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Buffer, ElementIsWritten, ElementSize, Superblock, ThreadInfo, Tool, entry, run, say,
};

entry! {
    struct Access {
        size: u32,
        is_write: bool,
    }
}

struct BytesMoved {
    accesses: Buffer<BytesMoved, Access>,
    all: [AtomicU64; 2],
}

impl Tool for BytesMoved {
    /// Bytes that the thread has read and written.
    type Thread = [u64; 2];

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            instruction.append_accesses(self.accesses, (ElementSize, ElementIsWritten));
        }
    }

    fn thread_end(&self, _: &ThreadInfo, bytes: [u64; 2]) {
        for (all, bytes) in self.all.iter().zip(bytes) {
            all.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    fn end(&self) {
        let [read, written] = self.all.each_ref().map(|it| it.load(Ordering::Relaxed));
        say(&format!("{read} bytes read, {written} written"));
    }
}

fn main() {
    let add = |_: &BytesMoved, bytes: &mut [u64; 2], batch: &[Access]| {
        for access in batch {
            bytes[usize::from(access.is_write)] += u64::from(access.size);
        }
    };
    run(BytesMoved {
        accesses: Buffer::new(8192, add),
        all: Default::default(),
    })
}
