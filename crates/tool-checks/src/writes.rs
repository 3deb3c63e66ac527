//! Writes memory of the guest where that calls `point`: so many bytes as it says, one more each time.
//! With `none` it writes nothing.

use std::sync::atomic::{AtomicU8, Ordering};

use unspool_tool::{Address, FunctionArgument, Image, Superblock, Tool, write_memory};

use crate::asked;

/// The tool.
#[derive(Default)]
pub(crate) struct Writes {
    value: AtomicU8,
}

impl Writes {
    fn point(&self, (): &mut (), number: u64, at: Address) {
        // Bytes that are to be written, and that can be.
        let (wanted, possible) = match number {
            0 => (8, 8),
            1 => (8, 0),
            2 => (8, 3),
            _ => (1, 1),
        };
        let value = self.value.fetch_add(1, Ordering::Relaxed) + 10;
        let written = write_memory(at, &[value; 8][..wanted]);
        assert_eq!(written, possible, "at point {number}");
        assert_eq!(write_memory(Address(8), &[1]), 0, "nothing is mapped there");
    }
}

impl Tool for Writes {
    type Thread = ();

    fn instrument(&self, _: &Superblock<Self>) {}

    fn image_load(&self, image: &Image<Self>) {
        if asked("none") {
            return;
        }
        for point in image.routines_named("point") {
            let number = FunctionArgument::<u64, 0>::new();
            let at = FunctionArgument::<Address, 1>::new();
            point.entry().call(Writes::point, (number, at));
        }
    }
}
