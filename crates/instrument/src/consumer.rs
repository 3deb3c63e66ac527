//! Threads of the tool's that get the batches of a buffer whole.
//!
//! A thread of the program whose part of such a buffer is full gives the memory itself away, and goes
//! on in other memory. What is given away waits in a queue, from which one thread takes batch by
//! batch. Memory comes back when the tool drops the batch. At most so many batches of a buffer as the
//! tool says are given away and not back: a thread of the program that would exceed that waits.
//!
//! A forked child has a copy of this. The batches in its queue are the parent's, and so are those
//! that its tool holds. Before a fork the consumer takes all that the forking thread has given
//! away, and stands still until the process has been copied: nothing that it does is half done in the
//! child.

mod buffer_kind;
mod filled;
mod thread;

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use unspool_engine::flush;
use unspool_kernel::diagnostics;
use unspool_kernel::ids::Tid;
use unspool_kernel::lock::{Condvar, Mutex, MutexGuard};

pub use self::buffer_kind::{BufferKind, Deliver, Receiver};
pub use self::filled::Filled;
pub(crate) use self::filled::{Memory, PAGE};
use self::thread::ConsumerThread;
use super::in_tool::{deliver, in_tool};

/// What gets a batch whole, in the thread that is there for it.
pub type Consume = fn(Filled);

/// Changes are announced; that a thread also looks by itself costs nothing.
const LONG: Duration = Duration::from_secs(1);

/// What a buffer's consumer has had to do so far, in this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Consumption {
    /// Batches that threads of the program have given away.
    pub batches: u64,
    /// The entries in them.
    pub entries: u64,
    /// Those of the batches which the tool's function has got, and returned from.
    pub consumed: u64,
    /// How often a thread of the program had to wait, since too many batches were not back.
    pub waits: u64,
    /// The most batches that were given away and not back at one time.
    pub most_filled: usize,
}

/// The queue of a buffer, and the thread that empties it.
#[derive(Debug)]
pub(crate) struct Consumer {
    kind: &'static BufferKind,
    consume: Consume,
    most_filled: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Filled>,
    /// Memory that has come back.
    spares: Vec<Memory>,
    /// Batches that were given away and are not back.
    filled: usize,
    /// Whether the tool's function runs.
    is_consuming: bool,
    /// Threads that are about to fork.
    pauses: u32,
    thread: ConsumerThread,
    consuming_thread: Option<Tid>,
    is_over: bool,
    /// Which copy of the process this is: batches of another one do not count here.
    copy: u64,
    consumption: Consumption,
}

impl State {
    fn take(&mut self) -> Option<Filled> {
        if self.is_consuming || self.pauses != 0 {
            return None;
        }
        let filled = self.queue.pop_front()?;
        self.is_consuming = true;
        Some(filled)
    }

    fn admit(&mut self, most: usize) -> bool {
        let is_room = self.filled < most;
        if is_room {
            self.filled += 1;
            self.consumption.most_filled = self.consumption.most_filled.max(self.filled);
        }
        is_room
    }
}

impl Consumer {
    pub(crate) fn new(kind: &'static BufferKind, consume: Consume, most_filled: usize) -> Consumer {
        Consumer {
            kind,
            consume,
            most_filled,
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
        }
    }

    /// Memory for the part of a thread that starts.
    pub(crate) fn memory(&self) -> io::Result<Memory> {
        let spare = self.state.lock().spares.pop();
        spare.map_or_else(|| Memory::new(self.kind.part_size()), Ok)
    }

    /// The calling thread may give one batch more away; waits until it may.
    pub(crate) fn admit(&self) {
        let mut state = self.state.lock();
        if state.admit(self.most_filled) {
            return;
        }
        state.consumption.waits += 1;
        drop(state);
        // A consumer that stops all threads does not wait for this one.
        in_tool(|| {
            flush::while_stopped(|| self.wait_until(|state| state.admit(self.most_filled)));
        });
    }

