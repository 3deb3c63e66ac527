//! What receives the contents of a trace.

use unspool_container::stream::StreamNumber;

use crate::access::Access;
use crate::event::Event;
use crate::executions::Executions;
use crate::id::ThreadId;
use crate::modules::{Module, TracedFunction};

/// An analysis, as the reader sees it: called with what happened, in the reader's order.
///
/// Every method has an empty default, so that an analysis names only what it needs.
pub trait Sink {
    /// A module of the program, before the first event that names it.
    fn module(&mut self, module: &Module) {
        let _ = module;
    }

    /// A traced function, before the first event that names it.
    fn function(&mut self, function: &TracedFunction) {
        let _ = function;
    }

    /// Accesses of one thread that follow each other, in the order in which they happened.
    /// Never empty. All accesses of one instruction are in one batch.
    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        let _ = (thread, batch);
    }

    /// Whether [`Sink::executions`] does more than to take executions apart. It is given some only
    /// where [`Sink::needs_order_of_time`] is not so, and the order says what threads have seen of
    /// each other.
    fn takes_executions(&self) -> bool {
        false
    }

    /// Accesses of one thread that follow each other, as executions of code: in place of
    /// [`Sink::accesses`] where that says the same. Other accesses still come there.
    fn executions(&mut self, thread: ThreadId, executions: &Executions<'_>) {
        let mut accesses = Vec::new();
        executions.expand(&mut accesses);
        self.accesses(thread, &accesses);
    }

    /// Something else that happened in a thread: a record of one of the other streams.
    fn event(&mut self, thread: ThreadId, time: u64, event: &Event) {
        let _ = (thread, time, event);
    }

    /// A record of a stream that is not understood here. The trace says which stream the number
    /// stands for.
    fn passed_over(&mut self, thread: ThreadId, time: u64, stream: StreamNumber) {
        let _ = (thread, time, stream);
    }

    /// All was given that is settled by now of a trace that is still being written, and it may take a
    /// while until there is more: what somebody waits to see is to be shown.
    fn settled(&mut self) {}

    /// Whether accesses must come in the reader's order even where nothing depends on it. Otherwise
    /// an order that says what threads have seen of each other (line-atomic) may be kept only as far
    /// as it says that: a thread's accesses may come before earlier ones of another thread that
    /// touch none of their lines, or only read them too. Each thread's own order stays, and so does
    /// the order of events.
    fn needs_order_of_time(&self) -> bool {
        true
    }

    /// The values that one instruction read and wrote. `accesses` are all accesses of the
    /// instruction (the last ones given to [`Sink::accesses`] for this thread), and
    /// `values[i]` holds the bytes of `accesses[i]`: what a read found, what a write left.
    /// It is empty where no value was recorded. `accesses` is never empty.
    fn values(&mut self, thread: ThreadId, accesses: &[Access], values: &[&[u8]]) {
        let _ = (thread, accesses, values);
    }
}

/// Whether a sink is given executions, where the order allows it.
pub(crate) fn is_given_executions(sink: &impl Sink) -> bool {
    sink.takes_executions() && !sink.needs_order_of_time()
}
