//! Tells how many instructions each thread of a program executes.

use unspool_tool::{Counter, Superblock, ThreadInfo, Tool, say};

struct Threads {
    executed: Counter,
}

impl Tool for Threads {
    type Thread = ();

    fn instrument(&self, superblock: &Superblock<Self>) {
        for instruction in superblock.instructions() {
            instruction.before().count(self.executed, 1);
        }
    }

    fn thread_end(&self, thread: &ThreadInfo, _: ()) {
        let executed = self.executed.of_this_thread();
        say(&format!(
            "thread {}: {executed} instructions",
            thread.number
        ));
    }
}

fn main() {
    unspool_tool::run(Threads {
        executed: Counter::new(),
    })
}
