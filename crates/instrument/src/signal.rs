//! A signal on its way to the program, as a tool sees it.

use unspool_engine::signals;
use unspool_engine::syscalls::give_signal;
use unspool_engine::thread::{PendingSignal, Thread};

use super::process::process;

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

/// What the program is told of a signal that a tool raises (`siginfo_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SignalOrigin {
    /// An instruction, as of a fault.
    Fault {
        /// Why: `si_code`, `SEGV_MAPERR` for instance.
        code: i32,
        /// The address that it is about: `si_addr`.
        address: u64,
    },
    /// The process itself, by `sigqueue`.
    Queue {
        /// What was sent with it: `si_value`.
        value: u64,
    },
}

/// Raises a signal in a thread of the program, by its number: it is delivered before the next
/// instruction of the thread at which its mask lets it through, or at the end of the system call
/// that the thread is in, as any other signal. While one of the same number is still to be
/// delivered to the thread, it is left out. Returns whether there is such a thread.
///
/// # Panics
/// If it is no signal that can be caught, or the program is not running yet.
#[track_caller]
pub fn raise_signal(thread: u32, number: i32, origin: SignalOrigin) -> bool {
    const LAST: i32 = 64;
    let can_be_caught =
        (1..=LAST).contains(&number) && ![libc::SIGKILL, libc::SIGSTOP].contains(&number);
    assert!(can_be_caught, "{number} is no signal that can be caught");
    let process = process().expect("the program is running");
    let signal = PendingSignal {
        number,
        info: information(number, origin),
        fault: None,
        is_directed: true,
    };
    give_signal(process, signal, |handle| {
        // SAFETY: the thread lives while it is listed, and the list is locked meanwhile.
        unsafe { &*handle.thread }.id.0 == thread
    })
}

/// The words of a `siginfo_t`.
fn information(number: i32, origin: SignalOrigin) -> [u64; 16] {
    let mut info = [0; 16];
    info[0] = number as u64;
    match origin {
        SignalOrigin::Fault { code, address } => {
            info[1] = u64::from(code as u32);
            info[2] = address;
        }
        SignalOrigin::Queue { value } => {
            // SAFETY: it has no preconditions.
            let user = unsafe { libc::getuid() };
            info[1] = u64::from(libc::SI_QUEUE as u32);
            info[2] = u64::from(std::process::id()) | u64::from(user) << 32;
            info[3] = value;
        }
    }
    info
}
