//! A signal on its way to the program, as a tool sees it.

use unspool_engine::signals;
use unspool_engine::thread::{PendingSignal, Thread};

/// A signal that is about to be delivered to a thread of the program, which stands between two
/// instructions, or at the one that faulted.
pub struct Signal<'a> {
    thread: &'a mut Thread,
    number: i32,
    code: i32,
    address: Option<u64>,
}

impl<'a> Signal<'a> {
    pub(crate) fn new(thread: &'a mut Thread, signal: &PendingSignal) -> Signal<'a> {
        Signal {
            thread,
            number: signal.number,
            code: signals::code(&signal.info),
            address: signal.fault.map(|_| signal.info[2]),
        }
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> i32 {
        self.number
    }

    /// Why it was sent: `si_code`.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.code
    }

    /// If an instruction raised it: the address that it is about (`si_addr`).
    #[must_use]
    pub fn fault_address(&self) -> Option<u64> {
        self.address
    }

    /// Where the thread is.
    #[must_use]
    pub fn pc(&self) -> u64 {
        self.thread.pc()
    }

    /// A general register of the thread, by its number (rax 0, rcx 1, rdx 2, rbx 3, rsp 4, …).
    ///
    /// # Panics
    /// If there is no such register.
    #[must_use]
    pub fn register(&self, number: u8) -> u64 {
        self.thread.register(number)
    }

    /// Has the thread, or its handler's context, go on elsewhere.
    pub fn set_pc(&mut self, pc: u64) {
        self.thread.set_pc(pc);
    }

    /// Changes a register of the thread, or of its handler's context.
    ///
    /// # Panics
    /// If there is no such register.
    pub fn set_register(&mut self, number: u8, value: u64) {
        self.thread.set_register(number, value);
    }
}
