//! Who gets what is recorded, in the observed process itself.

use std::fmt;
use std::sync::Arc;

use unspool_events::{RecordSink, TraceHeader};

/// Makes a sink for the records of each process and program of a run. The engine knows no more of
/// it: what is done with the records is the business of whoever has made the plan.
///
/// A plan that is handed to another process says only that there was one. That process is to make
/// one anew, from the plan's own arguments.
#[derive(Clone)]
pub struct Receiver(Arc<Make>);

type Make = dyn Fn(&TraceHeader) -> Arc<dyn RecordSink> + Send + Sync;

impl Receiver {
    /// What makes the sinks.
    pub fn new(
        make: impl Fn(&TraceHeader) -> Arc<dyn RecordSink> + Send + Sync + 'static,
    ) -> Receiver {
        Receiver(Arc::new(make))
    }

    /// A sink for the records that the header is about.
    pub(crate) fn sink(&self, header: &TraceHeader) -> Arc<dyn RecordSink> {
        (self.0)(header)
    }
}

impl PartialEq for Receiver {
    fn eq(&self, other: &Receiver) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Receiver {}

impl fmt::Debug for Receiver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Receiver")
    }
}
