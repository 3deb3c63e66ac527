//! Where an observer's records go: into a file, to an analysis in the same process, or nowhere.

use std::fmt::Debug;
use std::sync::Arc;

use crate::file::{Summary, ThreadEncoder, TraceWriter};
use crate::id::ThreadId;
use crate::modules::{Measurement, Module, TracedFunction};
use crate::problem::WriteError;
use crate::superblock::Superblock;

/// Receives what an observer records of one process. [`TraceWriter`] and
/// [`LiveAnalysis`](crate::LiveAnalysis) are the two that there are.
///
/// A forked child makes one of its own, and never touches its parent's again, not even to drop it:
/// another of its parent's threads may have been using it.
pub trait RecordSink: Debug + Send + Sync {
    /// Adds a superblock. Called before the first record of one of its paths is appended.
    fn define_superblock(&self, superblock: &Superblock);

    /// All path ids are free to be given out anew: see [`TraceWriter::begin_generation`].
    fn begin_generation(&self);

    /// Adds a module.
    fn define_module(&self, module: &Module);

    /// Adds a traced function.
    fn define_function(&self, function: &TracedFunction);

    /// Adds a measurement of the observer's.
    fn add_measurement(&self, measurement: &Measurement);

    /// Where the records of one thread go. Asked for once for each thread.
    fn thread(&self, thread: ThreadId) -> Box<dyn ThreadRecords>;

    /// The process has ended, or goes on as another one. What is appended later is lost.
    ///
    /// # Errors
    /// If anything could not be kept since the records began.
    fn finish(&self) -> Result<Summary, WriteError>;

    /// What the user is to be told, once everything has come, and with which status the process is to
    /// end instead of the program's own. Asked for once, after [`RecordSink::finish`].
    fn verdict(&self) -> Option<Verdict> {
        None
    }

    /// Notes what has been found so far, for the case that the process is killed. Called now and
    /// then from a process that shares the memory, where files may be opened without the program's
    /// seeing it. Does not wait for threads, which may be killed meanwhile.
    fn note_findings(&self) {}

    /// What the user is to be told where the process was killed: what was noted last, in whole
    /// lines. None where nothing is to be told. No thread of the process is needed for it.
    fn last_words(&self) -> Option<Arc<str>> {
        None
    }

    /// Whether a thread would wait if it handed over something now.
    fn is_busy(&self) -> bool {
        false
    }

    /// Whether so much waits for threads that are behind that all should show where they are, and
    /// the others give them time.
    fn is_crowded(&self) -> bool {
        false
    }
}

/// Receives the raw stream of one thread (see [`crate::raw`]), from the thread itself or from
/// whoever speaks for it.
pub trait ThreadRecords: Debug + Send {
    /// Appends whole records. A stamp or values record may come in an earlier call than the record
    /// it belongs to.
    fn append(&mut self, words: &[u64]);

    /// The thread's time where it was last counted, and how many words have come since. `None` if it
    /// is never counted, because nothing is kept.
    fn counted(&self) -> Option<(u64, usize)>;

    /// Readers see everything appended so far, from now on.
    fn flush(&mut self);

    /// What is appended from now on names path ids of the generation that has begun last.
    fn enter_generation(&mut self);

    /// The thread has ended.
    fn finish(self: Box<Self>);
}

/// What came of an analysis in the process that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// For people, in whole lines.
    pub text: String,
    /// With which status the process ends, if not with the program's own.
    pub status: Option<u8>,
    /// Whether it does so only where the program's own status is 0.
    pub yields_to_failure: bool,
}

impl RecordSink for TraceWriter {
    fn define_superblock(&self, superblock: &Superblock) {
        self.define_superblock(superblock);
    }

    fn begin_generation(&self) {
        self.begin_generation();
    }

    fn define_module(&self, module: &Module) {
        self.define_module(module);
    }

    fn define_function(&self, function: &TracedFunction) {
        self.define_function(function);
    }

    fn add_measurement(&self, measurement: &Measurement) {
        self.add_measurement(measurement);
    }

    fn thread(&self, thread: ThreadId) -> Box<dyn ThreadRecords> {
        Box::new(self.thread(thread))
    }

    fn finish(&self) -> Result<Summary, WriteError> {
        self.finish()
    }
}

impl ThreadRecords for ThreadEncoder {
    fn append(&mut self, words: &[u64]) {
        self.append(words);
    }

    fn counted(&self) -> Option<(u64, usize)> {
        self.counted()
    }

    fn flush(&mut self) {
        self.flush();
    }

    fn enter_generation(&mut self) {
        self.enter_generation();
    }

    fn finish(self: Box<Self>) {
        (*self).finish();
    }
}
