//! How a thread's records come to be seen by whoever reads the file while it is written.

use std::sync::atomic::Ordering;

use unspool_events::raw::{SpecialKind, special_header};
use unspool_events::{Event, Order, ThreadEvent};

use super::TraceBuffer;

impl TraceBuffer {
    /// Shows the thread's records, and a time at which no earlier one can follow. The
    /// thread is out of the cache.
    pub(crate) fn catch_up(&mut self, floor: u64) {
        self.append(&self.thread_sync(floor));
        self.pass_stamp(self.position(), floor);
        self.empty();
        self.show();
    }

    /// The same where a record is in the making, which starts at `start` and has no words
    /// yet. Returns where it starts now.
    pub(crate) fn catch_up_mid_fragment(&mut self, start: u64, floor: u64) -> u64 {
        let start = self.insert_before(start, 0, &self.thread_sync(floor));
        self.pass_stamp(start, floor);
        self.hand_over(start);
        self.show();
        self.base
    }

    /// Ends the chunk, so that a reader has all that was handed over.
    pub(crate) fn show(&mut self) {
        self.flush();
        self.note_shown();
    }

    pub(crate) fn note_shown(&mut self) {
        let counted = self.encoder.as_ref().and_then(|encoder| encoder.counted());
        if let (Some(progress), Some((time, _))) = (&self.progress, counted) {
            self.reached = self.reached.max(time);
            progress.set_shown(time);
        }
    }

    /// Shows a time that others have asked for. The thread is out of the cache.
    pub(crate) fn show_floor(&mut self) {
        if let Some(floor) = self.take_floor() {
            self.catch_up(floor);
        }
    }

    /// The time that others have asked for, once.
    pub(crate) fn take_floor(&self) -> Option<u64> {
        self.progress.as_ref()?.take_floor()
    }

    /// Shows that the thread has nothing before a time, between two records.
    pub(crate) fn show_time(&mut self, time: u64) {
        self.encode(&self.thread_sync(time));
        self.show();
    }

    /// The time that the run has reached, as far as this thread knows.
    pub(crate) fn time_of_run(&self) -> Option<u64> {
        match self.recording.order() {
            Order::None => None,
            Order::LineAtomic => Some(self.reached),
            Order::Ticket => Some(self.recording.tickets.counter().load(Ordering::Relaxed)),
            // SAFETY: reads a counter.
            Order::Timestamp => Some(unsafe { std::arch::x86_64::_rdtsc() }),
        }
    }

    /// The event that moves a thread's time, with its stamp.
    fn thread_sync(&self, floor: u64) -> Vec<u64> {
        let time = self.recording.event_time().unwrap_or(floor);
        let mut words = vec![special_header(SpecialKind::Stamp, 0, 1), time];
        Event::Thread(ThreadEvent::ClockMoved).encode(&mut words);
        words
    }
}
