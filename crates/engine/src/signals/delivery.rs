//! Which signal a thread of the program gets next, and under which mask: the program's side of
//! what the kernel does in `get_signal`, `signal_setup_done` and `restore_saved_sigmask`.
//!
//! The machine is pure. It holds the program's mask and the signals that the engine has taken
//! from the kernel; the thread tells it what happens (a call changes the mask, a handler is
//! entered, a call that waits with a mask of its own begins or ends), and it says what the thread
//! has to do. `delivery/tests.rs` explores all interleavings of such events with signals that
//! arrive at every step.

#[cfg(test)]
mod tests;

use super::bit;

/// What the machine must know of a signal.
pub trait Signal {
    /// Its number.
    fn number(&self) -> i32;
    /// Whether it cannot wait: an instruction has raised it, or the kernel would force it.
    fn is_forced(&self) -> bool;
    /// Whether it was sent to the process, and not to one thread of it.
    fn is_for_process(&self) -> bool;
}

/// The signals of one thread on their way to the program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Delivery<S> {
    /// The mask in force.
    mask: u64,
    /// The mask that comes back when the system call that has replaced it for its own duration
    /// is over: behind a handler, if it was interrupted by one.
    saved: Option<u64>,
    /// A signal that comes before all others, such as a fault.
    first: Option<S>,
    /// Taken from the kernel, in the order in which they came.
    taken: Vec<S>,
}

/// The first real-time signal: of those below, one of each kind can be pending for a thread, and
/// one for the process.
pub(crate) const FIRST_REAL_TIME: i32 = 32;

impl<S: Signal> Delivery<S> {
    /// A thread that has this mask, and no signals.
    #[must_use]
    pub fn new(mask: u64) -> Delivery<S> {
        Delivery {
            mask,
            saved: None,
            first: None,
            taken: Vec::new(),
        }
    }

    /// The mask in force.
    #[must_use]
    pub(crate) fn mask(&self) -> u64 {
        self.mask
    }

    /// A system call, or the end of a handler, has set the mask.
    pub(crate) fn set_mask(&mut self, mask: u64) {
        self.mask = mask;
    }

    /// A system call waits with a mask of its own.
    pub(crate) fn begin_wait(&mut self, mask: u64) {
        self.saved = Some(std::mem::replace(&mut self.mask, mask));
    }

    /// The call is over. Where a signal has interrupted it, its mask stays in force until the
    /// handler is entered.
    pub(crate) fn end_wait(&mut self, interrupted: bool) {
        if !interrupted || !self.is_due() {
            self.restore();
        }
    }

    fn restore(&mut self) {
        if let Some(mask) = self.saved.take() {
            self.mask = mask;
        }
    }

    /// A signal was taken from the kernel.
    pub fn take(&mut self, signal: S) {
        let number = signal.number();
        let kind = |signal: &S| (signal.number(), signal.is_for_process());
        let is_known = |other: &S| kind(other) == kind(&signal);
        if number >= FIRST_REAL_TIME || !self.taken.iter().any(is_known) {
            self.taken.push(signal);
        }
    }

    /// This signal comes before all others.
    pub fn put_first(&mut self, signal: S) {
        debug_assert!(
            !self.first.as_ref().is_some_and(Signal::is_forced),
            "an instruction has one fault at most"
        );
        if let Some(earlier) = self.first.replace(signal) {
            self.taken.insert(0, earlier);
        }
    }

    /// Whether there is a signal that the mask lets through.
    #[must_use]
    pub(crate) fn is_due(&self) -> bool {
        self.first.is_some() || self.unblocked().is_some()
    }

    /// The lowest number comes first, as from the kernel.
    fn unblocked(&self) -> Option<usize> {
        let numbers = self.taken.iter().map(Signal::number).enumerate();
        numbers
            .filter(|&(_, number)| self.mask & bit(number) == 0)
            .min_by_key(|&(_, number)| number)
            .map(|(index, _)| index)
    }

    /// The signal that the program gets now.
    pub(crate) fn take_next(&mut self) -> Option<S> {
        let first = self.first.take();
        first.or_else(|| self.unblocked().map(|index| self.taken.remove(index)))
    }

    /// The handler of a signal is entered. Returns the mask for its frame: what the handler's end
    /// brings back.
    pub(crate) fn enter_handler(&mut self, number: i32, blocked: u64, defers: bool) -> u64 {
        let before = self.saved.take().unwrap_or(self.mask);
        self.mask |= blocked | if defers { bit(number) } else { 0 };
        before
    }

    /// The mask that the frame of a handler would hold.
    #[must_use]
    pub(crate) fn mask_behind_handler(&self) -> u64 {
        self.saved.unwrap_or(self.mask)
    }

    /// A signal had no handler, and nothing else is due: a call that it has interrupted is over.
    pub(crate) fn end_without_handler(&mut self) {
        if !self.is_due() {
            self.restore();
        }
    }

    /// The signals that are pending, as the program sees it.
    #[must_use]
    pub(crate) fn pending(&self) -> u64 {
        let numbers = self.taken.iter().map(Signal::number);
        numbers.fold(0, |all, number| all | bit(number))
    }

    /// Takes out a signal of a set: the program waits for it, or it goes back to the kernel.
    pub(crate) fn remove(&mut self, set: u64) -> Option<S> {
        self.remove_where(|signal| set & bit(signal.number()) != 0)
    }

    /// Takes out the first signal of which this is true.
    pub(crate) fn remove_where(&mut self, is_wanted: impl Fn(&S) -> bool) -> Option<S> {
        let all = self.taken.iter().enumerate();
        let (index, _) = all
            .filter(|&(_, signal)| is_wanted(signal))
            .min_by_key(|&(_, signal)| signal.number())?;
        Some(self.taken.remove(index))
    }

    /// A forked child starts without its parent's signals.
    pub fn forget(&mut self) {
        self.first = None;
        self.taken.clear();
    }
}
