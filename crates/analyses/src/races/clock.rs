//! Logical time: epochs, and vector clocks that say how much of each thread came before.
//!
//! Source: C. Flanagan and S. Freund, "FastTrack: Efficient and Precise Dynamic Race Detection",
//! PLDI 2009.

/// Which column of vector clocks a thread has. A thread that ends leaves it to a later one.
pub(super) type Slot = u32;

/// A stretch of one thread between two of its releases: its slot and its clock there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Epoch(u32);

impl Epoch {
    /// Before everything.
    pub(super) const NONE: Epoch = Epoch(0);
    /// What no epoch is: no clock is as great. No vector clock covers it.
    pub(super) const IMPOSSIBLE: Epoch = Epoch(u32::MAX);
    /// So many slots there are.
    pub(super) const SLOTS: u32 = 1 << (u32::BITS - Epoch::CLOCK_BITS);
    /// The greatest clock.
    pub(super) const LAST_CLOCK: u32 = (1 << Epoch::CLOCK_BITS) - 2;

    const CLOCK_BITS: u32 = 20;

    pub(super) fn new(slot: Slot, clock: u32) -> Epoch {
        debug_assert!(slot < Epoch::SLOTS && clock <= Epoch::LAST_CLOCK);
        Epoch(slot << Epoch::CLOCK_BITS | clock)
    }

    pub(super) fn slot(self) -> Slot {
        self.0 >> Epoch::CLOCK_BITS
    }

    pub(super) fn clock(self) -> u32 {
        self.0 & ((1 << Epoch::CLOCK_BITS) - 1)
    }
}

/// How far each slot had come where this was taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct VectorClock(Vec<u32>);

impl VectorClock {
    pub(super) fn get(&self, slot: Slot) -> u32 {
        self.0.get(slot as usize).copied().unwrap_or(0)
    }

    pub(super) fn set(&mut self, slot: Slot, clock: u32) {
        let slot = slot as usize;
        if self.0.len() <= slot {
            self.0.resize(slot + 1, 0);
        }
        self.0[slot] = clock;
    }

    /// Whether all that happened in an epoch came before.
    pub(super) fn covers(&self, epoch: Epoch) -> bool {
        epoch.clock() <= self.get(epoch.slot())
    }

    /// What came before either.
    pub(super) fn join(&mut self, other: &VectorClock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (own, other) in self.0.iter_mut().zip(&other.0) {
            *own = (*own).max(*other);
        }
    }

    /// Becomes another one, in the memory that it has.
    pub(super) fn become_copy_of(&mut self, other: &VectorClock) {
        self.0.clone_from(&other.0);
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<u32>()
    }
}
