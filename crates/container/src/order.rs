//! Which order between threads a trace holds.

/// What the times of a trace mean, and so what may be concluded from their comparison.
///
/// In every order the events of one thread stand in program order; the total order of a
/// merged trace is by (time, thread, position in the thread).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Order {
    /// No order between threads: an accessing instruction's time is its number
    /// among the accessing instructions and events of its own thread, from 1. The negative
    /// control.
    None = 0,
    /// Tickets drawn from one counter at synchronisation (atomic instructions, futexes,
    /// thread start and end). Time is the last ticket that the thread drew.
    Ticket = 1,
    /// The exact order of conflicting accesses: a Lamport clock that every accessing
    /// instruction and event advances by one, and that moves past the previous owner's
    /// clock wherever the ownership of a line moves.
    LineAtomic = 2,
    /// The processor's time-stamp counter, at synchronisation and at buffer boundaries.
    Timestamp = 3,
}

impl Order {
    /// Whether an accessing instruction or event advances the thread's time by one.
    #[must_use]
    pub fn advances_by_itself(self) -> bool {
        matches!(self, Order::None | Order::LineAtomic)
    }

    /// The name used on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Order::None => "none",
            Order::Ticket => "ticket",
            Order::LineAtomic => "line-atomic",
            Order::Timestamp => "timestamp",
        }
    }

    /// The inverse of `order as u8`.
    #[must_use]
    pub fn from_u8(value: u8) -> Option<Order> {
        [
            Order::None,
            Order::Ticket,
            Order::LineAtomic,
            Order::Timestamp,
        ]
        .into_iter()
        .find(|order| *order as u8 == value)
    }
}
