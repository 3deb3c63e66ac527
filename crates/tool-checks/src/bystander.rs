//! A tool that has a thread of its own, started by the standard library: none of the program's
//! signals may be lost in it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use unspool_tool::{Superblock, ThreadInfo, Tool, say};

static ROUNDS: AtomicU64 = AtomicU64::new(0);

/// The tool.
pub(crate) struct Bystander;

fn stand_by() {
    loop {
        ROUNDS.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_micros(100));
    }
}

impl Tool for Bystander {
    type Thread = ();

    fn instrument(&self, _: &Superblock<Self>) {}

    fn thread_start(&self, thread: &ThreadInfo, (): &mut ()) {
        if thread.number == 0 {
            std::thread::spawn(stand_by);
        }
    }

    fn end(&self) {
        let stood_by = ROUNDS.load(Ordering::Relaxed) > 0;
        say(&format!("bystander {stood_by}"));
    }
}
