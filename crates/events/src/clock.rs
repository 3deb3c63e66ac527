//! A thread's time, as its records move it. Writer and reader use the same rules.
//!
//! - Time never goes back.
//! - In orders that advance by themselves each accessing instruction and each event has the
//!   time of the one before plus one; in the others it keeps the time of the one before.
//! - A stamp makes the time of its instruction (or event) at least as late as it says.
//!   A stamp whose instruction is not on the record's path moves the time after the record.
//! - A ticket makes the time of its instruction at least as late as its number.

use unspool_container::Order;

/// Keeps the time of one thread.
#[derive(Debug)]
pub(crate) struct Clock {
    step: u64,
    time: u64,
    /// Stamps for the next record: number of the instruction, time.
    stamps: Vec<(u64, u64)>,
}

impl Clock {
    /// A clock that shows `time`.
    pub(crate) fn new(order: Order, time: u64) -> Clock {
        Clock {
            step: u64::from(order.advances_by_itself()),
            time,
            stamps: Vec::new(),
        }
    }

    /// Sets the time, and forgets stamps.
    pub(crate) fn reset(&mut self, time: u64) {
        self.time = time;
        self.stamps.clear();
    }

    /// The time of the last item.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    /// Notes a stamp for the next record.
    pub(crate) fn stamp(&mut self, instruction: u64, time: u64) {
        self.stamps.push((instruction, time));
    }

    /// Whether the next record has stamps.
    #[inline]
    pub(crate) fn has_stamps(&self) -> bool {
        !self.stamps.is_empty()
    }

    /// Whether the next record has a stamp for accessing instruction `index`.
    #[inline]
    pub(crate) fn is_stamped(&self, index: usize) -> bool {
        let mut stamps = self.stamps.iter();
        stamps.any(|&(instruction, _)| instruction == index as u64)
    }

    /// Whether the next record has a stamp behind its first `instructions` ones.
    pub(crate) fn is_stamped_behind(&self, instructions: usize) -> bool {
        let mut stamps = self.stamps.iter();
        stamps.any(|&(instruction, _)| instruction >= instructions as u64)
    }

    /// The time of accessing instruction `index` of the record, to be asked in order.
    #[inline]
    pub(crate) fn instruction(&mut self, index: usize, ticket: Option<u64>) -> u64 {
        self.time = self.time.saturating_add(self.step);
        if let Some(ticket) = ticket {
            self.time = self.time.max(ticket);
        }
        for &(instruction, time) in &self.stamps {
            if instruction == index as u64 {
                self.time = self.time.max(time);
            }
        }
        self.time
    }

    /// Passes over instructions that have neither stamps nor tickets.
    pub(crate) fn pass(&mut self, instructions: u64) {
        self.time = self
            .time
            .saturating_add(instructions.saturating_mul(self.step));
    }

    /// The record of a path ends after `instructions` accessing instructions.
    #[inline]
    pub(crate) fn end_of_path(&mut self, instructions: usize) {
        if !self.stamps.is_empty() {
            for (instruction, time) in self.stamps.drain(..) {
                if instruction >= instructions as u64 {
                    self.time = self.time.max(time);
                }
            }
        }
    }

    /// The time of an event.
    pub(crate) fn event(&mut self) -> u64 {
        self.pass(1);
        for (_, time) in self.stamps.drain(..) {
            self.time = self.time.max(time);
        }
        self.time
    }
}
