//! Tells through which memory threads wait for each other most: locks, counters and flags that one
//! thread changes by atomic instructions and another one sees.

use std::collections::HashMap;

use unspool_tool::lock::Mutex;
use unspool_tool::{
    Side, Superblock, SyncObject, SyncOperation, Synchronisation, ThreadInfo, Tool, image_at, say,
};

/// How many places are told.
const MOST: usize = 5;

#[derive(Default)]
struct HandOvers {
    words: Mutex<HashMap<u64, Word>>,
}

/// A word that is accessed by atomic instructions.
#[derive(Default)]
struct Word {
    /// The thread that has written it last.
    writer: u32,
    /// How often another one came then.
    handed_over: u64,
    /// The last instruction that did.
    pc: u64,
}

impl Tool for HandOvers {
    /// Its number.
    type Thread = u32;
    const SYNCHRONISATION: bool = true;

    fn instrument(&self, _: &Superblock<Self>) {}

    fn thread_start(&self, info: &ThreadInfo, thread: &mut u32) {
        *thread = info.number;
    }

    fn synchronisation(&self, thread: &mut u32, event: &Synchronisation) {
        let (Side::Takes, SyncObject::Memory(address)) = (event.side, event.object) else {
            return;
        };
        let SyncOperation::Atomic {
            pc,
            has_written: Some(true),
            ..
        } = event.operation
        else {
            return;
        };
        let mut words = self.words.lock();
        let word = words.entry(address).or_default();
        if std::mem::replace(&mut word.writer, *thread) != *thread {
            (word.handed_over, word.pc) = (word.handed_over + 1, pc);
        }
    }

    fn end(&self) {
        let words = self.words.lock();
        let mut most: Vec<_> = words
            .iter()
            .filter(|(_, word)| word.handed_over > 0)
            .collect();
        most.sort_by_key(|(_, word)| std::cmp::Reverse(word.handed_over));
        for (address, word) in most.into_iter().take(MOST) {
            let image = image_at(word.pc);
            let routine = image.as_ref().and_then(|image| image.routine_at(word.pc));
            let by = routine.map_or_else(|| format!("{:#x}", word.pc), |it| it.name().to_string());
            let count = word.handed_over;
            say(&format!(
                "{address:#x}: {count} times to another thread, lately by {by}"
            ));
        }
    }
}

fn main() {
    unspool_tool::run(HandOvers::default())
}
