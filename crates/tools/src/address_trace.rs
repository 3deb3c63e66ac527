//! Writes the address of every memory access, in each thread's order: `R` or `W`, the address,
//! and the size, one access a line.
//!
//! Each thread of each process writes a file of its own, `addresses.out.PROCESS.THREAD`. Each
//! element of gathers, scatters, masked operands and repeated string instructions is an access.

use std::fs::File;
use std::io::{BufWriter, Write};

use unspool_tool::{
    Address, Buffer, ElementAddress, ElementIsWritten, ElementSize, Superblock, ThreadInfo, Tool,
    entry, say,
};

entry! {
    /// An access.
    struct Access {
        address: Address,
        size: u32,
        is_write: bool,
    }
}

/// What the files' names begin with.
const NAME: &str = "addresses.out";
/// Entries of a batch.
const BATCH: usize = 16 << 10;

/// Writes addresses.
pub struct AddressTrace {
    accesses: Buffer<AddressTrace, Access>,
}

/// What a thread writes to.
#[derive(Default)]
pub struct Thread {
    number: u32,
    file: Option<BufWriter<File>>,
}

impl AddressTrace {
    /// Nothing written yet.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a buffer is a resource")]
    pub fn new() -> AddressTrace {
        AddressTrace {
            accesses: Buffer::new(BATCH, AddressTrace::write),
        }
    }

    fn write(&self, thread: &mut Thread, batch: &[Access]) {
        let Thread { number, file } = thread;
        let file = file.get_or_insert_with(|| {
            let name = format!("{NAME}.{}.{number}", std::process::id());
            BufWriter::new(File::create(&name).unwrap_or_else(|error| panic!("{name}: {error}")))
        });
        for access in batch {
            let kind = if access.is_write { 'W' } else { 'R' };
            writeln!(file, "{kind} {} {}", access.address, access.size)
                .unwrap_or_else(|error| panic!("{NAME}: {error}"));
        }
    }
}

impl Tool for AddressTrace {
    type Thread = Thread;

    fn instrument(&self, superblock: &Superblock<Self>) {
        let access = (ElementAddress, ElementSize, ElementIsWritten);
        for instruction in superblock.instructions() {
            instruction.append_accesses(self.accesses, access);
        }
    }

    fn thread_start(&self, thread: &ThreadInfo, state: &mut Thread) {
        state.number = thread.number;
    }

    fn thread_end(&self, _: &ThreadInfo, thread: Thread) {
        if let Some(mut file) = thread.file {
            file.flush()
                .unwrap_or_else(|error| panic!("{NAME}: {error}"));
        }
    }

    fn before_fork(&self, thread: &mut Thread) {
        // What is in it must not be written by both.
        let flushed = thread.file.as_mut().map_or(Ok(()), Write::flush);
        flushed.unwrap_or_else(|error| panic!("{NAME}: {error}"));
    }

    fn forked(&self, thread: &mut Thread) {
        thread.file = None;
    }

    fn end(&self) {
        say(&format!("addresses are in {NAME}.*"));
    }
}
