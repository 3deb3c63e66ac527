//! Signals that one thread has taken from the kernel and another one is to get.
//!
//! The kernel lets only a process's first thread send the process a signal with an `si_code` that
//! is the kernel's own, `kill`'s or `tgkill`'s. So such a code is moved to where no code is used,
//! and the handler that gets the signal moves it back.

use super::{PendingSignal, code, delivery, directed};

/// How far codes are moved.
const DISTANCE: i32 = 1 << 30;
/// No code is farther from 0 than this.
const FARTHEST: i32 = 1 << 16;

fn with_code(info: &[u64; 16], code: i32) -> [u64; 16] {
    /// What the kernel keeps of a `siginfo`. It refuses more than that with a code that it does
    /// not know.
    const KEPT_WORDS: usize = 6;
    let mut changed = [0; 16];
    changed[..KEPT_WORDS].copy_from_slice(&info[..KEPT_WORDS]);
    changed[1] = info[1] & !u64::from(u32::MAX) | u64::from(code as u32);
    changed
}

/// A siginfo with which any thread may send the signal.
fn sendable(info: &[u64; 16]) -> [u64; 16] {
    let code = code(info);
    let is_refused = code >= 0 || code == libc::SI_TKILL;
    match is_refused && code.abs() <= FARTHEST {
        true => with_code(info, code - DISTANCE),
        false => *info,
    }
}

/// The siginfo as it was before the signal was passed on, if it was.
#[must_use]
pub(crate) fn original(info: &[u64; 16]) -> [u64; 16] {
    let moved_back = code(info).saturating_add(DISTANCE);
    match moved_back.abs() <= FARTHEST {
        true => with_code(info, moved_back),
        false => *info,
    }
}

impl delivery::Signal for PendingSignal {
    fn number(&self) -> i32 {
        self.number
    }

    fn is_forced(&self) -> bool {
        self.fault.is_some()
    }

    fn is_for_process(&self) -> bool {
        is_for_process(self)
    }
}

/// Whether a signal that was sent is for the process, and not for one thread of it.
pub(crate) fn is_for_process(signal: &PendingSignal) -> bool {
    let is_for_thread = signal.fault.is_some()
        || signal.is_directed
        || code(&signal.info) == libc::SI_TKILL
        || directed::is_of_thread_timer(&signal.info);
    !is_for_thread
}

/// Sends the process a signal that has come to this thread. The thread blocks all signals
/// afterwards, also those of faults: the kernel chooses another one.
pub(crate) fn pass_on(number: i32, info: &[u64; 16]) {
    super::set_exact_mask(!0);
    let info = sendable(info);
    // SAFETY: a process may send itself any signal with such a siginfo.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigqueueinfo,
            libc::getpid(),
            number,
            info.as_ptr(),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(code: i32) -> [u64; 16] {
        let mut info: [u64; 16] = std::array::from_fn(|word| 100 + word as u64);
        info[1] = 0x77 << 32 | u64::from(code as u32);
        info
    }

    #[test]
    fn what_the_kernel_lets_nobody_send_has_another_code_on_the_way() {
        for refused in [
            libc::SI_USER,
            libc::SI_KERNEL,
            libc::SI_TKILL,
            libc::CLD_EXITED,
        ] {
            let sent = sendable(&info(refused));
            assert!(
                code(&sent) < 0 && code(&sent) != libc::SI_TKILL,
                "{refused}"
            );
            assert!(sent[6..].iter().all(|&word| word == 0), "{refused}");
            let got = original(&sent);
            assert_eq!(got[..6], info(refused)[..6], "{refused}");
        }
    }

    #[test]
    fn anything_else_stays_as_it_is() {
        for allowed in [libc::SI_QUEUE, libc::SI_TIMER, i32::MIN, -DISTANCE / 2] {
            assert_eq!(sendable(&info(allowed)), info(allowed), "{allowed}");
        }
        for usual in [libc::SI_USER, libc::SI_QUEUE, i32::MAX, i32::MIN] {
            assert_eq!(original(&info(usual)), info(usual), "{usual}");
        }
    }

    #[test]
    fn the_kernel_lets_any_thread_send_it() {
        // By default it is ignored.
        let send = |info: [u64; 16]| {
            let (process, number) = (std::process::id(), libc::SIGWINCH);
            // SAFETY: a siginfo of 128 bytes.
            unsafe { libc::syscall(libc::SYS_rt_sigqueueinfo, process, number, info.as_ptr()) }
        };
        let thread = std::thread::spawn(move || {
            let own = info(libc::SI_USER);
            (send(own), send(sendable(&own)))
        });
        assert_eq!(thread.join().unwrap(), (-1, 0));
    }

    #[test]
    fn the_kernel_keeps_what_came_with_it() {
        let set = super::super::bit(libc::SIGWINCH);
        let sent = sendable(&info(libc::SI_USER));
        let mut got = [0_u64; 16];
        // SAFETY: a set of 8 bytes and siginfos of 128; the mask is this thread's.
        let taken = unsafe {
            let none = std::ptr::null_mut::<u64>();
            let how = libc::SIG_BLOCK;
            libc::syscall(libc::SYS_rt_sigprocmask, how, &raw const set, none, 8_usize);
            let (process, own) = (libc::getpid(), libc::gettid());
            let (number, place) = (libc::SIGWINCH, sent.as_ptr());
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, own, number, place);
            let never = std::ptr::null::<libc::timespec>();
            let place = got.as_mut_ptr();
            libc::syscall(
                libc::SYS_rt_sigtimedwait,
                &raw const set,
                place,
                never,
                8_usize,
            )
        };
        assert_eq!(taken, i64::from(libc::SIGWINCH));
        assert_eq!(original(&got)[1..6], info(libc::SI_USER)[1..6]);
    }
}