    /// The same, with memory in which the thread goes on.
    pub(crate) fn admit_with_memory(&self) -> Memory {
        loop {
            self.admit();
            let error = match self.memory() {
                Ok(memory) => return memory,
                Err(error) => error,
            };
            // Some is there as soon as a batch comes back.
            let mut state = self.state.lock();
            state.filled -= 1;
            if state.filled == 0 {
                drop(state);
                diagnostics::fatal(&self.kind.lacks_memory(&error));
            }
            let before = state.filled;
            drop(state);
            in_tool(|| flush::while_stopped(|| self.wait_until(|state| state.filled < before)));
        }
    }

    /// Gives a batch away, for which there was room.
    pub(crate) fn give(&'static self, mut filled: Filled) {
        {
            let mut state = self.state.lock();
            filled.copy = state.copy;
            state.consumption.batches += 1;
            state.consumption.entries += filled.count() as u64;
            state.queue.push_back(filled);
        }
        self.changed.notify_all();
        self.start();
        self.consume_without_thread();
    }

    /// Where there is no thread for it, the calling one consumes what is there.
    fn consume_without_thread(&self) {
        loop {
            let mut state = self.state.lock();
            if !matches!(state.thread, ConsumerThread::Refused) {
                return;
            }
            let Some(filled) = state.take() else {
                return;
            };
            drop(state);
            self.consume(filled);
        }
    }

    fn consume(&self, filled: Filled) {
        deliver(|| (self.consume)(filled));
        let mut state = self.state.lock();
        state.is_consuming = false;
        state.consumption.consumed += 1;
        drop(state);
        self.changed.notify_all();
    }

    fn wait_until(&self, mut is_so: impl FnMut(&mut State) -> bool) {
        let mut state = self.state.lock();
        while !is_so(&mut state) {
            state = self.changed.wait_timeout(state, LONG);
        }
    }

    /// Memory comes back that was given away in that copy of the process.
    fn give_back(&self, memory: Memory, copy: u64) {
        let mut state = self.state.lock();
        if copy != state.copy {
            return;
        }
        state.filled -= 1;
        // Where threads have ended, theirs is not needed any more.
        let is_needed = state.filled + state.spares.len() < self.most_filled;
        let needless = match is_needed {
            true => {
                state.spares.push(memory);
                None
            }
            false => Some(memory),
        };
        drop(state);
        drop(needless);
        self.changed.notify_all();
    }

    /// Before the calling thread forks: what it has given away is consumed, and nothing more until
    /// [`Consumer::resume`].
    pub(crate) fn pause(&self) {
        let given = self.state.lock().consumption.batches;
        self.wait_until(|state| {
            let is_consumed = state.consumption.consumed >= given;
            state.pauses += u32::from(is_consumed);
            is_consumed
        });
        self.wait_until(|state| !state.is_consuming);
    }

    /// The process has been copied, or could not be.
    pub(crate) fn resume(&self) {
        self.state.lock().pauses -= 1;
        self.changed.notify_all();
        self.consume_without_thread();
    }

    /// In a forked child.
    pub(crate) fn begin_child(&self) {
        let mut state = self.state.lock();
        let spares = std::mem::take(&mut state.spares);
        let copy = state.copy + 1;
        let before = std::mem::replace(
            &mut *state,
            State {
                spares,
                copy,
                ..State::default()
            },
        );
        drop(state);
        before.thread.forget();
        // The parent's batches: only their memory is given back, as it is no longer counted.
        drop(before.queue);
    }

    /// All that was given away is consumed, and the thread gone. Whoever gives something away now,
    /// or will, consumes it.
    pub(crate) fn finish(&'static self) {
        let thread = {
            let mut state = self.state.lock();
            state.is_over = true;
            std::mem::replace(&mut state.thread, ConsumerThread::Ending)
        };
        self.changed.notify_all();
        thread.join();
        self.state.lock().thread = ConsumerThread::Refused;
        self.consume_without_thread();
    }

    /// The process goes on after all.
    pub(crate) fn goes_on(&self) {
        let mut state = self.state.lock();
        state.is_over = false;
        state.thread = ConsumerThread::NotStarted;
    }

    pub(crate) fn consumption(&self) -> Consumption {
        self.state.lock().consumption
    }

    /// The thread that runs the tool's function, if one does.
    pub(crate) fn consuming_thread(&self) -> Option<Tid> {
        let state = self.state.try_lock()?;
        state.consuming_thread.filter(|_| state.is_consuming)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}
