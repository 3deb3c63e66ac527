//! A file and an analysis of one run.

use std::sync::Arc;

use crate::file::Summary;
use crate::id::ThreadId;
use crate::modules::{Measurement, Module, TracedFunction};
use crate::problem::WriteError;
use crate::record_sink::{RecordSink, ThreadRecords, Verdict};
use crate::superblock::Superblock;

/// Gives what is recorded to a file and to an analysis in the same process.
#[derive(Debug)]
pub struct Tee {
    /// Where the trace is written.
    pub file: Arc<dyn RecordSink>,
    /// What hears of the same, and has the say at the end.
    pub analysis: Arc<dyn RecordSink>,
}

impl Tee {
    fn each(&self, tell: impl Fn(&dyn RecordSink)) {
        tell(&*self.file);
        tell(&*self.analysis);
    }
}

impl RecordSink for Tee {
    fn define_superblock(&self, superblock: &Superblock) {
        self.each(|sink| sink.define_superblock(superblock));
    }

    fn begin_generation(&self) {
        self.each(|sink| sink.begin_generation());
    }

    fn define_module(&self, module: &Module) {
        self.each(|sink| sink.define_module(module));
    }

    fn define_function(&self, function: &TracedFunction) {
        self.each(|sink| sink.define_function(function));
    }

    fn add_measurement(&self, measurement: &Measurement) {
        self.each(|sink| sink.add_measurement(measurement));
    }

    fn thread(&self, thread: ThreadId) -> Box<dyn ThreadRecords> {
        Box::new(TeeThread {
            file: self.file.thread(thread),
            analysis: self.analysis.thread(thread),
        })
    }

    fn finish(&self) -> Result<Summary, WriteError> {
        let written = self.file.finish();
        self.analysis.finish().and(written)
    }

    fn verdict(&self) -> Option<Verdict> {
        self.analysis.verdict()
    }

    fn note_findings(&self) {
        self.analysis.note_findings();
    }

    fn last_words(&self) -> Option<Arc<str>> {
        self.analysis.last_words()
    }

    fn is_busy(&self) -> bool {
        self.file.is_busy() || self.analysis.is_busy()
    }

    fn is_crowded(&self) -> bool {
        self.analysis.is_crowded()
    }
}

/// The records of one thread.
#[derive(Debug)]
struct TeeThread {
    file: Box<dyn ThreadRecords>,
    analysis: Box<dyn ThreadRecords>,
}

impl ThreadRecords for TeeThread {
    fn append(&mut self, words: &[u64]) {
        self.file.append(words);
        self.analysis.append(words);
    }

    fn counted(&self) -> Option<(u64, usize)> {
        self.file.counted()
    }

    fn flush(&mut self) {
        self.file.flush();
        self.analysis.flush();
    }

    fn enter_generation(&mut self) {
        self.file.enter_generation();
        self.analysis.enter_generation();
    }

    fn finish(self: Box<Self>) {
        self.file.finish();
        self.analysis.finish();
    }
}
