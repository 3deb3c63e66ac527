//! Where samples come from.

use unspool_container::bytes::Malformed;
use unspool_profile_record::{Counted, EventCount};

use crate::kernel_record::KernelRecord;

/// What is read: records, or what is none.
pub(crate) type Read = Result<KernelRecord, Malformed>;

/// What takes samples of a program and tells of it in the kernel's records.
pub(crate) trait Source {
    /// Waits a while, or until there is something to read.
    fn wait(&self);

    /// Takes out what has come. What is later than everything of the time before may be preceded
    /// by something that comes the next time.
    fn drain(&mut self, each: &mut dyn FnMut(Read));

    /// The run is over: takes out the rest. Gives what was counted, where something else has
    /// counted than the reader.
    fn finish(&mut self, each: &mut dyn FnMut(Read)) -> Option<Counted>;

    /// How often the events have happened that are sampled beside time.
    fn event_counts(&self) -> Vec<EventCount> {
        Vec::new()
    }
}
