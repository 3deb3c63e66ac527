//! What the program wants signals to do.

use unspool_kernel::lock::{Mutex, MutexGuard};

use super::{STOP, SYNCHRONOUS, bit};

/// The kernel's `struct sigaction` for x86-64.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Action {
    /// `SIG_DFL`, `SIG_IGN`, or a program address.
    pub(crate) handler: u64,
    /// `SA_*`.
    pub(crate) flags: u64,
    /// Where the handler returns to.
    pub(crate) restorer: u64,
    /// Signals blocked while the handler runs.
    pub(crate) mask: u64,
}

/// The default action.
pub(crate) const DEFAULT: u64 = 0;
/// The signal is dropped.
pub(crate) const IGNORE: u64 = 1;

const SA_RESTORER: u64 = 0x0400_0000;

/// The program's dispositions, for all threads of the process.
#[derive(Debug)]
pub(crate) struct Actions {
    table: Mutex<[Action; 65]>,
    /// The engine's handler.
    entry: u64,
    /// Whether signals that end the process are caught, so that the trace can be finished.
    catch_fatal: bool,
}

impl Actions {
    /// Takes over the dispositions that the process was started with, and installs the engine's
    /// handler, which is at `entry`, for synchronous faults. `inherited`: signals that were ignored
    /// by the program before, where the engine's is another disposition.
    #[must_use]
    pub(crate) fn inherit(entry: u64, inherited: u64, catch_fatal: bool) -> Actions {
        let mut table = [Action::default(); 65];
        for signal in 1..=64 {
            let mut action = kernel_action(signal);
            if signal == libc::SIGPIPE {
                action.handler = inherited_sigpipe();
            }
            // Whatever handler is there belongs to the engine's own runtime.
            let ignored = action.handler == IGNORE || inherited & bit(signal) != 0;
            table[signal as usize].handler = if ignored { IGNORE } else { DEFAULT };
        }
        let actions = Actions {
            table: Mutex::new(table),
            entry,
            catch_fatal,
        };
        for signal in 1..=64 {
            actions.install(signal, &table[signal as usize]);
        }
        actions
    }

    /// A copy for a child that has its own dispositions but its parent's memory.
    #[must_use]
    pub(crate) fn duplicate(&self) -> Actions {
        Actions {
            table: Mutex::new(*self.lock()),
            entry: self.entry,
            catch_fatal: self.catch_fatal,
        }
    }

    fn lock(&self) -> MutexGuard<'_, [Action; 65]> {
        self.table.lock()
    }

    /// The signals that are ignored.
    #[must_use]
    pub(crate) fn ignored(&self) -> u64 {
        let table = self.lock();
        let ignored = (1..=64).filter(|&signal| table[signal as usize].handler == IGNORE);
        ignored.fold(0, |all, signal| all | bit(signal))
    }

    /// The disposition of a signal.
    #[must_use]
    pub(crate) fn get(&self, signal: i32) -> Action {
        self.lock()[signal as usize]
    }

    /// Whether the action of a signal is the default one; `None` if it is being changed. For signal
    /// handlers.
    pub(crate) fn is_default(&self, signal: i32) -> Option<bool> {
        let table = self.table.try_lock()?;
        Some(table[signal as usize].handler == DEFAULT)
    }

    /// Sets the disposition of a signal. Returns the old one.
    pub(crate) fn set(&self, signal: i32, action: Action) -> Action {
        // The kernel learns of it under the lock, so that both know the same of two threads that
        // set it at once.
        let mut table = self.lock();
        let old = std::mem::replace(&mut table[signal as usize], action);
        self.install(signal, &action);
        old
    }

    /// Makes handlers the default, and takes all flags away (`CLONE_CLEAR_SIGHAND`).
    pub(crate) fn forget_handlers(&self) {
        for signal in 1..=64 {
            let ignored = self.get(signal).handler == IGNORE;
            let action = Action {
                handler: if ignored { IGNORE } else { DEFAULT },
                ..Action::default()
            };
            self.set(signal, action);
        }
    }

    /// Whether the engine's handler gets a signal whose action is the default one.
    #[must_use]
    pub(crate) fn is_caught(&self, signal: i32) -> bool {
        is_needed(signal) || self.catch_fatal && ends_process(signal)
    }

    /// Tells the kernel.
    fn install(&self, signal: i32, action: &Action) {
        if signal == libc::SIGKILL || signal == libc::SIGSTOP {
            return;
        }
        let caught = match action.handler {
            DEFAULT => self.is_caught(signal),
            IGNORE => is_needed(signal),
            _ => true,
        };
        let kept = libc::SA_RESTART | libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT;
        let mut kernel = Action {
            flags: action.flags & kept as u64,
            ..Action::default()
        };
        if signal == STOP && matches!(action.handler, DEFAULT | IGNORE) {
            // The engine's own signal interrupts no call that others' let be restarted: one of
            // these may come at the same time.
            kernel.flags |= libc::SA_RESTART as u64;
        }
        if caught {
            kernel.handler = self.entry;
            kernel.flags |= libc::SA_SIGINFO as u64 | libc::SA_ONSTACK as u64 | SA_RESTORER;
            kernel.restorer = unspool_signal_return as *const () as u64;
            kernel.mask = !SYNCHRONOUS;
        } else {
            kernel.handler = action.handler;
        }
        set_kernel_action(signal, &kernel);
    }
}

