//! Guarded reads: as many bytes as the program says, with the values that it says.
//!
//! With `spoilt`, one more is expected.

use std::sync::atomic::{AtomicU64, Ordering};

use unspool_tool::{
    Address, FunctionArgument, Image, Superblock, ThreadInfo, Tool, read_memory, say,
};

use crate::asked;

/// The most bytes that the program asks for.
const MOST: usize = 1000;

/// The tool.
#[derive(Default)]
pub(crate) struct Reads {
    made: AtomicU64,
    wrong: AtomicU64,
}

/// What a thread has read.
#[derive(Default)]
pub(crate) struct Seen {
    made: u64,
    wrong: u64,
}

impl Reads {
    fn look(&self, seen: &mut Seen, at: Address, length: u64, there: u64) {
        let mut bytes = [0; MOST];
        let Some(wanted) = bytes.get_mut(..length as usize) else {
            return;
        };
        let read = read_memory(at, wanted);
        let are_those = wanted[..read]
            .iter()
            .zip(at.0..)
            .all(|(&byte, place)| u64::from(byte) == (place * 7 + 1) & 0xff);
        seen.made += 1;
        seen.wrong += u64::from(read as u64 != there || !are_those);
    }

    fn look_spoilt(&self, seen: &mut Seen, at: Address, length: u64, there: u64) {
        self.look(seen, at, length, there + 1);
    }
}

impl Tool for Reads {
    type Thread = Seen;

    fn instrument(&self, _: &Superblock<Self>) {}

    fn image_load(&self, image: &Image<Self>) {
        let values = (
            FunctionArgument::<Address, 0>::new(),
            FunctionArgument::<u64, 1>::new(),
            FunctionArgument::<u64, 2>::new(),
        );
        for routine in image.routines_named("readable") {
            if asked("spoilt") {
                routine.entry().call(Reads::look_spoilt, values);
            } else {
                routine.entry().call(Reads::look, values);
            }
        }
    }

    fn thread_end(&self, _: &ThreadInfo, seen: Seen) {
        self.made.fetch_add(seen.made, Ordering::Relaxed);
        self.wrong.fetch_add(seen.wrong, Ordering::Relaxed);
    }

    fn end(&self) {
        let (made, wrong) = (&self.made, &self.wrong);
        say(&format!(
            "reads: {} wrong of {}",
            wrong.load(Ordering::Relaxed),
            made.load(Ordering::Relaxed)
        ));
    }
}
