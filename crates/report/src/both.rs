//! One reading for two sinks.

use unspool_events::stream::StreamNumber;
use unspool_events::{Access, Event, Executions, Module, Sink, ThreadId, TracedFunction};

/// Gives everything to two sinks: the first, then the second.
#[derive(Debug)]
pub struct Both<'a, First, Second>(pub &'a mut First, pub &'a mut Second);

impl<First: Sink, Second: Sink> Sink for Both<'_, First, Second> {
    fn module(&mut self, module: &Module) {
        self.0.module(module);
        self.1.module(module);
    }

    fn needs_order_of_time(&self) -> bool {
        self.0.needs_order_of_time() || self.1.needs_order_of_time()
    }

    fn settled(&mut self) {
        self.0.settled();
        self.1.settled();
    }

    fn function(&mut self, function: &TracedFunction) {
        self.0.function(function);
        self.1.function(function);
    }

    fn takes_executions(&self) -> bool {
        self.0.takes_executions() || self.1.takes_executions()
    }

    fn executions(&mut self, thread: ThreadId, executions: &Executions<'_>) {
        self.0.executions(thread, executions);
        self.1.executions(thread, executions);
    }

    fn accesses(&mut self, thread: ThreadId, batch: &[Access]) {
        self.0.accesses(thread, batch);
        self.1.accesses(thread, batch);
    }

    fn event(&mut self, thread: ThreadId, time: u64, event: &Event) {
        self.0.event(thread, time, event);
        self.1.event(thread, time, event);
    }

    fn passed_over(&mut self, thread: ThreadId, time: u64, stream: StreamNumber) {
        self.0.passed_over(thread, time, stream);
        self.1.passed_over(thread, time, stream);
    }

    fn values(&mut self, thread: ThreadId, accesses: &[Access], values: &[&[u8]]) {
        self.0.values(thread, accesses, values);
        self.1.values(thread, accesses, values);
    }
}
