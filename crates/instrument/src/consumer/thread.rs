//! The thread that consumes.

use std::thread::{Builder, JoinHandle};

use unspool_engine::signals::{self, STOP, SYNCHRONOUS, bit};
use unspool_kernel::ids::Tid;

use super::{Consumer, LONG};

const NAME: &str = "unspool-consume";

/// Whether there is one.
#[derive(Debug, Default)]
pub(super) enum ConsumerThread {
    #[default]
    NotStarted,
    Runs(JoinHandle<()>),
    /// It takes what is left.
    Ending,
    /// The system starts none, or the process is over.
    Refused,
}

impl ConsumerThread {
    /// In a process that has a copy of this, but not the thread.
    pub(super) fn forget(self) {
        if let ConsumerThread::Runs(thread) = self {
            // Detaching it would change what it has on its stack, which is another's here.
            std::mem::forget(thread);
        }
    }

    /// Waits until it has ended.
    pub(super) fn join(self) {
        if let ConsumerThread::Runs(thread) = self {
            // If it has panicked, the process has ended.
            let _ = thread.join();
        }
    }
}

impl Consumer {
    /// Starts the thread, if there is none yet.
    pub(crate) fn start(&'static self) {
        let mut state = self.lock();
        if !matches!(state.thread, ConsumerThread::NotStarted) {
            return;
        }
        // The program's signals are for its threads.
        let started = signals::with_all_blocked(|| {
            let builder = Builder::new().name(NAME.to_owned());
            builder.spawn(|| self.run())
        });
        // Where the program has as many threads as it may have, its own threads do the work.
        state.thread = started.map_or(ConsumerThread::Refused, ConsumerThread::Runs);
    }

    fn run(&self) {
        // Whoever looks for what blocks the end of the process asks by this signal.
        signals::set_exact_mask(!SYNCHRONOUS & !bit(STOP));
        self.lock().consuming_thread = Some(Tid::own());
        loop {
            let mut state = self.lock();
            let next = loop {
                if let Some(filled) = state.take() {
                    break Some(filled);
                }
                if state.is_over && state.queue.is_empty() {
                    break None;
                }
                state = self.changed.wait_timeout(state, LONG);
            };
            drop(state);
            match next {
                Some(filled) => self.consume(filled),
                None => return,
            }
        }
    }
}