/// Whether the engine cannot do without its handler.
fn is_needed(signal: i32) -> bool {
    bit(signal) & SYNCHRONOUS != 0 || signal == STOP
}

/// Whether the default action of a signal is to end the process.
#[must_use]
pub(crate) fn ends_process(signal: i32) -> bool {
    !matches!(
        signal,
        libc::SIGCHLD
            | libc::SIGCONT
            | libc::SIGURG
            | libc::SIGWINCH
            | libc::SIGSTOP
            | libc::SIGTSTP
            | libc::SIGTTIN
            | libc::SIGTTOU
    )
}

/// Restores the default action in the kernel, so that the next such signal ends the process.
pub(crate) fn reset(signal: i32) {
    set_kernel_action(signal, &Action::default());
}

/// Signals that the program ignores, but not the kernel, because translated code needs them. All
/// else a new program inherits as it should: handlers become the default.
pub(crate) fn hidden_ignored(actions: &Actions) -> u64 {
    actions.ignored() & (SYNCHRONOUS | bit(STOP))
}

/// Has the kernel ignore signals, for a program that inherits that.
pub(crate) fn ignore(signals: u64) {
    for signal in (1..=64).filter(|&signal| bit(signal) & signals != 0) {
        set_kernel_action(
            signal,
            &Action {
                handler: IGNORE,
                ..Action::default()
            },
        );
    }
}

/// Undoes [`ignore`] when there is no new program.
pub(crate) fn reinstall(actions: &Actions, signals: u64) {
    for signal in (1..=64).filter(|&signal| bit(signal) & signals != 0) {
        actions.install(signal, &actions.get(signal));
    }
}

/// Gives the kernel the program's own dispositions, for a program that goes on natively.
pub(crate) fn hand_back(actions: &Actions) {
    let table = *actions.lock();
    for signal in 1..=64 {
        if signal != libc::SIGKILL && signal != libc::SIGSTOP {
            set_kernel_action(signal, &table[signal as usize]);
        }
    }
}

fn kernel_action(signal: i32) -> Action {
    let mut action = Action::default();
    // SAFETY: `action` has the kernel's layout.
    unsafe {
        let none = std::ptr::null::<Action>();
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            none,
            &raw mut action,
            8usize,
        );
    }
    action
}

fn set_kernel_action(signal: i32, action: &Action) {
    // SAFETY: `action` has the kernel's layout; handlers installed are the engine's.
    unsafe {
        let none = std::ptr::null_mut::<Action>();
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            &raw const *action,
            none,
            8usize,
        );
    }
}

std::arch::global_asm!(
    ".globl unspool_signal_return",
    ".hidden unspool_signal_return",
    ".type unspool_signal_return, @function",
    // Unwinders look up the byte before a return address: it must belong to no other function.
    "nop",
    "unspool_signal_return:",
    // In the very bytes by which unwinders know the end of a handler: `mov rax, 15; syscall`.
    ".byte 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05",
);

unsafe extern "C" {
    fn unspool_signal_return();
}

/// Rust's runtime ignores SIGPIPE before `main`; this remembers what it was before.
static SIGPIPE_AT_START: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

extern "C" fn remember_sigpipe() {
    let handler = kernel_action(libc::SIGPIPE).handler;
    SIGPIPE_AT_START.store(handler, std::sync::atomic::Ordering::Relaxed);
}

#[used]
// SAFETY: `.init_array` holds pointers to C functions that run before `main`.
#[unsafe(link_section = ".init_array")]
static REMEMBER_SIGPIPE: extern "C" fn() = remember_sigpipe;

fn inherited_sigpipe() -> u64 {
    SIGPIPE_AT_START.load(std::sync::atomic::Ordering::Relaxed)
}
