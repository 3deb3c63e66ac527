//! The numbers of signals in gdb's protocol, which are not Linux's (`gdb/signals.def`).

use gdbstub::common::Signal;

/// gdb's numbers of Linux's signals 1 to 31.
const LOW: [u8; 31] = [
    1, 2, 3, 4, 5, 6, 10, 8, 9, 30, 11, 31, 13, 14, 15, 143, 20, 19, 17, 18, 21, 22, 16, 24, 25,
    26, 27, 28, 23, 32, 12,
];
/// Linux's first real-time signal, which comes late in gdb's table …
const FIRST: (i32, u8) = (32, 77);
/// … the next one, with which a row begins …
const ROW: (i32, u8) = (33, 45);
/// … and the last one.
const LAST: (i32, u8) = (64, 78);
/// A signal that gdb does not know.
const UNKNOWN: u8 = 143;

/// What gdb calls one of Linux's signals.
pub(crate) fn to_gdb(number: i32) -> Signal {
    Signal(match number {
        1..=31 => LOW[number as usize - 1],
        _ if number == FIRST.0 => FIRST.1,
        _ if number == LAST.0 => LAST.1,
        33..=63 => ROW.1 + (number - ROW.0) as u8,
        _ => UNKNOWN,
    })
}

/// The inverse; `None` for what Linux does not have, and for no signal at all.
pub(crate) fn from_gdb(signal: Signal) -> Option<i32> {
    (1..=64).find(|&number| to_gdb(number) == signal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let pairs = [
            (libc::SIGSEGV, Signal::SIGSEGV),
            (libc::SIGBUS, Signal::SIGBUS),
            (libc::SIGUSR1, Signal::SIGUSR1),
            (libc::SIGUSR2, Signal::SIGUSR2),
            (libc::SIGCHLD, Signal::SIGCHLD),
            (libc::SIGCONT, Signal::SIGCONT),
            (libc::SIGSTOP, Signal::SIGSTOP),
            (libc::SIGTSTP, Signal::SIGTSTP),
            (libc::SIGURG, Signal::SIGURG),
            (libc::SIGIO, Signal::SIGIO),
            (libc::SIGSYS, Signal::SIGSYS),
            (libc::SIGPWR, Signal::SIGPWR),
            (libc::SIGWINCH, Signal::SIGWINCH),
            (34, Signal::SIG34),
            (63, Signal::SIG63),
            (64, Signal::SIG64),
            (32, Signal::SIG32),
        ];
        for (linux, gdb) in pairs {
            assert_eq!(to_gdb(linux), gdb, "{linux}");
            assert_eq!(from_gdb(gdb), Some(linux));
        }
        assert_eq!(from_gdb(Signal(0)), None);
        assert_eq!(from_gdb(Signal(UNKNOWN)), Some(libc::SIGSTKFLT));
    }
}
