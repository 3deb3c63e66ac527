//! Raises signals where the guest calls `point`: two in the first thread, which calls it, and then one
//! in the second. With `none` it raises none.

use unspool_tool::{FunctionArgument, Image, SignalOrigin, Superblock, Tool, raise_signal};

use crate::asked;

const SEGMENT_VIOLATION: i32 = 11;
const USER_SIGNAL: i32 = 12;

/// The tool.
pub(crate) struct Raised;

impl Raised {
    fn point(&self, (): &mut (), number: u64) {
        let queued = SignalOrigin::Queue { value: 0x77 };
        let fault = SignalOrigin::Fault {
            code: 1,
            address: 0x1230,
        };
        let is_there = match number {
            0 => raise_signal(0, USER_SIGNAL, queued),
            1 => raise_signal(0, SEGMENT_VIOLATION, fault),
            _ => raise_signal(1, USER_SIGNAL, queued),
        };
        assert!(is_there, "the thread is there");
        assert!(
            !raise_signal(9, USER_SIGNAL, queued),
            "there is no such thread"
        );
    }
}

impl Tool for Raised {
    type Thread = ();

    fn instrument(&self, _: &Superblock<Self>) {}

    fn image_load(&self, image: &Image<Self>) {
        if asked("none") {
            return;
        }
        for point in image.routines_named("point") {
            point
                .entry()
                .call(Raised::point, (FunctionArgument::<u64, 0>::new(),));
        }
    }
}
